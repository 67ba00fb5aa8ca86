//! The functions of the library, by what they are about. Each is what NVIDIA's header says of it, as far as the script
//! says something about it.

mod card;
mod events;
mod limits;
mod mig;
mod processes;
mod system;
mod topology;

use std::ffi::{CString, c_char, c_uint};

use crate::table::{INVALID, SUCCESS, Status, TOO_SMALL};

fn answer(outcome: Result<(), Status>) -> Status {
    outcome.err().unwrap_or(SUCCESS)
}

/// Puts a value where the caller wants it.
///
/// # Safety
/// `out` is null, or valid for writing one `T`.
unsafe fn put<T>(out: *mut T, value: T) -> Result<(), Status> {
    if out.is_null() {
        return Err(INVALID);
    }
    // SAFETY: by the contract above.
    unsafe { out.write(value) };
    Ok(())
}

/// Puts a text, ended by NUL, where the caller wants it.
///
/// # Safety
/// `out` is null, or valid for writing `length` bytes.
unsafe fn put_text(out: *mut c_char, length: c_uint, text: &str) -> Result<(), Status> {
    let text = CString::new(text).map_err(|_| INVALID)?;
    let bytes = text.as_bytes_with_nul();
    if out.is_null() {
        return Err(INVALID);
    }
    if bytes.len() > length as usize {
        return Err(TOO_SMALL);
    }
    // SAFETY: by the contract above there is room for them, and they are not the caller's.
    unsafe { out.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len()) };
    Ok(())
}

/// A text in a field of a structure, cut where it does not fit.
fn field<const N: usize>(text: &str) -> [c_char; N] {
    let mut field = [0; N];
    for (place, byte) in field.iter_mut().take(N - 1).zip(text.bytes()) {
        *place = byte.cast_signed();
    }
    field
}

/// A function that says one number of a card's.
macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $field:literal, $type:ty) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// As in NVIDIA's header: the last argument is null or a place for the answer.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            device: nvml_wrapper_sys::bindings::nvmlDevice_t,
            out: *mut $type,
        ) -> $crate::table::Status {
            $crate::calls::answer($crate::table::enter_card(stringify!($name), device).and_then(|(_, card)| {
                let value = card.number($field).ok_or($crate::table::NOT_SUPPORTED)?;
                // SAFETY: by the contract above.
                unsafe { $crate::calls::put(out, <$type>::try_from(value).unwrap_or(<$type>::MAX)) }
            }))
        }
    };
}
use number;
