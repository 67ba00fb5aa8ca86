//! `ax resource`: every card: who holds it, how much of it, what is measured, and its health.
//! The holders are told by name: that takes a second question, about the jobs on the cards.

use std::collections::BTreeMap;

use ax_core::api::{CardView, JobView, JobsQuery};
use ax_core::id::JobId;

use crate::failure::Failure;
use crate::fields::{self, Field, card_memory, left, right};
use crate::session::Session;
use crate::style::Paint;
use crate::table::Cell;
use crate::table::Shrink::{Freely, Last, Never};

/// Show every card: owner, slices, memory, load, health
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// These columns, separated by commas
    #[arg(short = 'o', long, value_name = "COLUMNS")]
    format: Option<String>,
    /// More columns, and nothing is cut
    #[arg(short, long, visible_alias = "wide")]
    long: bool,
    /// Without the line of titles
    #[arg(long)]
    noheader: bool,
    /// One JSON document with everything
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

/// A card and who holds it.
struct Row {
    card: CardView,
    /// Users, separated by commas.
    owner: String,
    /// Jobs with their users and slices, and strangers, in words.
    holders: String,
}

const COLUMNS: &str = "node,index,name,mem,reserved,used,load,health,owner,jobs";
const NARROW: &str = "node,index,name,mem,reserved,used,load,health,owner";
const LONG: &str = "node,index,name,uuid,mem,free,reserved,used,p95,load,limit,health,owner,holders";

static FIELDS: [Field<Row>; 15] = [
    left("node", "NODE", Last(6), |row, _| Cell::new(&row.card.node)),
    right("index", "GPU", |row, _| Cell::new(row.card.index.to_string())),
    left("name", "NAME", Freely(4), |row, _| Cell::new(short_name(&row.card.name))),
    left("uuid", "UUID", Never, |row, _| Cell::new(&row.card.uuid)),
    right("mem", "MEM", |row, _| Cell::new(card_memory(row.card.mem_mb))),
    right("free", "FREE", |row, _| Cell::new(card_memory(row.card.free_mb))),
    right("reserved", "RESERVED", |row, _| Cell::new(card_memory(row.card.reserved_mb))),
    right("used", "USED", |row, _| Cell::maybe(row.card.used_mb.map(card_memory))),
    right("p95", "P95", |row, _| Cell::maybe(row.card.p95_mb.map(card_memory))),
    right("load", "LOAD", |row, _| Cell::maybe(row.card.load.map(|load| format!("{load}%")))),
    left("limit", "LIMIT", Never, |row, _| Cell::new(&row.card.limit)),
    left("health", "HEALTH", Last(7), |row, _| Cell::painted(&row.card.health, paint(&row.card.health))),
    left("owner", "OWNER", Last(5), |row, _| Cell::new(&row.owner)),
    left("jobs", "JOBS", Freely(12), |row, _| Cell::new(job_ids(&row.card))),
    left("holders", "HOLDERS", Freely(12), |row, _| Cell::new(&row.holders)),
];

/// All cards are of one maker: its name says nothing.
fn short_name(name: &str) -> &str {
    name.strip_prefix("NVIDIA ").unwrap_or(name)
}

fn job_ids(card: &CardView) -> String {
    let ids: Vec<String> = card.jobs.iter().map(JobId::to_string).collect();
    if ids.is_empty() { "-".to_owned() } else { ids.join(",") }
}

fn paint(health: &str) -> Paint {
    match health {
        "healthy" => Paint::Good,
        "drained" => Paint::Note,
        _ => Paint::Bad,
    }
}

impl Arguments {
    /// Asks and prints.
    pub(crate) fn run(&self, session: &mut Session<'_, '_>) -> Result<u8, Failure> {
        let narrow = self.format.is_none() && !self.long && session.has_room_below();
        let names = match (&self.format, self.long) {
            (Some(format), _) => format,
            (None, true) => LONG,
            (None, false) if narrow => NARROW,
            (None, false) => COLUMNS,
        };
        let fields = fields::choose(&FIELDS, names)?;
        let cards: Vec<CardView> = session.client.get("/api/v1/cards")?;
        if self.json {
            session.json(&cards)?;
            return Ok(0);
        }
        if cards.is_empty() {
            session.remark("there are no cards; 'ax node list' shows CPUs and memory");
            return Ok(0);
        }
        let jobs = holders(session, &cards)?;
        let rows: Vec<Row> = cards.into_iter().map(|card| Row::new(card, &jobs)).collect();
        let note = |row: &Row| Some(row.holders.clone()).filter(|holders| narrow && holders != "-");
        let table = fields::table(&fields, &rows, &session.clock, note);
        session.table(&table, !self.noheader, self.long)?;
        Ok(0)
    }
}

impl Row {
    fn new(card: CardView, jobs: &BTreeMap<JobId, JobView>) -> Row {
        let users = card.jobs.iter().filter_map(|id| jobs.get(id)).map(|job| job.user.clone());
        let mut owners: Vec<String> = users.collect();
        owners.sort();
        owners.dedup();
        if !card.foreign.is_empty() {
            owners.push("(outside)".to_owned());
        }
        let owner = if owners.is_empty() { "-".to_owned() } else { owners.join(",") };
        Row { owner, holders: in_words(&card, jobs), card }
    }
}

/// The jobs on the cards, as far as the caller may see them.
fn holders(session: &Session<'_, '_>, cards: &[CardView]) -> Result<BTreeMap<JobId, JobView>, Failure> {
    if cards.iter().all(|card| card.jobs.is_empty()) {
        return Ok(BTreeMap::new());
    }
    let answer = session.client.jobs(&JobsQuery::default())?;
    Ok(answer.jobs.into_iter().map(|job| (job.id, job)).collect())
}

/// `ax-2026-0001 alice 40GB, ax-2026-0002 bob; outside ax: pid 17 (carol)`, or `-`.
fn in_words(card: &CardView, jobs: &BTreeMap<JobId, JobView>) -> String {
    let one = |id: &JobId| match jobs.get(id) {
        Some(JobView { user, gpu_mem_mb: Some(mb), .. }) => format!("{id} {user} {}", card_memory(*mb)),
        Some(job) => format!("{id} {}", job.user),
        None => id.to_string(),
    };
    let mut words = card.jobs.iter().map(one).collect::<Vec<_>>().join(", ");
    if !card.foreign.is_empty() {
        let gap = if words.is_empty() { "" } else { "; " };
        words.push_str(&format!("{gap}outside ax: {}", card.foreign.join(", ")));
    }
    if words.is_empty() { "-".to_owned() } else { words }
}
