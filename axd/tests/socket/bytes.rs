//! What clients send: long, short, many, broken.

use std::io::Write;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::harness::{Harness, PATIENCE, patient, wait_for};
use axd::api::server::Limits;

fn post(length: usize) -> String {
    format!("POST /echo HTTP/1.1\r\nContent-Length: {length}\r\n\r\n")
}

#[test]
fn answers_and_keeps_the_connection() {
    let harness = Harness::start(patient());
    let own = ax_sys::credentials::own().0;
    let mut client = harness.connect();
    for _ in 0..3 {
        let answer = client.ask(&format!("{}abc", post(3)));
        assert_eq!((answer.status, answer.text()), (200, format!("[\"/echo\",{own},3,294]")));
    }
    assert_eq!(client.ask("GET /bye HTTP/1.1\r\nConnection: close\r\n\r\n").status, 200);
    assert_eq!(client.try_answer().unwrap(), None);
}

#[test]
fn takes_the_longest_body_and_no_longer() {
    let harness = Harness::start(patient());
    let most = 8 * 1024 * 1024;
    let mut client = harness.connect();
    client.send(post(most));
    client.send(vec![1; most]);
    assert!(client.answer().text().ends_with(&format!(",{most},{most}]")));

    let mut client = harness.connect();
    client.send(post(most + 1));
    // The server listens for a while, or has hung up: either way its reason can be read.
    let _ = client.push(vec![1; most + 1]);
    let answer = client.answer();
    assert_eq!(answer.status, 413);
    assert!(answer.text().contains("\"class\":\"data\""), "{answer:?}");
    assert_eq!(harness.get("/echo").status, 200);
}

#[test]
fn refuses_long_heads() {
    let harness = Harness::start(patient());
    let mut client = harness.connect();
    let _ = client.push(format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(1 << 20)));
    assert_eq!(client.answer().status, 431);
    let mut client = harness.connect();
    let _ = client.push(format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(100)));
    assert_eq!(client.answer().status, 431);
}

#[test]
fn tells_clients_to_go_on() {
    let harness = Harness::start(patient());
    let mut client = harness.connect();
    client.send("POST /echo HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    assert_eq!(client.answer().status, 100);
    client.send("abc");
    assert_eq!(client.answer().status, 200);
}

#[test]
fn answers_pipelined_requests_in_order() {
    let harness = Harness::start(patient());
    let mut client = harness.connect();
    let count = 3000;
    let all: String = (0..count).map(|number| format!("GET /{number} HTTP/1.1\r\n\r\n")).collect();
    let mut stream = client.stream.try_clone().unwrap();
    let writer = std::thread::spawn(move || stream.write_all(all.as_bytes()).unwrap());
    for number in 0..count {
        let answer = client.answer();
        assert!(answer.text().starts_with(&format!("[\"/{number}\",")), "{answer:?}");
    }
    writer.join().unwrap();
}

#[test]
fn requests_behind_one_that_waits_wait() {
    let harness = Harness::start(patient());
    let mut client = harness.connect();
    client.send("GET /hold HTTP/1.1\r\n\r\n");
    wait_for("held", || harness.counters.held.load(SeqCst) == 1);
    client.send("GET /next HTTP/1.1\r\n\r\n");
    assert_eq!(harness.get("/release").status, 200);
    assert_eq!(client.answer().text(), "\"released\"");
    assert!(client.answer().text().starts_with("[\"/next\""));
}

#[test]
fn answers_garbage_with_an_error() {
    let harness = Harness::start(patient());
    let mut state: u64 = 1;
    for round in 0..300_usize {
        let garbage: Vec<u8> = (0..=round)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        let mut client = harness.connect();
        let _ = client.push([b"\x01", garbage.as_slice()].concat());
        assert_eq!(client.answer().status, 400);
    }
    assert_eq!(harness.get("/echo").status, 200);
}

#[test]
fn bodies_of_a_user_wait_for_room() {
    let limits = Limits { user_bytes: 500_000, ..patient() };
    let harness = Harness::start(limits);
    let body = vec![1; 400_000];
    let (first_half, second_half) = body.split_at(100_000);
    let mut first = harness.connect();
    first.send(post(body.len()));
    first.send(first_half);
    // Once somebody else is answered, the server has seen the first head.
    assert_eq!(harness.get("/echo").status, 200);
    let mut others = [harness.connect(), harness.connect()];
    for other in &mut others {
        // What fits the socket's own buffer, so that this does not block.
        other.send(post(body.len()));
        other.send(first_half);
        assert_eq!(harness.get("/echo").status, 200);
    }
    others[1].stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(others[1].try_answer().is_err(), "it waits");
    others[1].stream.set_read_timeout(Some(PATIENCE)).unwrap();
    first.send(second_half);
    assert_eq!(first.answer().status, 200);
    for other in &mut others {
        other.send(second_half);
        assert_eq!(other.answer().status, 200);
    }
}

#[test]
fn unread_answers_of_a_user_are_bounded() {
    let harness = Harness::start(Limits { user_bytes: 1_000_000, ..patient() });
    let mut first = harness.connect();
    // One may be longer than the bound.
    first.send("GET /long?bytes=3000000 HTTP/1.1\r\n\r\n");
    assert_eq!(harness.get("/echo").status, 200);
    let answer = harness.get("/long?bytes=900000");
    assert_eq!((answer.status, answer.text().contains("unread")), (503, true));
    assert_eq!(first.answer().body.len(), 3_000_000);
    assert_eq!(harness.get("/long?bytes=900000").status, 200);
}
