//! The target of a request: path and query, percent-decoded.
//!
//! Only the origin form (`/path?query`) exists here. The parts are text and nothing more: nobody may use
//! them as a file's path.

use super::Refusal;
use ax_core::api::ErrorClass;

/// A target taken apart.
pub(super) struct Target {
    pub(super) path: String,
    pub(super) query: Vec<(String, String)>,
}

/// Takes a target apart.
pub(super) fn split(target: &str) -> Result<Target, Refusal> {
    if !target.starts_with('/') {
        return Err(bad("the target must be a path that begins with '/'"));
    }
    if !target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        return Err(bad("the target holds a character that must be percent-encoded"));
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Ok(Target { path: decode_path(path)?, query: decode_query(query)? })
}

fn decode_path(raw: &str) -> Result<String, Refusal> {
    let path = decode(raw, Plus::Literal)?;
    if path.chars().any(char::is_control) {
        return Err(bad("the path holds a control character"));
    }
    // An encoded slash would be taken for a border between segments.
    if path.matches('/').count() != raw.matches('/').count() {
        return Err(bad("the path holds an encoded '/'"));
    }
    Ok(path)
}

fn decode_query(raw: &str) -> Result<Vec<(String, String)>, Refusal> {
    let pairs = raw.split('&').filter(|pair| !pair.is_empty());
    let decoded = pairs.map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decode(name, Plus::Blank)?, decode(value, Plus::Blank)?);
        if name.contains('\0') || value.contains('\0') {
            return Err(bad("the query holds a NUL"));
        }
        Ok((name, value))
    });
    decoded.collect()
}

/// What a `+` stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Plus {
    /// Itself.
    Literal,
    /// A blank, as forms have it.
    Blank,
}

/// Decodes `%XX`, and `+`.
fn decode(raw: &str, plus: Plus) -> Result<String, Refusal> {
    let mut decoded = Vec::with_capacity(raw.len());
    let mut rest = raw.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        match first {
            b'%' => {
                let (byte, tail) = escape(tail).ok_or_else(|| bad("'%' without two hexadecimal digits"))?;
                decoded.push(byte);
                rest = tail;
            }
            b'+' if plus == Plus::Blank => decoded.push(b' '),
            other => decoded.push(*other),
        }
    }
    String::from_utf8(decoded).map_err(|_| bad("the target is not UTF-8"))
}

fn escape(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let [high, low, tail @ ..] = bytes else { return None };
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let value = digit(high)? * 16 + digit(low)?;
    Some((u8::try_from(value).ok()?, tail))
}

fn bad(text: &str) -> Refusal {
    Refusal::new(400, ErrorClass::Usage, text)
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn decodes_paths_and_queries() {
        let target = split("/api/v1/jobs/ax-2026-0001_%5B1-5%5D?user=a+b&user=%c3%a4&all&x=%2B&&=").unwrap();
        assert_eq!(target.path, "/api/v1/jobs/ax-2026-0001_[1-5]");
        let expected = [("user", "a b"), ("user", "ä"), ("all", ""), ("x", "+"), ("", "")];
        assert_eq!(target.query, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn refuses_what_is_no_plain_path() {
        for target in
            ["", "*", "http://host/", "x", "/a#b", "/a%", "/a%4", "/a%zz", "/%00", "/%0a", "/a%2Fb", "/%ff"]
        {
            assert!(split(target).is_err(), "{target}");
        }
        assert!(split("/a?b=%00").is_err() && split("/a?b=%ff").is_err());
        assert!(split("/\u{e4}").is_err());
    }
}
