//! Reads files that gzip made: a head, the compressed text, its length. One part in each file.

use miniz_oxide::inflate::decompress_to_vec_with_limit;

/// No workload is longer, in bytes.
const MOST: usize = 1 << 30;

/// Flags of the head: a check sum, further fields, a name, a remark follow.
const CHECKED: u8 = 2;
const EXTRA: u8 = 4;
const NAMED: u8 = 8;
const REMARK: u8 = 16;

/// Whether the bytes begin as gzip's files do.
pub(super) fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b, 8])
}

/// What was compressed; `None`: the file is damaged, of several parts, or too large.
pub(super) fn unpacked(bytes: &[u8]) -> Option<Vec<u8>> {
    let (body, tail) = bytes.split_at_checked(bytes.len().checked_sub(8)?)?;
    let text = decompress_to_vec_with_limit(after_head(body)?, MOST).ok()?;
    let length = u32::from_le_bytes(tail.get(4..)?.try_into().ok()?);
    (text.len() as u64 == u64::from(length)).then_some(text)
}

fn after_head(bytes: &[u8]) -> Option<&[u8]> {
    let flags = *bytes.get(3)?;
    let mut rest = bytes.get(10..)?;
    if flags & EXTRA != 0 {
        let length = u16::from_le_bytes(rest.get(..2)?.try_into().ok()?);
        rest = rest.get(2 + usize::from(length)..)?;
    }
    for text in [NAMED, REMARK] {
        if flags & text != 0 {
            let end = rest.iter().position(|byte| *byte == 0)?;
            rest = rest.get(end + 1..)?;
        }
    }
    if flags & CHECKED != 0 { rest.get(2..) } else { Some(rest) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `printf 'id,arrive,runtime\n1,0,5\n' | gzip -n`, and with the name `w.csv`.
    fn packed(named: bool) -> Vec<u8> {
        let text = b"id,arrive,runtime\n1,0,5\n";
        let mut bytes = vec![0x1f, 0x8b, 8, if named { NAMED } else { 0 }, 0, 0, 0, 0, 0, 3];
        if named {
            bytes.extend_from_slice(b"w.csv\0");
        }
        bytes.extend(miniz_oxide::deflate::compress_to_vec(text, 6));
        bytes.extend([0; 4]);
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes
    }

    #[test]
    fn what_gzip_packed_is_unpacked() {
        for named in [false, true] {
            assert!(is_gzip(&packed(named)));
            assert_eq!(unpacked(&packed(named)).unwrap(), b"id,arrive,runtime\n1,0,5\n");
        }
        let whole = packed(true);
        for cut in 0..whole.len() {
            assert_eq!(unpacked(&whole[..cut]), None, "the first {cut} bytes");
        }
    }
}
