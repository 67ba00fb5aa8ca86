//! From the bytes of a terminal to keys. A sequence may come in pieces; an unknown one is skipped as a whole.

/// A key that matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Enter,
    Escape,
    Backspace,
    Tab,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-Z.
    Halt,
    /// Ctrl-L.
    Redraw,
}

/// Reads keys off the front of what has come. An escape alone at the end is the key of that name only if nothing
/// follows in time, which the caller knows (`all`).
pub(super) fn read(bytes: &mut Vec<u8>, all: bool) -> Vec<Key> {
    let mut keys = Vec::new();
    loop {
        match next(bytes, all) {
            Some((0, _)) | None => return keys,
            Some((used, key)) => {
                bytes.drain(..used);
                keys.extend(key);
            }
        }
    }
}

/// How many bytes make the next key, and which; `None` while more must come.
fn next(bytes: &[u8], all: bool) -> Option<(usize, Option<Key>)> {
    let known = |key| Some((1, Some(key)));
    match bytes {
        [] => None,
        [0x1b, b'[' | b'O', ..] => sequence(bytes, all),
        [0x1b, next, ..] if *next != 0x1b => Some((2, None)),
        [0x1b] if !all => None,
        [0x1b, ..] => known(Key::Escape),
        [b'\r' | b'\n', ..] => known(Key::Enter),
        [b'\t', ..] => known(Key::Tab),
        [0x7f | 0x08, ..] => known(Key::Backspace),
        [0x03, ..] => known(Key::Interrupt),
        [0x1a, ..] => known(Key::Halt),
        [0x0c, ..] => known(Key::Redraw),
        [first, ..] if *first < 0x20 => Some((1, None)),
        _ => character(bytes, all),
    }
}

/// `ESC [ … letter` or `ESC O letter`.
fn sequence(bytes: &[u8], all: bool) -> Option<(usize, Option<Key>)> {
    let end = bytes.iter().skip(2).position(|byte| (0x40..=0x7e).contains(byte));
    let Some(end) = end else { return all.then_some((bytes.len(), None)) };
    let key = match bytes.get(2..end + 3)? {
        b"A" => Some(Key::Up),
        b"B" => Some(Key::Down),
        b"H" | b"1~" | b"7~" => Some(Key::Home),
        b"F" | b"4~" | b"8~" => Some(Key::End),
        b"5~" => Some(Key::PageUp),
        b"6~" => Some(Key::PageDown),
        _ => None,
    };
    Some((end + 3, key))
}

fn character(bytes: &[u8], all: bool) -> Option<(usize, Option<Key>)> {
    let length = match bytes.first()? {
        0x00..=0x7f => 1,
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf7 => 4,
        _ => return Some((1, None)),
    };
    let Some(whole) = bytes.get(..length) else { return all.then_some((bytes.len(), None)) };
    let c = std::str::from_utf8(whole).ok().and_then(|text| text.chars().next());
    // One that is broken is skipped byte by byte.
    c.map_or(Some((1, None)), |c| Some((length, (!c.is_control()).then_some(Key::Char(c)))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        read(&mut bytes.to_vec(), true)
    }

    #[test]
    fn keys_are_read_however_they_are_sent() {
        let all = b"j\x1b[A\x1bOB\x1b[5~\x1b[6~\x1b[H\x1b[4~\r\x7f\t\x03";
        let expected = [
            Key::Char('j'),
            Key::Up,
            Key::Down,
            Key::PageUp,
            Key::PageDown,
            Key::Home,
            Key::End,
            Key::Enter,
            Key::Backspace,
            Key::Tab,
            Key::Interrupt,
        ];
        assert_eq!(keys(all), expected);
        let (mut bytes, mut read_so_far) = (Vec::new(), Vec::new());
        for byte in all {
            bytes.push(*byte);
            read_so_far.extend(read(&mut bytes, false));
        }
        assert_eq!(read_so_far, expected);
    }

    #[test]
    fn an_escape_is_a_key_if_nothing_follows() {
        assert_eq!(read(&mut b"\x1b".to_vec(), false), []);
        assert_eq!(keys(b"\x1b"), [Key::Escape]);
        assert_eq!(keys(b"\x1b\x1b"), [Key::Escape, Key::Escape]);
    }

    #[test]
    fn what_is_not_known_is_skipped_as_a_whole() {
        assert_eq!(keys(b"\x1b[1;5Dq\x1b[200~\x1bxq\x00q"), [Key::Char('q'); 3]);
        assert_eq!(keys("ü日".as_bytes()), [Key::Char('ü'), Key::Char('日')]);
        assert_eq!(keys(b"\xffq\xc3"), [Key::Char('q')]);
    }

    #[test]
    fn any_bytes_come_to_an_end() {
        let mut state = 1_u32;
        for length in 0..300 {
            let next = |_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state.to_be_bytes()[0]
            };
            let mut bytes: Vec<u8> = (0..length).map(next).collect();
            read(&mut bytes, true);
            assert!(bytes.is_empty(), "{bytes:?}");
        }
    }
}
