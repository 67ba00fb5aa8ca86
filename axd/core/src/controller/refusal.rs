//! Why something that somebody asks for is not done.

use crate::api::ErrorClass;

use super::Decision;

/// Nothing is changed; the one who asked is told why.
#[derive(Debug)]
pub(super) struct Refusal {
    class: ErrorClass,
    /// One sentence.
    why: String,
}

impl Refusal {
    /// It can't be done as things are.
    pub(super) fn because(why: String) -> Refusal {
        Refusal { class: ErrorClass::Refused, why }
    }

    /// It is not theirs to ask for.
    pub(super) fn no_permission(why: String) -> Refusal {
        Refusal { class: ErrorClass::NoPermission, why }
    }

    /// It may be done later.
    pub(super) fn for_now(why: String) -> Refusal {
        Refusal { class: ErrorClass::TryAgain, why }
    }
}

impl From<Refusal> for Decision {
    fn from(refusal: Refusal) -> Decision {
        let Refusal { class, why } = refusal;
        Decision::Refused { class, why }
    }
}
