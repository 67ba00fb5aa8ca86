//! `ax node list` and `show`: the nodes, what they have and what of it is given out. `drain` and `resume`:
//! administrators take a node or a card out of use, and give it back.

use std::fmt::Write;

use ax_core::api::{
    CardView, ErrorClass, NodeAction, NodeAnswer, NodeRequest, NodeShow, NodeState, NodeView,
};
use ax_core::text::quoted;
use ax_core::time::WallTime;

use crate::failure::Failure;
use crate::fields::{self, Field, left, megabytes, right};
use crate::http;
use crate::session::Session;
use crate::shown::shown;
use crate::style::Paint;
use crate::table::Cell;
use crate::table::Shrink::{Freely, Last};

/// Show the nodes
#[derive(clap::Args)]
#[command(arg_required_else_help = false)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    List(List),
    Show(Show),
    Drain(Drain),
    Resume(Resume),
}

/// List the nodes and what of them is in use
#[derive(clap::Args)]
struct List {
    /// These columns, separated by commas
    #[arg(short = 'o', long, value_name = "COLUMNS")]
    format: Option<String>,
    /// Nothing is cut
    #[arg(short, long, visible_alias = "wide")]
    long: bool,
    /// Without the line of titles
    #[arg(long)]
    noheader: bool,
    /// One JSON document with everything
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

/// Show one node with its cards and what was decided about them
#[derive(clap::Args)]
struct Show {
    /// The node
    #[arg(value_name = "NODE")]
    node: String,
    /// One JSON document with everything
    #[arg(long)]
    json: bool,
}

/// What is taken out of use, or given back.
#[derive(clap::Args)]
struct Place {
    /// The node
    #[arg(value_name = "NODE")]
    node: String,
    /// Only this card of it, by number or UUID
    #[arg(long, value_name = "CARD")]
    gpu: Option<String>,
    /// One JSON document: what was done
    #[arg(long)]
    json: bool,
}

/// Start nothing more on a node or card; what runs goes on
#[derive(clap::Args)]
struct Drain {
    #[command(flatten)]
    place: Place,
    /// Why, for the record and for whoever waits
    #[arg(long, value_name = "TEXT")]
    why: String,
}

/// Give a drained node or card out again, a card only if it was clean when it was last looked at
#[derive(clap::Args)]
struct Resume {
    #[command(flatten)]
    place: Place,
}

const COLUMNS: &str = "name,state,cpus,ram,gpus,jobs,heartbeat,reason";

static FIELDS: [Field<NodeView>; 9] = [
    left("name", "NODE", Last(8), |node, _| Cell::new(&node.name)),
    left("state", "STATE", Last(4), |node, _| Cell::painted(node.state.to_string(), paint(node.state))),
    right("cpus", "CPUS", |node, _| Cell::new(format!("{}/{}", node.cpus_used, node.cpus))),
    right("ram", "RAM", |node, _| {
        Cell::new(format!("{}/{}", megabytes(node.ram_used_mb), megabytes(node.ram_mb)))
    }),
    right("gpus", "GPUS", |node, _| Cell::new(format!("{}/{}", node.gpus_used, node.gpus))),
    right("jobs", "JOBS", |node, _| Cell::new(node.jobs.len().to_string())),
    right("epoch", "EPOCH", |node, _| Cell::new(node.epoch.to_string())),
    left("heartbeat", "HEARTBEAT", Last(9), |node, clock| {
        Cell::maybe(node.last_heartbeat_at.map(|time| clock.relative(time)))
    }),
    left("reason", "REASON", Freely(6), |node, _| Cell::maybe(node.reason.as_ref())),
];

fn paint(state: NodeState) -> Paint {
    match state {
        NodeState::Up => Paint::Good,
        NodeState::Drained | NodeState::Draining => Paint::Note,
        NodeState::Failing | NodeState::NeverRegistered => Paint::Bad,
    }
}

impl Arguments {
    /// Asks and prints.
    pub(crate) fn run(&self, session: &mut Session<'_, '_>) -> Result<u8, Failure> {
        match &self.command {
            Command::List(list) => list.run(session),
            Command::Show(show) => show.run(session),
            Command::Drain(drain) => drain.place.act(session, NodeAction::Drain { why: drain.why.clone() }),
            Command::Resume(resume) => resume.place.act(session, NodeAction::Resume),
        }
    }
}

impl List {
    fn run(&self, session: &mut Session<'_, '_>) -> Result<u8, Failure> {
        let fields = fields::choose(&FIELDS, self.format.as_deref().unwrap_or(COLUMNS))?;
        let nodes: Vec<NodeView> = session.client.get("/api/v1/nodes")?;
        if self.json {
            session.json(&nodes)?;
        } else {
            let table = fields::table(&fields, &nodes, &session.clock, |_| None);
            session.table(&table, !self.noheader, self.long)?;
        }
        Ok(0)
    }
}

impl Place {
    fn act(&self, session: &mut Session<'_, '_>, action: NodeAction) -> Result<u8, Failure> {
        let request = NodeRequest { action, node: self.node.clone(), card: self.gpu.clone() };
        let answer: NodeAnswer = session.client.post("/api/v1/nodes/action", &request)?;
        match self.json {
            true => session.json(&answer)?,
            false => session.print(&format!("{}\n", shown(&answer.done)))?,
        }
        Ok(0)
    }
}

impl Show {
    fn run(&self, session: &mut Session<'_, '_>) -> Result<u8, Failure> {
        if self.node.is_empty() || self.node.contains('/') {
            let line = format!("there is no node {}; 'ax node list' shows them", quoted(&self.node));
            return Err(Failure::said(ErrorClass::Refused, line));
        }
        let path = format!("/api/v1/nodes/{}", http::encode(&self.node));
        let node: NodeShow = session.client.get(&path)?;
        if self.json {
            session.json(&node)?;
            return Ok(0);
        }
        let text = in_words(&node, &|at| session.clock.relative(at));
        session.print(&text)?;
        Ok(0)
    }
}

fn in_words(node: &NodeShow, when: &dyn Fn(WallTime) -> String) -> String {
    let NodeShow { node, cards, decisions } = node;
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a String can't fail.
        let _ = writeln!(text, "{name:<9} {value}");
    };
    let why = node.reason.as_ref().map_or(String::new(), |why| format!(": {}", shown(why)));
    line("node", shown(&node.name));
    line("state", format!("{}{why}", node.state));
    line("cpus", format!("{} of {} given out", node.cpus_used, node.cpus));
    line("ram", format!("{} of {} given out", megabytes(node.ram_used_mb), megabytes(node.ram_mb)));
    if !node.jobs.is_empty() {
        let jobs: Vec<String> = node.jobs.iter().map(ToString::to_string).collect();
        line("jobs", jobs.join(", "));
    }
    for card in cards {
        line(&format!("card {}", card.index), card_in_words(card, node));
    }
    for same in decisions.chunk_by(|a, b| (&a.actor, &a.what) == (&b.actor, &b.what)) {
        let [first, ..] = same else { continue };
        let (who, what) = (shown(&first.actor), shown(&first.what));
        let again = match same {
            [.., last] if same.len() > 1 => format!(" ({} times, last {})", same.len(), when(last.at)),
            _ => String::new(),
        };
        line("decided", format!("{} by {who}: {what}{again}", when(first.at)));
    }
    text
}

