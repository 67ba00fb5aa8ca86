//! The parser under valid, damaged and random bytes: it never panics, and however the bytes were split
//! on their way, the outcome is the same.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use axd::api::http::{BODY_MAX, Framing, HEAD_MAX, Method, Missing, Parsed, Request, parse};
use proptest::prelude::*;

fn request(bytes: &[u8]) -> (Request, Framing) {
    match parse(bytes) {
        Parsed::Request(request, framing) => (request, framing),
        other => panic!("{other:?} for {}", bytes.escape_ascii()),
    }
}

fn refused(bytes: &[u8]) -> u16 {
    match parse(bytes) {
        Parsed::Bad(refusal) => refusal.status,
        other => panic!("{other:?} for {}", bytes.escape_ascii()),
    }
}

#[test]
fn reads_a_submission() {
    let bytes =
        b"\r\nPOST /api/v1/jobs?user=a&user=b HTTP/1.1\r\nHost: ax\r\ncontent-length: 3\r\n\r\n{}\nGET";
    let (request, framing) = request(bytes);
    assert_eq!((request.method, request.path.as_str()), (Method::Post, "/api/v1/jobs"));
    assert_eq!(request.values("user").collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(request.body, b"{}\n");
    let used = bytes.len() - 3;
    assert_eq!(framing, Framing { used, keep_alive: true, head_only: false });
}

#[test]
fn reads_what_is_said_about_the_connection() {
    let framing = |text: &str| request(text.as_bytes()).1;
    assert!(!framing("GET / HTTP/1.0\r\n\r\n").keep_alive);
    assert!(!framing("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").keep_alive);
    assert!(!framing("GET / HTTP/1.1\r\nConnection: x, Close\r\n\r\n").keep_alive);
    assert!(framing("GET / HTTP/1.1\nConnection: Keep-Alive\n\n").keep_alive);
    assert!(framing("HEAD / HTTP/1.1\r\n\r\n").head_only);
}

#[test]
fn says_what_is_missing() {
    assert_eq!(parse(b""), Parsed::NeedMore(Missing::Head));
    assert_eq!(parse(b"\r"), Parsed::NeedMore(Missing::Head));
    assert_eq!(parse(b"GET / HTTP/1.1\r\nA: b\r\n"), Parsed::NeedMore(Missing::Head));
    let head = format!("PUT / HTTP/1.1\r\nExpect: 100-Continue\r\nContent-Length: {BODY_MAX}\r\n\r\n");
    let missing = Missing::Body { total: head.len() + BODY_MAX, expects_continue: true };
    assert_eq!(parse(head.as_bytes()), Parsed::NeedMore(missing));
}

#[test]
fn refuses_ambiguous_and_unknown_framing() {
    let with = |headers: &str| refused(format!("POST / HTTP/1.1\r\n{headers}\r\n\r\n").as_bytes());
    assert_eq!(with("Content-Length: 1\r\nContent-Length: 2"), 400);
    assert_eq!(with("Content-Length: 1\r\nContent-Length: 1"), 400);
    assert_eq!(with("Content-Length: 1, 1"), 400);
    for value in ["", "+1", "-1", "0x1", "1 1", "\u{661}"] {
        assert_eq!(with(&format!("Content-Length: {value}")), 400, "{value}");
    }
    assert_eq!(with(&format!("Content-Length: {}", BODY_MAX + 1)), 413);
    assert_eq!(with("Content-Length: 99999999999999999999999999"), 413);
    assert_eq!(with("Transfer-Encoding: chunked"), 411);
    assert_eq!(with("Transfer-Encoding: gzip, chunked"), 501);
    assert_eq!(with("Transfer-Encoding: chunked\r\nContent-Length: 1"), 400);
    assert_eq!(with("Expect: a miracle"), 417);
}

#[test]
fn refuses_bad_heads() {
    for line in ["GET", "GET /", "get / HTTP/1.1", "OPTIONS * HTTP/1.1", "CONNECT a:1 HTTP/1.1"] {
        assert!(refused(format!("{line}\r\n\r\n").as_bytes()) >= 400, "{line}");
    }
    assert_eq!(refused(b"BREW / HTTP/1.1\r\n\r\n"), 501);
    assert_eq!(refused(b"GET / HTTP/2.0\r\n\r\n"), 505);
    for bytes in [
        &b"\x16\x03\x01\x02"[..],
        b"\0",
        b"\n",
        b"\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        b"GET http://ax/ HTTP/1.1\r\n\r\n",
        b"GET /a\0b HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: \0\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: \x1b[m\r\n\r\n",
        b"GET / HTTP/1.1\r\nA : b\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
    ] {
        assert_eq!(refused(bytes), 400, "{}", bytes.escape_ascii());
    }
}

#[test]
fn refuses_long_heads_and_many_headers() {
    let head = |filler: usize| format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(filler));
    let most = HEAD_MAX - head(0).len();
    assert_eq!(request(head(most).as_bytes()).1.used, HEAD_MAX);
    assert_eq!(refused(head(most + 1).as_bytes()), 431);
    assert_eq!(refused(&b"a".repeat(HEAD_MAX)), 431);
    let headers = |count| format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(count));
    request(headers(64).as_bytes());
    assert_eq!(refused(headers(65).as_bytes()), 431);
}

