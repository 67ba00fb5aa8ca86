//! Cards as they are shown: what jobs hold of them, what is seen on them, and remarks.

use ax_core::api::{CardView, HeldView};
use ax_core::gpu::frameworks::with_settings;
use ax_core::gpu::seen::memory_of;
use ax_core::gpu::{CardSeen, CardState, Rung};
use ax_core::job::{Attempt, Job};
use ax_core::node::{Card, CardShare, Node};
use ax_core::size::Megabytes;

use super::super::Engine;
use crate::local;
use crate::people::Person;

const UNLISTED: &str =
    "its driver does not list processes: nobody knows who holds what, and slices are not watched";

impl Engine {
    /// All cards, as this person may see them.
    pub(in crate::engine) fn cards(&self, person: &Person) -> Vec<CardView> {
        let nodes = self.controller.nodes();
        let of = |node| move |card| self.card(node, card, person);
        nodes.flat_map(|node| node.inventory.cards.iter().map(of(node))).collect()
    }

    pub(in crate::engine) fn card(&self, node: &Node, card: &Card, person: &Person) -> CardView {
        let reserved = node.card_reserved(card);
        // What was seen too long ago says nothing.
        let seen = self.seen(card).filter(|_| self.sees_now());
        let state = node.card_state(&card.uuid).cloned().unwrap_or_default();
        let rung = if node.is_under_mps(card) { Rung::Mps } else { card.hardware.limit };
        let figures = seen.and_then(|_| self.gpu.ledger.figures(&card.uuid));
        let holders = self.holders(node, card);
        let held = |(job, attempt, share): &(&Job, &Attempt, &CardShare)| HeldView {
            job: job.id,
            user: job.owner.name.to_string(),
            mem_mb: share.slice.map(|mb| mb.0),
            used_mb: seen.and_then(|seen| used_by(seen, attempt, share)).map(|mb| mb.0),
        };
        let held: Vec<HeldView> =
            holders.iter().filter(|(job, ..)| self.may_see(job.id, person)).map(held).collect();
        // Details of others' work show who they are and what they do.
        let config = self.controller.config();
        let all = !config.cluster.private_jobs || person.is_admin(config);
        let mut view = CardView {
            node: node.inventory.name.to_string(),
            index: card.index,
            uuid: card.uuid.clone(),
            name: card.kind.clone().unwrap_or_else(|| "card".to_owned()),
            mem_mb: card.mem.0,
            free_mb: node.card_free(card).0,
            reserved_mb: reserved.0,
            jobs: held.iter().map(|held| held.job).collect(),
            held,
            limit: with_settings(rung, self.controller.config().resources.gpu_mem_hints),
            barred: node.drained().is_some() || node.withheld_of(card).barred,
            withheld: withheld(node, card, &state, all),
            foreign: if all { state.holders } else { sum_of_others(state.foreign) },
            health: state.health,
            why: state.why.filter(|_| all),
            p95_mb: figures.map(|figures| figures.p95.0),
            unexplained_mb: seen.map(|_| state.unexplained.0),
            hardware: card.hardware.clone(),
            ..CardView::default()
        };
        if let Some(seen) = seen {
            view.used_mb = Some(seen.used.0);
            view.load = seen.load;
            view.temperature = seen.temperature;
            view.power_mw = seen.power_mw;
            self.tell_fragmentation(&mut view, seen, &holders);
        }
        let deaf = self.gpu.cards.as_ref().and_then(|cards| cards.deaf(&card.uuid));
        let deaf = deaf.map(|why| format!("its errors (Xid) are not reported: {why}"));
        let unlisted = match seen {
            Some(_) if self.gpu.enforcement.is_apart() => Some(local::APART.to_owned()),
            Some(seen) if seen.holders.is_none() => Some(UNLISTED.to_owned()),
            _ => None,
        };
        let all: Vec<String> = deaf.into_iter().chain(unlisted).chain(view.warning.take()).collect();
        view.warning = (!all.is_empty()).then(|| all.join("; "));
        view
    }

    /// The running attempts that hold something of a card.
    fn holders<'c>(&'c self, node: &Node, card: &Card) -> Vec<(&'c Job, &'c Attempt, &'c CardShare)> {
        let of = |job: &'c Job| {
            let attempt = job.attempt.as_deref()?;
            let part = attempt.open_part_on(&node.inventory.name)?;
            let share = part.cards.iter().find(|share| card.is_of(share, &node.inventory.name))?;
            Some((job, attempt, share))
        };
        self.controller.active_jobs().filter_map(of).collect()
    }

    /// A card's fragmentation as far as it can be known from outside: what slices have reserved and do not use, and
    /// what is in use and no process accounts for. No driver tells where free memory lies.
    fn tell_fragmentation(
        &self,
        view: &mut CardView,
        seen: &CardSeen,
        holders: &[(&Job, &Attempt, &CardShare)],
    ) {
        let mut unused = Megabytes::ZERO;
        for (_, attempt, share) in holders {
            // For whole cards, and where the driver does not say who uses what, nothing is known.
            let (Some(slice), Some(used)) = (share.slice, used_by(seen, attempt, share)) else { return };
            unused = unused + (slice - used);
        }
        if holders.is_empty() || view.mem_mb == 0 {
            return;
        }
        view.unused_mb = Some(unused.0);
        let bound = unused.0 + view.unexplained_mb.unwrap_or(0);
        let share = u32::try_from(bound.min(view.mem_mb) * 100 / view.mem_mb).unwrap_or(100);
        view.fragmentation = Some(share);
        let most = self.controller.config().resources.gpu_fragmentation_warning;
        if most > 0 && share > most {
            view.warning = Some(format!(
                "{share}% of it is bound and not used (resources.gpu_fragmentation_warning is {most}%): {} of its \
                 slices, {} that no process accounts for",
                unused.of_card(),
                Megabytes(view.unexplained_mb.unwrap_or(0)).of_card()
            ));
        }
    }
}

fn used_by(seen: &CardSeen, attempt: &Attempt, share: &CardShare) -> Option<Megabytes> {
    memory_of(seen, attempt.name, share.slice.is_none())
}

/// What, other than its health and its jobs, keeps a card, or a part of it, from being given out.
fn withheld(node: &Node, card: &Card, state: &CardState, all: bool) -> Option<String> {
    if let Some(why) = node.drained() {
        return Some(format!("{} is drained {why}", node.inventory.name));
    }
    let withheld = node.withheld_of(card);
    let some = state.outside() > Megabytes::ZERO && (withheld.barred || withheld.taken > Megabytes::ZERO);
    some.then(|| if all { state.outside_in_words() } else { sum_of_others(state.outside()).concat() })
}

/// The memory of strangers as a sum, for people who must not see who they are.
fn sum_of_others(mem: Megabytes) -> Vec<String> {
    (mem > Megabytes::ZERO).then(|| format!("{} held by others", mem.of_card())).into_iter().collect()
}
