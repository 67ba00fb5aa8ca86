//! Why a request does not fit nodes, in words with numbers.

use crate::id::HostName;
use crate::job::request::{CardRequest, Request};
use crate::text::{count, listed};

use super::Node;
use super::needs::{Lack, Need};

/// `2 cards`, `1 h200 card`.
fn cards_in_words(wanted: &CardRequest) -> String {
    let kind = wanted.kind.as_ref().map_or(String::new(), |kind| format!("{kind} "));
    count(wanted.count, &format!("{kind}card"))
}

impl Need {
    /// `8 CPUs (2 of 8 free)`.
    fn now(&self, most: &str) -> String {
        match self {
            Need::Admission => "leave to run".to_owned(),
            Need::Features { wanted } => format!("the features {wanted}"),
            Need::Drained { .. } => "a node that is in use".to_owned(),
            Need::Cpus { wanted, free, all } => {
                format!("{} ({most}{free} of {all} free)", count(*wanted, "CPU"))
            }
            // Rounded to the same figure, they would say that there is enough.
            Need::Ram { wanted, free, all } if wanted.to_string() == free.to_string() => {
                format!("{} MB of RAM ({most}{} MB of {} MB free)", wanted.0, free.0, all.0)
            }
            Need::Ram { wanted, free, all } => format!("{wanted} of RAM ({most}{free} of {all} free)"),
            Need::WholeNode { used_by } => format!("the whole node (used by {})", count(*used_by, "job")),
            Need::Cards { wanted, free, all, barred, .. } => {
                let barred = if *barred > 0 { format!(", {barred} out of use") } else { String::new() };
                match wanted.slice {
                    None => format!("{} ({most}{free} of {all} free{barred})", cards_in_words(wanted)),
                    Some(mem) => format!(
                        "{} on {} ({most}{free} of {all} have so much free{barred})",
                        mem.of_card(),
                        cards_in_words(wanted)
                    ),
                }
            }
        }
    }

    /// `9 CPUs, and gpu-01 has 8`.
    fn for_ever(&self, who: &str, have: &str) -> String {
        match self {
            Need::Admission => "leave to run".to_owned(),
            Need::Features { wanted } => format!("the features {wanted}"),
            Need::Drained { .. } => "a node that is in use".to_owned(),
            Need::Cpus { wanted, all, .. } => format!("{}, and {who} {have} {all}", count(*wanted, "CPU")),
            Need::Ram { wanted, all, .. } if wanted.to_string() == all.to_string() => {
                format!("{} MB of RAM, and {who} {have} {} MB", wanted.0, all.0)
            }
            Need::Ram { wanted, all, .. } => format!("{wanted} of RAM, and {who} {have} {all}"),
            Need::WholeNode { .. } => "the whole node".to_owned(),
            Need::Cards { wanted, all, of_type, .. } => match wanted.slice.filter(|_| of_type > all) {
                None => format!("{}, and {who} {have} {of_type}", cards_in_words(wanted)),
                Some(mem) => format!(
                    "{} on {}, and {all} of the {of_type} of {who} are so large",
                    mem.of_card(),
                    cards_in_words(wanted)
                ),
            },
        }
    }
}

/// `gpu-01`, `each of 12 nodes: gpu-01, gpu-02, gpu-03 and 9 more`.
fn places(nodes: &[HostName], all: u32) -> String {
    let mut names: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    if all <= 1 {
        return names.concat();
    }
    let more = (all as usize).saturating_sub(names.len());
    if more > 0 {
        names.push(format!("{more} more"));
    }
    format!("each of {}: {}", count(all, "node"), listed(&names))
}

impl Lack {
    /// Why a request fits on none of these nodes now, in a sentence with numbers.
    pub fn now(&self) -> String {
        let places = places(&self.nodes, self.count);
        if self.needs == [Need::Admission] {
            return format!("may not run on {places}, by its --nodelist or --exclude");
        }
        if let [Need::Features { wanted }] = self.needs.as_slice() {
            return format!("needs the features {wanted}, missing on {places}");
        }
        if let [Need::Drained { why }] = self.needs.as_slice() {
            let is = if self.count > 1 { "is drained, the first" } else { "is drained" };
            return format!("{places} {is} {why}");
        }
        let most = if self.count > 1 { "at most " } else { "" };
        let needs: Vec<String> = self.needs.iter().map(|need| need.now(most)).collect();
        format!("needs {} on {places}", listed(&needs))
    }

    /// Why it would not fit even if they were empty.
    pub fn for_ever(&self) -> String {
        let places = places(&self.nodes, self.count);
        if self.needs == [Need::Admission] {
            return format!("may not run on {places}, by its --nodelist or --exclude");
        }
        if let [Need::Features { wanted }] = self.needs.as_slice() {
            return format!("needs the features {wanted}, missing on {places}");
        }
        let (who, have) = match self.count {
            1 => (places, "has"),
            _ => (places, "has at most"),
        };
        let needs: Vec<String> = self.needs.iter().map(|need| need.for_ever(&who, have)).collect();
        format!("needs {}", needs.join("; "))
    }
}

impl Node {
    /// Why even the empty node could not hold a request, in a sentence with numbers; `None` if it could.
    pub fn lacks_for_ever(&self, request: &Request, reserve: u32) -> Option<String> {
        let needs = self.needs_for_ever(request, reserve);
        let lack = Lack { needs, nodes: vec![self.inventory.name.clone()], count: 1 };
        (!lack.needs.is_empty()).then(|| lack.for_ever())
    }
}