/// Words that requests are made of, whole and broken, so that random texts get far.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let words = [
        "GET ",
        "POST ",
        "HEAD ",
        "/",
        "/a%20b",
        "/%",
        "?q=1&q=%00",
        " HTTP/1.1",
        " HTTP/1.0",
        " HTTP/",
        "\r\n",
        "\r\n\r\n",
        "\n",
        "\r",
        "Content-Length: ",
        "3",
        "0",
        "8388609",
        "Connection: close",
        "Expect: 100-continue",
        "Transfer-Encoding: chunked",
        "A: b",
        ": ",
        " ",
        "abc",
        "\0",
        "é",
    ];
    let word = prop_oneof![
        8 => prop::sample::select(words.to_vec()).prop_map(|word| word.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..6),
        1 => (any::<u8>(), 0..20_000_usize).prop_map(|(byte, count)| vec![byte; count]),
    ];
    prop::collection::vec(word, 0..24).prop_map(|words| words.concat())
}

/// A request as it should be.
fn valid() -> impl Strategy<Value = Vec<u8>> {
    let header = ("[A-Za-z-]{1,12}", "[ -~]{0,20}").prop_map(|(name, value)| format!("X{name}: {value}\r\n"));
    let headers = prop::collection::vec(header, 0..8).prop_map(|headers| headers.concat());
    let body = prop::collection::vec(any::<u8>(), 0..300);
    ("(GET|POST|DELETE)", "/[a-z0-9/]{0,20}", headers, body).prop_map(|(method, path, headers, body)| {
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\n{headers}Content-Length: {length}\r\n\r\n");
        [head.into_bytes(), body].concat()
    })
}

/// A valid request with one byte changed.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    (valid(), any::<prop::sample::Index>(), any::<u8>()).prop_map(|(mut bytes, at, byte)| {
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bytes
    })
}

fn anything() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![pieces(), valid(), damaged(), prop::collection::vec(any::<u8>(), 0..200)]
}

/// What a connection sees that gets the bytes in these parts.
fn parse_in_parts(bytes: &[u8], cuts: &[prop::sample::Index]) -> Parsed {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    ends.sort_unstable();
    let outcomes = ends.iter().map(|end| parse(&bytes[..*end]));
    let last = || parse(bytes);
    outcomes.into_iter().find(|outcome| !matches!(outcome, Parsed::NeedMore(_))).unwrap_or_else(last)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn splits_change_nothing(bytes in anything(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
        prop_assert_eq!(parse_in_parts(&bytes, &cuts), parse(&bytes));
    }

    #[test]
    fn what_follows_changes_nothing(bytes in anything(), rest in prop::collection::vec(any::<u8>(), 0..50)) {
        let alone = parse(&bytes);
        if !matches!(alone, Parsed::NeedMore(_)) {
            prop_assert_eq!(parse(&[bytes, rest].concat()), alone);
        }
    }

    #[test]
    fn valid_requests_are_taken_whole(bytes in valid()) {
        let (_, framing) = request(&bytes);
        prop_assert_eq!(framing.used, bytes.len());
    }
}
