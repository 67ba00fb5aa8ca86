//! Base 64 (RFC 4648, section 4), for scripts that are no UTF-8. Decoding only.

/// The bytes of a text in base 64 with padding; `None` if it is none.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let padding = text.iter().rev().take_while(|b| **b == b'=').count();
    let digits = text.get(..text.len() - padding).filter(|_| padding <= 2)?;
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    for group in digits.chunks(4) {
        let mut bits = 0u32;
        for byte in group {
            bits = (bits << 6) | u32::from(value(*byte)?);
        }
        bits <<= 6 * (4 - group.len());
        let [_, bytes @ ..] = bits.to_be_bytes();
        out.extend_from_slice(bytes.get(..group.len() - 1)?);
    }
    Some(out)
}

fn value(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rfc_s_own_examples() {
        for (text, bytes) in [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYg==", "foob"),
            ("Zm9vYmFy", "foobar"),
        ] {
            assert_eq!(decode(text).as_deref(), Some(bytes.as_bytes()));
        }
        for text in ["Z", "Zg=", "====", "Zg==Zg==", "Z g=", "Zm9v\n"] {
            assert_eq!(decode(text), None, "{text:?}");
        }
    }
}
