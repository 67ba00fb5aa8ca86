//! Who may be on a card together: the slices of a card are all under MPS for one user, or none of them is.

use crate::id::Uid;
use crate::size::Megabytes;

use super::CardShare;

/// Those with whom a slice shares its card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Company {
    /// Anybody who is under no MPS.
    #[default]
    Anybody,
    /// Slices of this user, under MPS.
    Mps(Uid),
    /// Some who don't go together: of several instants the most that is used is one after the other.
    Several,
}

impl CardShare {
    /// Those with whom it shares its card.
    pub fn company(&self) -> Company {
        self.mps.map_or(Company::Anybody, Company::Mps)
    }
}

/// What is charged on one card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CardUse {
    /// Sum of the charges.
    pub charged: Megabytes,
    /// Attempts that hold a part of it.
    pub holders: u32,
    /// With whom they share it; of nobody's card nothing.
    pub company: Company,
}

impl CardUse {
    /// One more holds so much of it.
    pub fn join(&mut self, charge: Megabytes, company: Company) {
        self.company = if self.holders == 0 { company } else { self.company.beside(company) };
        self.charged = self.charged + charge;
        self.holders += 1;
    }

    /// One that held so much has left.
    pub fn leave(&mut self, charge: Megabytes) {
        self.charged = self.charged - charge;
        self.holders = self.holders.saturating_sub(1);
        if self.holders == 0 {
            self.company = Company::default();
        }
    }

    /// The most of two instants.
    pub fn raise_to(&mut self, other: CardUse) {
        self.company = match (self.holders, other.holders) {
            (_, 0) => self.company,
            (0, _) => other.company,
            _ => self.company.beside(other.company),
        };
        self.charged = self.charged.max(other.charged);
        self.holders = self.holders.max(other.holders);
    }

    /// Whether one that shares it with these could come to it.
    pub fn is_open_to(&self, company: Company) -> bool {
        self.holders == 0 || self.company == company
    }
}

impl Company {
    fn beside(self, other: Company) -> Company {
        if self == other { self } else { Company::Several }
    }
}
