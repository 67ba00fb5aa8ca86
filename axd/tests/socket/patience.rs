//! What clients do not do: send on, read, stay.

use std::net::Shutdown;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::harness::{Harness, patient, wait_for};
use axd::api::server::Limits;

#[test]
fn a_byte_at_a_time_ends_by_time_and_harms_nobody() {
    let harness = Harness::start(Limits { request_ms: 500, ..patient() });
    let mut slow = harness.connect();
    let mut sent = 0;
    for byte in "GET /echo HTTP/1.1\r\nA: ".bytes().chain(std::iter::repeat(b'b')) {
        if slow.push([byte]).is_err() || sent > 10_000 {
            break;
        }
        sent += 1;
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(harness.get("/echo").status, 200);
    }
    assert!(sent > 3, "{sent}");
    assert_eq!(slow.answer().status, 408);
}

#[test]
fn half_requests_end_by_time() {
    let harness = Harness::start(Limits { request_ms: 100, ..patient() });
    for half in ["G", "GET / HTTP/1.1\r\nA: b\r\n", "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nabc"] {
        let mut client = harness.connect();
        let answer = client.ask(half);
        assert_eq!(answer.status, 408);
        assert!(answer.text().contains("\"class\":\"try_again\""), "{answer:?}");
    }
}

#[test]
fn silent_connections_are_closed() {
    let harness = Harness::start(Limits { idle_ms: 100, ..patient() });
    assert_eq!(harness.connect().try_answer().unwrap(), None);
    let mut client = harness.connect();
    if client.push("GET /echo HTTP/1.1\r\n\r\n").is_ok() {
        let _ = client.try_answer();
    }
    assert_eq!(client.try_answer().unwrap(), None);
}

#[test]
fn whoever_waits_for_room_too_long_is_told() {
    let harness = Harness::start(Limits { user_bytes: 1000, request_ms: 1_500, ..patient() });
    let mut first = harness.connect();
    first.send("POST /hold HTTP/1.1\r\nContent-Length: 100000\r\n\r\n");
    // Once somebody else is answered, the server has seen the head.
    assert_eq!(harness.get("/echo").status, 200);
    first.send(vec![1; 100_000]);
    wait_for("held", || harness.counters.held.load(SeqCst) == 1);
    let mut second = harness.connect();
    let answer = second.ask("POST /echo HTTP/1.1\r\nContent-Length: 200000\r\n\r\n");
    assert_eq!(answer.status, 503);
    assert_eq!(harness.get("/release").status, 200);
    assert_eq!(first.answer().status, 200);
}

#[test]
fn unread_answers_end_by_time() {
    let harness = Harness::start(Limits { write_ms: 200, ..patient() });
    let mut client = harness.connect();
    client.send("GET /long?bytes=5000000 HTTP/1.1\r\n\r\n");
    wait_for("counted", || harness.counters.connections.load(SeqCst) == 1);
    wait_for("closed", || harness.counters.connections.load(SeqCst) == 0);
    assert_eq!(client.try_answer().unwrap(), None, "cut short");
    assert_eq!(harness.get("/echo").status, 200);
}

#[test]
fn a_slow_reader_gets_all() {
    let harness = Harness::start(patient());
    let mut client = harness.connect();
    client.send("GET /long?bytes=5000000 HTTP/1.1\r\n\r\n");
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(client.answer().body.len(), 5_000_000);
}

#[test]
fn a_hang_up_during_a_long_wait_is_reported() {
    let harness = Harness::start(patient());
    let mut clients: Vec<_> = (0..3).map(|_| harness.connect()).collect();
    for client in &mut clients {
        client.send("GET /hold HTTP/1.1\r\n\r\n");
    }
    wait_for("held", || harness.counters.held.load(SeqCst) == 3);
    // One hangs up, one only says that it sends no more, one has sent more.
    drop(clients.remove(0));
    clients[0].stream.shutdown(Shutdown::Write).unwrap();
    clients[1].send("GET /more HTTP/1.1\r\n\r\n");
    wait_for("gone", || harness.counters.gone.load(SeqCst) == 1);
    let turns = harness.counters.turns.load(SeqCst);
    std::thread::sleep(Duration::from_millis(200));
    assert!(harness.counters.turns.load(SeqCst) < turns + 20, "the loop sleeps meanwhile");
    assert_eq!(harness.get("/release").status, 200);
    assert_eq!(clients[0].answer().text(), "\"released\"");
    assert_eq!(clients[0].try_answer().unwrap(), None);
    assert_eq!(clients[1].answer().text(), "\"released\"");
    assert_eq!(clients[1].answer().status, 200);
}

#[test]
fn a_hang_up_is_noticed_even_behind_more_input() {
    let harness = Harness::start(patient());
    let mut client = harness.connect();
    client.send("GET /hold HTTP/1.1\r\n\r\n");
    wait_for("held", || harness.counters.held.load(SeqCst) == 1);
    client.send("GET /more HTTP/1.1\r\n\r\n");
    drop(client);
    wait_for("gone", || harness.counters.gone.load(SeqCst) == 1);
    wait_for("closed", || harness.counters.connections.load(SeqCst) == 0);
}

#[test]
fn nothing_to_do_costs_nothing() {
    let harness = Harness::start(patient());
    let mut client = harness.connect();
    assert_eq!(client.ask("GET /echo HTTP/1.1\r\n\r\n").status, 200);
    let turns = harness.counters.turns.load(SeqCst);
    std::thread::sleep(Duration::from_millis(300));
    assert!(harness.counters.turns.load(SeqCst) <= turns + 2);
}