fn card_in_words(card: &CardView, node: &NodeView) -> String {
    let (name, uuid) = (shown(&card.name), shown(&card.uuid));
    let free = fields::card_memory(card.free_mb);
    let why = card.why.as_ref().map_or(String::new(), |why| format!(": {}", shown(why)));
    // What keeps it from being given out, or else whoever is there. That the node is drained is said above.
    let drained = matches!(node.state, NodeState::Draining | NodeState::Drained);
    let withheld = card.withheld.as_slice();
    let foreign = if withheld.is_empty() || drained { &card.foreign } else { withheld };
    let foreign = foreign.iter().map(|holder| format!("; {}", shown(holder)));
    let (health, foreign) = (card.health, foreign.collect::<String>());
    format!("{name} {uuid}, {free} free, {health}{why}{foreign}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ax_core::api::DecisionView;

    #[test]
    fn what_was_decided_again_and_again_is_one_line() {
        let decided = |at: i64, what: &str| DecisionView {
            at: WallTime(at),
            actor: "ax".to_owned(),
            what: what.to_owned(),
            why: String::new(),
        };
        let node: NodeView = serde_json::from_value(serde_json::json!({
            "name": "gpu-01", "state": "up", "reason": null, "cpus": 8, "cpus_used": 0, "ram_mb": 1, "ram_used_mb": 0,
            "gpus": 0, "gpus_used": 0, "jobs": [], "epoch": 1, "last_heartbeat_at": null
        }))
        .unwrap();
        let decisions =
            vec![decided(1, "a"), decided(2, "b"), decided(3, "b"), decided(4, "b"), decided(5, "a")];
        let text = in_words(&NodeShow { node, cards: Vec::new(), decisions }, &|at| format!("at {}", at.0));
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("decided")).collect();
        assert_eq!(
            lines,
            [
                "decided   at 1 by ax: a",
                "decided   at 2 by ax: b (3 times, last at 4)",
                "decided   at 5 by ax: a",
            ]
        );
    }
}
