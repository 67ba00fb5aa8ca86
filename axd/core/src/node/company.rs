//! Which jobs may share a card: either all its slices run under MPS for one user, or none of them runs under MPS.

use crate::id::Uid;
use crate::size::Megabytes;

use super::CardShare;

/// Which slices a slice shares its card with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Company {
    /// Slices that do not run under MPS.
    #[default]
    Anybody,
    /// Slices of this user, under MPS.
    Mps(Uid),
    /// Both kinds, at different instants: what is used over a stretch of time may contain both.
    Several,
}

impl CardShare {
    /// Which slices it shares its card with.
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
    /// What kind of slices share it; meaningless if there are none.
    pub company: Company,
}

impl CardUse {
    /// Adds a share.
    pub fn join(&mut self, charge: Megabytes, company: Company) {
        self.company = if self.holders == 0 { company } else { self.company.beside(company) };
        self.charged = self.charged + charge;
        self.holders += 1;
    }

    /// Removes a share.
    pub fn leave(&mut self, charge: Megabytes) {
        self.charged = self.charged - charge;
        self.holders = self.holders.saturating_sub(1);
        if self.holders == 0 {
            self.company = Company::default();
        }
    }

    /// Raises each figure to that of another instant, if that is more.
    pub fn raise_to(&mut self, other: CardUse) {
        self.company = match (self.holders, other.holders) {
            (_, 0) => self.company,
            (0, _) => other.company,
            _ => self.company.beside(other.company),
        };
        self.charged = self.charged.max(other.charged);
        self.holders = self.holders.max(other.holders);
    }

    /// True if a slice that shares its card like this could join.
    pub fn is_open_to(&self, company: Company) -> bool {
        self.holders == 0 || self.company == company
    }
}

impl Company {
    fn beside(self, other: Company) -> Company {
        if self == other { self } else { Company::Several }
    }
}
