//! Sizes of memory as people write them. GPU sizes are decimal, as cards are sold, and a bare number is GB; host
//! sizes are powers of 1024, and a bare number is MB. `GiB` is a power of 1024 in both.

use crate::id::BadName;
use crate::size::Megabytes;

const GPU_SIZE: &str = "a size of GPU memory: 40 (GB), 40G, 1.5G or 512M";
const HOST_SIZE: &str = "a size of memory: 2048 (MB), 4G, 1.5G or 512M";

/// The largest size, in bytes: 2^60.
const MAX_BYTES: u128 = 1 << 60;

/// Digits after the point that are read.
const MAX_PLACES: usize = 9;

/// Reads a size of GPU memory: `K M G T` are powers of 1000, with `iB` of
/// 1024; a bare number is GB (10^9 bytes). The result is rounded **down** to
/// whole megabytes, so that twice the half of a card never exceeds the card.
///
/// # Errors
/// When the text is not a size, is less than a megabyte or more than 2^60 bytes.
pub fn gpu_size(text: &str) -> Result<Megabytes, BadName> {
    let size = read(text, 1000, 3).map(|size| Megabytes((size.parts / size.parts_in_mb) as u64));
    let size = size.filter(|size| *size > Megabytes::ZERO);
    size.ok_or_else(|| BadName { text: text.to_owned(), expected: GPU_SIZE })
}

/// Reads a size of host memory: `K M G T` are powers of 1024; a bare number is
/// MB. The result is rounded **up** to whole megabytes, as Slurm does.
///
/// # Errors
/// When the text is not a size or more than 2^60 bytes.
pub fn host_size(text: &str) -> Result<Megabytes, BadName> {
    let size = read(text, 1024, 2).map(|size| Megabytes(size.parts.div_ceil(size.parts_in_mb) as u64));
    size.ok_or_else(|| BadName { text: text.to_owned(), expected: HOST_SIZE })
}

/// Writes a size of GPU memory as it was most likely asked for, so that it is read the same: `40G`, `0.5G`, else `38147MiB`.
pub fn format_gpu_size(size: Megabytes) -> String {
    const TENTH: u64 = 100_000_000;
    let tenths = size.bytes().div_ceil(TENTH);
    match (Megabytes::from_bytes(tenths.saturating_mul(TENTH)) == size, tenths % 10) {
        (false, _) => format_size(size),
        (true, 0) => format!("{}G", tenths / 10),
        (true, part) => format!("{}.{part}G", tenths / 10),
    }
}

/// Writes a size so that it is read the same as GPU and as host memory: `38146MiB`.
pub fn format_size(size: Megabytes) -> String {
    format!("{}MiB", size.0)
}

/// An exact amount, as whole parts of a megabyte, so that rounding is the caller's.
struct Exact {
    parts: u128,
    parts_in_mb: u128,
}

/// `base` is that of a suffix without `i`, `bare` the power that a number
/// without suffix has.
fn read(text: &str, base: u128, bare: u32) -> Option<Exact> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (base, power) = unit(suffix, base, bare)?;
    let (whole, fraction) = number.split_once('.').map_or((number, None), |(w, f)| (w, Some(f)));
    let (fraction, places) = match fraction {
        None => (0, 0),
        Some(text) if text.len() <= MAX_PLACES => (super::digits(text)?, text.len()),
        Some(_) => return None,
    };
    let scale = 10u128.pow(places as u32);
    let value = u128::from(super::digits(whole)?) * scale + u128::from(fraction);
    let parts = value.checked_mul(base.pow(power))?;
    (parts / scale <= MAX_BYTES).then_some(Exact { parts, parts_in_mb: scale << 20 })
}

/// The base and the power that a suffix means.
fn unit(suffix: &str, base: u128, bare: u32) -> Option<(u128, u32)> {
    let suffix = suffix.to_ascii_lowercase();
    let Some(letter) = suffix.chars().next() else { return Some((base, bare)) };
    let power = 1 + "kmgt".find(letter)? as u32;
    match &suffix[1..] {
        "" | "b" => Some((base, power)),
        "ib" => Some((1024, power)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_memory_is_binary_and_rounds_up() {
        for (text, mb) in [
            ("1", 1),
            ("0", 0),
            ("1K", 1),
            ("1g", 1024),
            ("1gb", 1024),
            ("1GB", 1024),
            ("1GiB", 1024),
            ("4096mb", 4096),
            ("1.5G", 1536),
            ("2T", 2 << 20),
            ("0.5", 1),
        ] {
            assert_eq!(host_size(text), Ok(Megabytes(mb)), "{text}");
        }
        for text in
            ["", "G", "1P", "1Gn", "1e3", "-1", "1.", ".5G", "1.5.2G", "1 G", "1Gé", "é", "1GBB", "1iB"]
        {
            assert!(host_size(text).is_err(), "{text}");
        }
        for text in ["99999999999999999999", "2000000T", "1.0000000001G"] {
            assert!(host_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn gpu_memory_is_decimal_and_rounds_down() {
        for (text, mb) in
            [("80", 76_293), ("80G", 76_293), ("80000M", 76_293), ("40", 38_146), ("1GiB", 1024)]
        {
            assert_eq!(gpu_size(text), Ok(Megabytes(mb)), "{text}");
        }
        for text in ["0", "1K", "0.0001", ""] {
            assert!(gpu_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn parts_of_a_card_fit_the_card() {
        for card in 1..=300u64 {
            let whole = gpu_size(&card.to_string()).unwrap();
            for parts in 1..=8u64 {
                let thousandths = card * 1000 / parts;
                let part = gpu_size(&format!("{}.{:03}", thousandths / 1000, thousandths % 1000)).unwrap();
                assert!(part.0 * parts <= whole.0, "{card} / {parts}");
            }
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        for mb in [1, 38_146, 1 << 39] {
            assert_eq!(gpu_size(&format_size(Megabytes(mb))), Ok(Megabytes(mb)));
            assert_eq!(host_size(&format_size(Megabytes(mb))), Ok(Megabytes(mb)));
        }
    }
}
