//! Changes of what a waiting job needs of machines.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::job::features::Features;
use crate::job::request::CardRequest;
use crate::job::spec::{GpuCount, NodeCount};
use crate::job::{Job, Learnt};
use crate::schedule::history::Signature;
use crate::size::Megabytes;
use crate::text::count;

use super::change::that_is_there;
use super::refusal::Refusal;

/// What changes of what a waiting job needs of machines. What is not named stays as it was, also where it once followed
/// from what is: whoever asks for less memory of a card keeps the CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Needs {
    /// Cards in all, and of which type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<GpuCount>,
    /// Cards of each node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus_per_node: Option<GpuCount>,
    /// Memory of each card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem: Option<Megabytes>,
    /// Host memory of each node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ram: Option<Megabytes>,
    /// CPUs of each task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus_per_task: Option<u32>,
    /// Features of its nodes; the inner `None` takes them away.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "that_is_there")]
    pub features: Option<Option<Features>>,
    /// Nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodeCount>,
}

impl Needs {
    pub(super) fn is_none(&self) -> bool {
        *self == Needs::default()
    }

    /// Makes a job ask for it; tells in words what is different then.
    pub(super) fn apply(self, job: &mut Job, said: &mut Vec<String>) -> Result<(), Refusal> {
        let (before, nodes_before) = (cards_as_asked(job), job.request.nodes().min);
        let request = Arc::make_mut(&mut job.request);
        if let Some(nodes) = self.nodes.filter(|nodes| *nodes != request.nodes()) {
            said.push(format!("nodes {} → {nodes}", request.nodes()));
            request.set_special(|special| special.nodes = Some(nodes).filter(|nodes| nodes.max > 1));
        }
        if let Some(features) = self.features.filter(|features| features.as_ref() != request.features()) {
            let words = |features: Option<&Features>| features.map_or("none".to_owned(), ToString::to_string);
            said.push(format!("features {} → {}", words(request.features()), words(features.as_ref())));
            request.set_special(|special| special.features = features);
        }
        if let Some(ram) = self.ram.filter(|ram| *ram != request.ram) {
            said.push(format!("RAM {} → {ram}", request.ram));
            request.ram = ram;
        }
        let cpus = self.cpus_per_task.map(|each| each.max(1).saturating_mul(request.tasks()));
        if let Some(cpus) = cpus.filter(|cpus| *cpus != request.cpus) {
            said.push(format!("CPUs {} → {cpus}", request.cpus));
            request.cpus = cpus;
        }
        let nodes = request.nodes().min;
        let in_all = self.gpus.map(|gpus| (gpus, nodes)).or(self.gpus_per_node.map(|gpus| (gpus, 1)));
        let mut after = before.clone();
        if in_all.is_some() || self.mem.is_some() {
            let Some(before) = &before else {
                let why = "it asks for no card, and one that waits can't be given any; --ram is host memory";
                return Err(Refusal::because(why.to_owned()));
            };
            let then = cards_then(before, in_all, self.mem)?;
            if then != *before {
                said.push(format!("cards {} → {}", cards_in_words(before), cards_in_words(&then)));
            }
            after = Some(then);
        }
        if (&after, nodes) != (&before, nodes_before) {
            // One that was tried may ask for other cards than those by which it is known.
            let known = job.attempts == 0;
            let thing = if known {
                job.signature.without(before.as_ref(), nodes_before)
            } else {
                Signature::default()
            };
            is_another_thing(job, thing, after);
        }
        Ok(())
    }
}

/// The cards that a job asks for, which may be other ones than it is charged with after earlier runs. What was asked for
/// after a failure stays.
fn cards_as_asked(job: &Job) -> Option<CardRequest> {
    let mut cards = job.request.cards.clone()?;
    if let Some(asked) = job.learnt.as_deref().and_then(|learnt| learnt.asked) {
        let has_failed = job.attempts > 0;
        cards.slice = cards.slice.filter(|_| has_failed).max(Some(asked));
    }
    Some(cards)
}

/// On other cards or nodes it is another thing: what is known of the one says nothing of the other. Its planned length
/// stays.
fn is_another_thing(job: &mut Job, thing: Signature, cards: Option<CardRequest>) {
    job.signature = thing.with(cards.as_ref()).on(job.request.nodes().min);
    Arc::make_mut(&mut job.request).cards = cards;
    let length = job.learnt.as_deref().and_then(|learnt| learnt.length);
    let learnt = Learnt { length, ..Learnt::default() };
    job.learnt = (learnt != Learnt::default()).then(|| Arc::new(learnt));
}

/// The cards of each node after a change; `wanted` is for so many nodes together.
fn cards_then(
    before: &CardRequest,
    wanted: Option<(GpuCount, u32)>,
    mem: Option<Megabytes>,
) -> Result<CardRequest, Refusal> {
    let mut after = before.clone();
    if let Some((gpus, nodes)) = wanted {
        if gpus.count == 0 || !gpus.count.is_multiple_of(nodes) {
            let (cards, nodes) = (count(gpus.count, "card"), count(nodes, "node"));
            let why = format!("{cards} can't be had of {nodes}; say how many of each: --gpus-per-node");
            return Err(Refusal::because(why));
        }
        (after.count, after.kind) = (gpus.count / nodes, gpus.kind);
    }
    if let Some(mem) = mem {
        if mem == Megabytes::ZERO {
            return Err(Refusal::because("--mem=0 asks for no GPU memory at all".to_owned()));
        }
        after.slice = Some(mem);
    }
    Ok(after)
}

/// `2`, `a100:2 with 20GB each`.
fn cards_in_words(cards: &CardRequest) -> String {
    let kind = cards.kind.as_ref().map_or(String::new(), |kind| format!("{kind}:"));
    let each = cards.slice.map_or(String::new(), |mem| format!(" with {} each", mem.of_card()));
    format!("{kind}{}{each}", cards.count)
}
