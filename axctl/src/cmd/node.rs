//! `ax node list`: the nodes, what they have and what of it is given out.

use ax_core::api::NodeView;

use crate::failure::Failure;
use crate::fields::{self, Field, left, megabytes, right};
use crate::session::Session;
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

const COLUMNS: &str = "name,state,cpus,ram,gpus,jobs,heartbeat,reason";

static FIELDS: [Field<NodeView>; 9] = [
    left("name", "NODE", Last(8), |node, _| Cell::new(&node.name)),
    left("state", "STATE", Last(4), |node, _| Cell::painted(&node.state, paint(&node.state))),
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

fn paint(state: &str) -> Paint {
    match state {
        "up" => Paint::Good,
        "drained" | "draining" => Paint::Note,
        _ => Paint::Bad,
    }
}

impl Arguments {
    /// Asks and prints.
    pub(crate) fn run(&self, session: &mut Session<'_, '_>) -> Result<u8, Failure> {
        let Command::List(list) = &self.command;
        let fields = fields::choose(&FIELDS, list.format.as_deref().unwrap_or(COLUMNS))?;
        let nodes: Vec<NodeView> = session.client.get("/api/v1/nodes")?;
        if list.json {
            session.json(&nodes)?;
        } else {
            let table = fields::table(&fields, &nodes, &session.clock, |_| None);
            session.table(&table, !list.noheader, list.long)?;
        }
        Ok(0)
    }
}
