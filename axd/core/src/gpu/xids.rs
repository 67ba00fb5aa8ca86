//! The errors that NVIDIA's driver reports by number (Xid), and what each says of its card.
//!
//! After NVIDIA's catalogue, <https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html> (R590), by its
//! column "immediate action". The names are those of `nverror.h` in <https://github.com/NVIDIA/open-gpu-kernel-modules>.

/// What an error says of its card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A person must look at the card.
    Drain,
    /// The card may have recovered; if an error comes again before the card is trusted again, a person must look at
    /// it.
    Suspect,
    /// A program made an error, or was hit by an error that has a number of its own, or the card has mended it.
    Noted,
}

/// An error, or several that are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Xid {
    /// The first of its numbers.
    pub first: u32,
    /// The last of its numbers.
    pub last: u32,
    /// What it says of the card.
    pub class: Class,
    /// What it is.
    pub what: &'static str,
    /// What the maker advises.
    pub advice: &'static str,
}

const fn xid(first: u32, last: u32, class: Class, what: &'static str, advice: &'static str) -> Xid {
    Xid { first, last, class, what, advice }
}

/// What is advised for most errors of hardware.
pub const RESET: &str = "reset the card once no job is on it; if it comes again, have it replaced";
const PROGRAM: &str = "look for an error in the program first";
const AGAIN: &str = "start the program again; if it goes on, ask NVIDIA";
const LINK: &str = "see what the driver recommends; if it comes again, look at the links";
const SYMPATHETIC: &str = "see which error came before it";
const NOTHING: &str = "nothing; if it goes on, ask NVIDIA";

use Class::{Drain, Noted, Suspect};

/// The errors that ax knows, by number. Any other is noted and takes nothing. By the catalogue's immediate action:
///
/// - `RESET_GPU`, `RESTART_BM`, `RESTART_VM`: the card is drained, for nobody but a person resets it. With four
///   exceptions. 119 and 120: "may be needed if the error persists". 155: it is reported of intentional changes, too.
///   109: NVIDIA's own `k8s-device-plugin` counts it to the errors of programs; where it is more, drivers from 570 on
///   recommend a reset ([`recovery`](super::CardSeen::recovery)), which drains the card.
/// - Errors of links whose details decide (144, 145, 146, 149), which NVML does not tell: the card is suspect, and the
///   driver's recommendation drains it. All details of 147 and 148 mean `IGNORE`, all of 150 `RESET_GPU`.
/// - `IGNORE`, `RESTART_APP`: it is noted. With one exception, 94: the card's memory failed, though one program alone
///   was hit.
/// - Those to which the catalogue gives no action: suspect if they are called fatal or a halt, else noted.
pub static XIDS: &[Xid] = &[
    xid(8, 8, Noted, "the card stopped a program", AGAIN),
    xid(11, 11, Noted, "a damaged stream of commands", PROGRAM),
    xid(13, 13, Noted, "an exception of the graphics engine", PROGRAM),
    xid(25, 25, Noted, "an illegal stream of commands", PROGRAM),
    xid(31, 31, Noted, "access to memory that is not there", PROGRAM),
    xid(32, 32, Noted, "a damaged stream of commands", PROGRAM),
    xid(37, 37, Noted, "an error of the driver's firmware", PROGRAM),
    xid(38, 38, Noted, "an error of the driver's firmware", NOTHING),
    xid(39, 41, Noted, "an exception of a copy engine", AGAIN),
    xid(43, 43, Noted, "the card stopped a program", PROGRAM),
    xid(44, 44, Noted, "a fault as programs were switched", NOTHING),
    xid(45, 45, Noted, "a program was cleaned up after an earlier error or its end", SYMPATHETIC),
    xid(46, 46, Drain, "the card stopped processing", RESET),
    xid(48, 48, Drain, "a memory error that can't be corrected", RESET),
    xid(54, 54, Drain, "its auxiliary power is not connected", "look at seat and connections of the card"),
    xid(60, 60, Noted, "an exception of the video processor", AGAIN),
    xid(62, 62, Drain, "its micro-controller halted", RESET),
    xid(
        63,
        63,
        Noted,
        "a part of its memory is taken out of use",
        "nothing, unless it waits for a reset, which is asked for at each look",
    ),
    xid(64, 64, Drain, "a part of its memory could not be taken out of use", RESET),
    xid(66, 67, Noted, "an illegal access by the driver", NOTHING),
    xid(68, 68, Noted, "an exception of the video decoder", AGAIN),
    xid(69, 69, Noted, "an error of the graphics engine's class", PROGRAM),
    xid(70, 72, Noted, "an error of a copy engine", AGAIN),
    xid(
        74,
        74,
        Drain,
        "an error of a link between cards",
        "reset the card or restart the machine; if it comes again, look at the links",
    ),
    xid(75, 77, Noted, "an error of a copy engine", AGAIN),
    xid(
        79,
        79,
        Drain,
        "the card has fallen off the bus",
        "restart the machine; if it comes again, have power and slot looked at",
    ),
    xid(80, 80, Noted, "damaged data were sent to the card", PROGRAM),
    xid(82, 84, Noted, "an error of the image or video decoder", AGAIN),
    xid(85, 85, Noted, "an error of a copy engine", AGAIN),
    xid(86, 86, Noted, "an exception of the optical flow engine", AGAIN),
    xid(88, 89, Noted, "an error of the video decoder", AGAIN),
    xid(92, 92, Noted, "many memory errors that could be corrected", "watch it; if they go on, ask NVIDIA"),
    xid(93, 93, Noted, "its information memory may not be written", NOTHING),
    xid(
        94,
        94,
        Suspect,
        "a memory error that hit one program only",
        "start the program again; reset the card when it suits",
    ),
    xid(95, 95, Drain, "a memory error that may have hit every program", RESET),
    xid(96, 105, Noted, "an error of the image or video decoder", AGAIN),
    xid(
        109,
        109,
        Noted,
        "a switch between programs took too long",
        "look for an error in the program, and see what the driver recommends",
    ),
    xid(
        110,
        110,
        Drain,
        "a security fault",
        "take back recent changes of hardware, and restart the machine from cold",
    ),
    xid(119, 119, Suspect, "its firmware did not answer in time", RESET),
    xid(120, 120, Suspect, "an error of its firmware", RESET),
    xid(
        121,
        121,
        Noted,
        "an error of the link to the CPU that was corrected",
        "nothing; a reset when it suits trains the link anew",
    ),
    xid(126, 135, Noted, "an error of a copy engine", AGAIN),
    xid(136, 136, Drain, "a link between cards could not be trained", RESET),
    xid(137, 137, Noted, "an illegal access to memory of another card", PROGRAM),
    xid(139, 139, Noted, "an exception of the optical flow engine", AGAIN),
    xid(140, 140, Drain, "a memory error that the card could not recover from", RESET),
    xid(141, 141, Noted, "an error of CUDA's fast path", NOTHING),
    xid(143, 143, Drain, "it could not be initialised", RESET),
    xid(144, 144, Suspect, "an error of a link between cards (SAW)", LINK),
    xid(145, 145, Suspect, "an error of a link between cards (RLW)", LINK),
    xid(146, 146, Suspect, "an error of a link between cards (TLW)", LINK),
    xid(147, 147, Noted, "an error of a link between cards (TREX)", NOTHING),
    xid(148, 148, Noted, "an error of a link between cards (NVLPW)", NOTHING),
    xid(149, 149, Suspect, "an error of a link between cards (NETIR)", LINK),
    xid(150, 150, Drain, "an error of the links between cards (MSE)", RESET),
    xid(151, 151, Drain, "keys could not be changed", "restart the virtual machine that has the card"),
    xid(154, 154, Noted, "what the driver recommends has changed", "see what it recommends"),
    xid(155, 155, Suspect, "a link between cards was taken down", LINK),
    xid(156, 156, Drain, "a part of the card is taken out of use", RESET),
    xid(157, 157, Noted, "a part of the card could not be taken out of use", NOTHING),
    xid(158, 158, Drain, "the card did not answer in time", RESET),
    xid(160, 161, Noted, "a part of its memory's channels is taken out of use", NOTHING),
    xid(167, 167, Suspect, "its bus did not answer in time", "see what the driver recommends"),
    xid(169, 169, Suspect, "a micro-controller halted", "see what the driver recommends"),
    xid(171, 172, Noted, "where a memory error was that can't be corrected", SYMPATHETIC),
];

