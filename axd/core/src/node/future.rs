//! What is used of a node now, and from each end of one of its jobs on. It is kept as jobs come and go, for it is asked
//! for far more often than that: nothing needs to be sorted or added up for it.

use super::{CardUse, Company, Node};
use crate::size::Megabytes;
use crate::time::WallTime;

/// What is used of a node, at one instant or at most during a while.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Usage {
    /// CPUs.
    pub cpus: u32,
    /// Memory.
    pub ram: Megabytes,
    /// What is charged on each card.
    pub cards: Vec<CardUse>,
}

/// What a job takes of a node.
#[derive(Debug, Clone)]
pub struct Taken<'a> {
    /// CPUs.
    pub cpus: u32,
    /// Memory.
    pub ram: Megabytes,
    /// Cards by position, and what is charged on each.
    pub cards: &'a [(usize, Megabytes)],
}

impl Usage {
    /// Somebody comes; `company` says with whom each of the cards is shared.
    pub fn add(&mut self, taken: &Taken<'_>, company: impl Fn(usize) -> Company) {
        self.cpus += taken.cpus;
        self.ram = self.ram + taken.ram;
        for (position, charge) in taken.cards {
            self.cards[*position].join(*charge, company(*position));
        }
    }

    /// Somebody goes.
    pub fn remove(&mut self, taken: &Taken<'_>) {
        self.cpus -= taken.cpus.min(self.cpus);
        self.ram = self.ram - taken.ram;
        for (position, charge) in taken.cards {
            self.cards[*position].leave(*charge);
        }
    }

    /// Raises each figure to that of another instant, if that is more.
    pub fn raise_to(&mut self, other: &Usage) {
        self.cpus = self.cpus.max(other.cpus);
        self.ram = self.ram.max(other.ram);
        for (most, more) in self.cards.iter_mut().zip(&other.cards) {
            most.raise_to(*more);
        }
    }
}

/// An instant at which jobs end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// When.
    pub at: WallTime,
    /// What is used from then on.
    pub left: Usage,
    /// So many end then.
    ending: u32,
}

/// The ends of what a node holds, the first first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Future {
    steps: Vec<Step>,
}

impl Future {
    /// All ends, the first first.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    fn place_of(&self, at: WallTime) -> Result<usize, usize> {
        self.steps.binary_search_by_key(&at, |step| step.at)
    }

    /// Somebody comes who is expected to go then; `now` is what others use now.
    pub(super) fn add(
        &mut self,
        at: WallTime,
        now: &Usage,
        taken: &Taken<'_>,
        company: impl Fn(usize) -> Company,
    ) {
        let place = match self.place_of(at) {
            Ok(place) => place,
            Err(place) => {
                let before = place.checked_sub(1).map_or(now, |before| &self.steps[before].left);
                self.steps.insert(place, Step { at, left: before.clone(), ending: 0 });
                place
            }
        };
        self.steps[place].ending += 1;
        self.steps[..place].iter_mut().for_each(|step| step.left.add(taken, &company));
    }

    /// Somebody goes who was expected to go then.
    pub(super) fn remove(&mut self, at: WallTime, taken: &Taken<'_>) {
        let Ok(place) = self.place_of(at) else { return };
        self.steps[..place].iter_mut().for_each(|step| step.left.remove(taken));
        self.steps[place].ending -= 1;
        if self.steps[place].ending == 0 {
            self.steps.remove(place);
        }
    }

    /// Somebody who is expected to go then is charged more of a card.
    pub(super) fn raise(&mut self, at: WallTime, card: usize, more: Megabytes) {
        let Ok(place) = self.place_of(at) else { return };
        for step in &mut self.steps[..place] {
            step.left.cards[card].charged = step.left.cards[card].charged + more;
        }
    }
}

impl Node {
    /// The same by its jobs, one after the other, for tests.
    pub(crate) fn future_agrees(&self) -> bool {
        let mut anew = Node::new(self.inventory.clone());
        for (epoch, holding) in &self.held {
            anew.hold_as(*epoch, holding.clone());
        }
        anew.used == self.used && anew.by_until == self.by_until && anew.by_likely == self.by_likely
    }
}
