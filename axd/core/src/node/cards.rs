//! What is known of a node's cards beyond what jobs hold, and what is withheld because of that: a card that is not
//! fit, or of which others hold too much, is given to no job; what others hold of any other card is missing for
//! slices.

use std::collections::BTreeMap;

use crate::gpu::{CardState, Health};
use crate::job::bounds::Asks;
use crate::size::Megabytes;

use super::{Card, CardUse, Company, Node};

/// What is withheld of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Withheld {
    /// The card is given to no job.
    pub barred: bool,
    /// Memory that is missing for slices. A job that has the whole card shares it with none, so nothing is subtracted
    /// for it.
    pub taken: Megabytes,
}

impl Withheld {
    fn of(state: &CardState, bound: Megabytes) -> Withheld {
        let unfit = state.health != Health::Healthy;
        Withheld { barred: unfit || state.outside() >= bound, taken: state.taken }
    }
}

/// How a request would fit on a card beside what is charged there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fitting {
    /// What would be charged.
    pub charge: Megabytes,
    /// What would be left of the card.
    pub left: Megabytes,
    /// Which slices it would share the card with.
    pub company: Company,
}

impl Withheld {
    /// How a request would fit on this card beside its present use; `None` if it does not fit.
    pub fn fit(self, card: &Card, used: CardUse, asks: Asks<'_>, reserve: u32) -> Option<Fitting> {
        let wanted = asks.request.cards.as_ref()?;
        let demand = card.demand(wanted, reserve).filter(|_| !self.barred)?;
        let others = if demand.slice.is_some() { used.charged + self.taken } else { used.charged };
        let (all, company) = (others + demand.charge, asks.company(card, reserve));
        let fits = all <= demand.limit && used.is_open_to(company);
        fits.then(|| Fitting { charge: demand.charge, left: card.mem - all, company })
    }

    /// Memory left for slices when `charged` is charged.
    pub fn free(self, card: &Card, charged: Megabytes) -> Megabytes {
        if self.barred { Megabytes::ZERO } else { card.mem - (charged + self.taken) }
    }
}

impl Node {
    /// What is known of the card with that UUID, whether it is there now or not.
    pub fn card_state(&self, uuid: &str) -> Option<&CardState> {
        self.states.get(uuid)
    }

    /// All that is known of cards, by UUID; also of cards that are gone.
    pub fn card_states(&self) -> &BTreeMap<String, CardState> {
        &self.states
    }

    /// Who drained the node and why.
    pub fn drained(&self) -> Option<&str> {
        self.drained.as_deref()
    }

    /// Takes the node out of use, or gives it back.
    pub fn drain(&mut self, drained: Option<Box<str>>) {
        self.drained = drained;
    }

    /// Stores what is known of cards; `bound` is how much others may hold of a card that is given out.
    pub fn know_cards(&mut self, states: impl IntoIterator<Item = (String, CardState)>, bound: Megabytes) {
        self.states.extend(states);
        self.weigh(bound);
    }

    /// Computes anew what is withheld of each card.
    pub fn weigh(&mut self, bound: Megabytes) {
        let of = |card: &Card| self.states.get(&card.uuid).map(|state| Withheld::of(state, bound));
        self.withheld = self.inventory.cards.iter().map(|card| of(card).unwrap_or_default()).collect();
    }

    /// What is withheld of each card, in the order of the inventory.
    pub fn withheld(&self) -> &[Withheld] {
        &self.withheld
    }

    /// What others than jobs take of a card.
    pub fn withheld_of(&self, card: &Card) -> Withheld {
        self.at(card).map_or(Withheld { barred: true, taken: Megabytes::ZERO }, |at| self.withheld[at])
    }

    fn at(&self, card: &Card) -> Option<usize> {
        self.inventory.cards.iter().position(|each| each.uuid == card.uuid)
    }

    /// Memory of a card that a slice could have now.
    pub fn card_free(&self, card: &Card) -> Megabytes {
        let charged = self.at(card).map_or(card.mem, |at| self.used.cards[at].charged);
        self.withheld_of(card).free(card, charged)
    }

    /// How many attempts hold something of a card.
    pub fn card_holders(&self, card: &Card) -> u32 {
        self.position(card.index).map_or(0, |position| self.used.cards[position].holders)
    }

    /// True if slices on a card run under MPS.
    pub fn is_under_mps(&self, card: &Card) -> bool {
        self.at(card).is_some_and(|at| matches!(self.used.cards[at].company, Company::Mps(_)))
    }

    /// Why a card is withheld, wholly or in part; `None` if it is not.
    pub fn card_in_words(&self, uuid: &str) -> Option<String> {
        let at = self.inventory.cards.iter().position(|card| card.uuid == uuid);
        let (card, withheld) = match at {
            Some(at) => (self.inventory.cards[at].index.to_string(), self.withheld[at]),
            None => (uuid.to_owned(), Withheld { barred: true, taken: Megabytes::ZERO }),
        };
        let (state, name) = (self.states.get(uuid)?, &self.inventory.name);
        if state.health != Health::Healthy {
            let why = state.why.as_ref().map_or(String::new(), |why| format!(": {why}"));
            return Some(format!("{name} card {card} is {}{why}", state.health));
        }
        let outside = withheld.barred || withheld.taken > Megabytes::ZERO;
        outside.then(|| format!("{name} card {card}: {}", state.outside_in_words()))
    }

    /// The cards that would fit a request if nothing were withheld of them.
    pub fn withheld_from<'a>(&'a self, asks: Asks<'a>, reserve: u32) -> impl Iterator<Item = &'a Card> {
        let free = Withheld::default();
        let barred = move |(card, withheld, used): &(&Card, Withheld, CardUse)| {
            let fits = |w: Withheld| w.fit(card, *used, asks, reserve).is_some();
            fits(free) && !fits(*withheld)
        };
        self.each_card().filter(barred).map(|(card, _, _)| card)
    }

    /// The cards that have room for a request but are shared by slices that it can't join, with those.
    pub fn taken_by_company<'a>(
        &'a self,
        asks: Asks<'a>,
        reserve: u32,
    ) -> impl Iterator<Item = (&'a Card, Company)> {
        let closed = move |(card, withheld, used): &(&Card, Withheld, CardUse)| {
            let fits = |used: CardUse| withheld.fit(card, used, asks, reserve).is_some();
            !fits(*used) && fits(CardUse { holders: 0, ..*used })
        };
        self.each_card().filter(closed).map(|(card, _, used)| (card, used.company))
    }

    /// Each card with what is withheld of it and what is charged on it now.
    pub(super) fn each_card(&self) -> impl Iterator<Item = (&Card, Withheld, CardUse)> {
        let withheld = self.withheld.iter().copied();
        self.inventory
            .cards
            .iter()
            .zip(withheld)
            .zip(&self.used.cards)
            .map(|((card, w), used)| (card, w, *used))
    }

    /// Memory for slices on each card now.
    pub fn free_memory(&self) -> impl Iterator<Item = Megabytes> {
        self.each_card().map(|(card, withheld, used)| withheld.free(card, used.charged))
    }

    /// Number of cards that no job holds and that may be given out.
    pub fn empty_cards(&self) -> usize {
        self.used.cards.iter().zip(&self.withheld).filter(|(used, w)| used.holders == 0 && !w.barred).count()
    }
}