/// What is known of an error.
pub fn known(number: u32) -> Option<&'static Xid> {
    XIDS.iter().find(|xid| (xid.first..=xid.last).contains(&number))
}

impl Xid {
    /// `Xid 79: the card has fallen off the bus; NVIDIA advises: restart the machine; …`.
    pub fn in_words(&self, number: u32) -> String {
        format!("Xid {number}: {}; NVIDIA advises: {}", self.what, self.advice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_each_row_says_what_to_do() {
        assert!(XIDS.iter().all(|xid| xid.first <= xid.last));
        assert!(XIDS.windows(2).all(|pair| pair[0].last < pair[1].first));
        assert!(XIDS.iter().all(|xid| !xid.what.is_empty() && !xid.advice.is_empty()));
        assert_eq!(known(101).map(|xid| xid.first), Some(96));
        assert_eq!(known(106), None);
    }

    /// The catalogue's immediate actions, as far as they are not `IGNORE` or `RESTART_APP`.
    #[test]
    fn whatever_needs_a_reset_by_the_catalogue_takes_the_card() {
        let reset = [46, 62, 64, 95, 110, 119, 120, 136, 140, 143, 155, 156, 158];
        let restart = [79, 151];
        let by_details = [48, 74, 144, 145, 146, 149, 150];
        for number in reset.into_iter().chain(restart).chain(by_details) {
            assert_ne!(known(number).map(|xid| xid.class), Some(Noted), "{number}");
        }
        // The errors of programs, by NVIDIA's k8s-device-plugin.
        for number in [13, 31, 43, 45, 68, 109] {
            assert_eq!(known(number).map(|xid| xid.class), Some(Noted), "{number}");
        }
    }
}
