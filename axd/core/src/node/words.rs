//! Why a request does not fit a node, in words with numbers.

use crate::job::request::{CardRequest, Request};
use crate::text::{count, listed};

use super::Node;

/// `2 cards`, `1 h200 card`.
fn cards_in_words(wanted: &CardRequest) -> String {
    let kind = wanted.kind.as_ref().map_or(String::new(), |kind| format!("{kind} "));
    count(wanted.count, &format!("{kind}card"))
}

impl Node {
    /// Cards that can take a share of the request now.
    fn cards_free_for(&self, wanted: &CardRequest, reserve: u32) -> usize {
        let cards = self.inventory.cards.iter().zip(self.cards_used());
        let fits = cards.filter(|(card, used)| {
            card.demand(wanted, reserve).is_some_and(|d| used.charged + d.charge <= d.limit)
        });
        fits.count()
    }

    fn cards_big_enough(&self, wanted: &CardRequest, reserve: u32) -> usize {
        self.inventory.cards.iter().filter(|c| c.demand(wanted, reserve).is_some()).count()
    }

    /// Why a request does not fit now, in a sentence with numbers; `None`: it fits.
    pub fn lacks_now(&self, request: &Request, reserve: u32) -> Option<String> {
        let has = &self.inventory;
        if !has.admits(request) {
            return Some(self.not_admitted());
        }
        let mut found = Vec::new();
        let free = self.free_cpus();
        if request.cpus > free {
            found.push(format!("{} ({free} of {} free)", count(request.cpus, "CPU"), has.cpus));
        }
        let free = self.free_ram();
        if request.ram > free {
            found.push(format!("{} of RAM ({free} of {} free)", request.ram, has.ram));
        }
        if request.exclusive && !self.held().is_empty() {
            found.push(format!("the whole node (used by {})", count(self.held().len() as u64, "job")));
        }
        found.extend(request.cards.as_ref().and_then(|wanted| {
            let free = self.cards_free_for(wanted, reserve);
            let of = format!("{free} of {}", self.cards_big_enough(wanted, reserve));
            (free < wanted.count as usize).then(|| match wanted.slice {
                None => format!("{} ({of} free)", cards_in_words(wanted)),
                Some(mem) => {
                    format!("{} on {} ({of} have so much free)", mem.of_card(), cards_in_words(wanted))
                }
            })
        }));
        (!found.is_empty()).then(|| format!("needs {} on {}", listed(&found), has.name))
    }

    /// Why even the empty node could not hold a request, in a sentence with numbers; `None`: it could.
    pub fn lacks_for_ever(&self, request: &Request, reserve: u32) -> Option<String> {
        let has = &self.inventory;
        if !has.admits(request) {
            return Some(self.not_admitted());
        }
        let mut found = Vec::new();
        if request.cpus > has.cpus {
            found.push(format!("{}, and {} has {}", count(request.cpus, "CPU"), has.name, has.cpus));
        }
        if request.ram > has.ram {
            found.push(format!("{} of RAM, and {} has {}", request.ram, has.name, has.ram));
        }
        found.extend(request.cards.as_ref().and_then(|wanted| {
            let all = has.cards_of(wanted.kind.as_deref()).count();
            let big_enough = self.cards_big_enough(wanted, reserve);
            (big_enough < wanted.count as usize).then(|| match wanted.slice.filter(|_| all > big_enough) {
                None => format!("{}, and {} has {all}", cards_in_words(wanted), has.name),
                Some(mem) => format!(
                    "{} on {}, and {big_enough} of the {all} of {} are so large",
                    mem.of_card(),
                    cards_in_words(wanted),
                    has.name
                ),
            })
        }));
        (!found.is_empty()).then(|| format!("needs {}", found.join("; ")))
    }

    fn not_admitted(&self) -> String {
        format!("may not run on {}, by its --nodelist or --exclude", self.inventory.name)
    }
}
