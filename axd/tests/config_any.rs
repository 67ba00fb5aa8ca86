//! Any bytes are a configuration or findings: nothing panics or hangs.

use proptest::prelude::*;

/// Pieces of YAML in any order come closer to its rules than bytes alone.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "cluster",
        "policy",
        "queues",
        "name",
        "retry_count",
        ": ",
        ":\n",
        "\n",
        "  ",
        "- ",
        "[",
        "]",
        "{",
        "}",
        "\"",
        "'",
        "&a ",
        "*a",
        "<<",
        "!!int ",
        "|\n",
        ">\n",
        "# ",
        "1",
        "true",
        "~",
        "\t",
        "---\n",
        "%",
        "? ",
        "é",
    ]);
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = axd::config::interpret(&bytes);
    }

    #[test]
    fn pieces_never_panic(text in pieces()) {
        if let Err(findings) = axd::config::interpret(text.as_bytes()) {
            prop_assert!(!findings.is_empty());
            for finding in findings {
                prop_assert!(!finding.line("c").contains('\n'));
            }
        }
    }
}
