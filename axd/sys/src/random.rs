//! Random bytes from the kernel. Good enough for names and tokens alike.

use crate::error::{Doing, Result, check_long};
use std::fmt::Write;

/// Fills `buffer` with random bytes.
///
/// # Errors
/// Only on kernels or under filters without getrandom(2).
pub fn fill(buffer: &mut [u8]) -> Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        let rest = &mut buffer[filled..];
        // SAFETY: pointer and length describe `rest`, which is ours to write.
        let got = unsafe { libc::syscall(libc::SYS_getrandom, rest.as_mut_ptr(), rest.len(), 0) };
        match check_long(got) {
            Ok(count) => filled += usize::try_from(count).unwrap_or(0),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error).doing("read", "random bytes"),
        }
    }
    Ok(())
}

/// `N` random bytes.
///
/// # Errors
/// As [`fill`].
pub fn bytes<const N: usize>() -> Result<[u8; N]> {
    let mut buffer = [0; N];
    fill(&mut buffer)?;
    Ok(buffer)
}

/// A random name of 16 hexadecimal digits.
///
/// # Errors
/// As [`fill`].
pub fn name() -> Result<String> {
    let mut text = String::with_capacity(16);
    for byte in bytes::<8>()? {
        // Writing to a String can't fail.
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}
