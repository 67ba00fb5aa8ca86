//! `ax resource`: every card: who holds it, how much of it, what is measured, and its health. `--history` is in
//! `history`.

use ax_core::api::{CardView, HeldView};
use ax_core::gpu::Health;
use ax_core::id::JobId;

use super::history;
use crate::failure::Failure;
use crate::fields::{self, Field, card_memory, left, right};
use crate::session::Session;
use crate::style::Paint;
use crate::table::Cell;
use crate::table::Shrink::{Freely, Goes, Last, Never};

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
    /// Memory and load over time as small charts, an hour back or as long as SPAN says (30m, 6h, 7d)
    #[arg(long, value_name = "SPAN", num_args = 0..=1, default_missing_value = "1h", conflicts_with_all = ["format", "long"])]
    history: Option<String>,
    /// One JSON document with everything
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

/// A card and who holds it.
struct Row {
    card: CardView,
    /// Users, separated by commas.
    owner: String,
    /// Slices, separated by commas, or `whole`.
    slices: String,
    /// Jobs with their users and slices, and strangers, in words.
    holders: String,
}

const COLUMNS: &str = "node,index,name,mem,reserved,used,p95,load,temp,limit,health,owner,slices,jobs";
const NARROW: &str = "node,index,name,mem,reserved,used,p95,load,temp,limit,health,owner";
const LONG: &str = "node,index,name,uuid,mem,free,reserved,used,p95,unused,unexplained,load,temp,power,limit,health,owner,slices,holders,note";

static FIELDS: [Field<Row>; 21] = [
    left("node", "NODE", Last(6), |row, _| Cell::new(&row.card.node)),
    right("index", "GPU", |row, _| Cell::new(row.card.index.to_string())),
    left("name", "NAME", Goes, |row, _| Cell::new(short_name(&row.card.name))),
    left("uuid", "UUID", Never, |row, _| Cell::new(&row.card.uuid)),
    right("mem", "MEM", |row, _| Cell::new(card_memory(row.card.mem_mb))),
    right("free", "FREE", |row, _| Cell::new(card_memory(row.card.free_mb))),
    right("reserved", "RESERVED", |row, _| Cell::new(card_memory(row.card.reserved_mb))),
    right("used", "USED", |row, _| Cell::maybe(row.card.used_mb.map(card_memory))),
    right("p95", "P95", |row, _| Cell::maybe(row.card.p95_mb.map(card_memory))),
    right("unused", "UNUSED", |row, _| Cell::maybe(row.card.unused_mb.map(card_memory))),
    right("unexplained", "UNEXPLAINED", |row, _| Cell::maybe(row.card.unexplained_mb.map(card_memory))),
    right("load", "LOAD", |row, _| Cell::maybe(row.card.load.map(|load| format!("{load}%")))),
    right("temp", "TEMP", |row, _| Cell::maybe(row.card.temperature.map(|degrees| format!("{degrees}C")))),
    right("power", "POWER", |row, _| {
        Cell::maybe(row.card.power_mw.map(|power| format!("{}W", power.div_ceil(1000))))
    }),
    left("limit", "LIMIT", Last(5), |row, _| Cell::new(row.card.limit.to_string())),
    left("health", "HEALTH", Last(7), |row, _| {
        Cell::painted(row.card.health.to_string(), paint(row.card.health))
    }),
    left("owner", "OWNER", Last(5), |row, _| Cell::new(&row.owner)),
    left("slices", "SLICES", Goes, |row, _| Cell::new(&row.slices)),
    left("jobs", "JOBS", Goes, |row, _| Cell::new(job_ids(&row.card))),
    left("holders", "HOLDERS", Freely(12), |row, _| Cell::new(&row.holders)),
    left("note", "NOTE", Freely(12), |row, _| {
        Cell::new(remarks(&row.card).unwrap_or_else(|| "-".to_owned()))
    }),
];

/// All cards are of one maker: its name says nothing.
fn short_name(name: &str) -> &str {
    ["NVIDIA ", "nvidia-"].iter().find_map(|maker| name.strip_prefix(maker)).unwrap_or(name)
}

fn job_ids(card: &CardView) -> String {
    let ids: Vec<String> = card.jobs.iter().map(JobId::to_string).collect();
    if ids.is_empty() { "-".to_owned() } else { ids.join(",") }
}

fn paint(health: Health) -> Paint {
    match health {
        Health::Healthy => Paint::Good,
        Health::Drained => Paint::Note,
        Health::Suspect => Paint::Bad,
    }
}

impl Arguments {
    /// Asks and prints.
    pub(crate) fn run(&self, session: &mut Session<'_, '_>) -> Result<u8, Failure> {
        if let Some(span) = &self.history {
            return history::run(session, span, self.json);
        }
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
        let free = free_in_words(&cards);
        let rows: Vec<Row> = cards.into_iter().map(Row::new).collect();
        // Who wants a line to be a card and nothing else says so.
        let bare = self.noheader || self.format.is_some();
        let note = |row: &Row| {
            // The remarks name the strangers that matter.
            let strangers = if row.card.withheld.is_some() { &[][..] } else { &row.card.foreign };
            let holders = in_words(&row.card, strangers).filter(|_| narrow);
            let remarks = remarks(&row.card).filter(|_| (session.screen.terminal || !bare) && !self.long);
            let both: Vec<String> = holders.into_iter().chain(remarks).collect();
            (!both.is_empty()).then(|| both.join("; "))
        };
        let mut table = fields::table(&fields, &rows, &session.clock, note);
        if self.format.is_some() {
            table.keep_all();
        }
        session.table(&table, !self.noheader, self.long)?;
        if !bare {
            session.print(&free)?;
        }
        Ok(0)
    }
}

impl Row {
    fn new(card: CardView) -> Row {
        let mut owners: Vec<String> = card.held.iter().map(|held| held.user.clone()).collect();
        owners.sort();
        owners.dedup();
        if !card.foreign.is_empty() {
            owners.push("(outside)".to_owned());
        }
        let slice = |held: &HeldView| held.mem_mb.map_or("whole".to_owned(), card_memory);
        let slices: Vec<String> = card.held.iter().map(slice).collect();
        let or_none = |list: Vec<String>| if list.is_empty() { "-".to_owned() } else { list.join(",") };
        let holders = in_words(&card, &card.foreign);
        Row {
            owner: or_none(owners),
            slices: or_none(slices),
            holders: or_none(holders.into_iter().collect()),
            card,
        }
    }
}

/// `ax-2026-0001 alice 40GB (31GB used), ax-2026-0002 bob; outside ax: pid 17 (carol)`.
fn in_words(card: &CardView, strangers: &[String]) -> Option<String> {
    let one = |held: &HeldView| {
        let slice = held.mem_mb.map_or_else(String::new, |mb| format!(" {}", card_memory(mb)));
        let used = held.used_mb.map_or_else(String::new, |mb| format!(" ({} used)", card_memory(mb)));
        format!("{} {}{slice}{used}", held.job, held.user)
    };
    let mut words = card.held.iter().map(one).collect::<Vec<_>>().join(", ");
    if !strangers.is_empty() {
        let gap = if words.is_empty() { "" } else { "; " };
        words.push_str(&format!("{gap}outside ax: {}", strangers.join(", ")));
    }
    (!words.is_empty()).then_some(words)
}

/// What somebody should know of a card.
fn remarks(card: &CardView) -> Option<String> {
    let barred = if card.barred && card.health == Health::Healthy { "given to nobody: " } else { "" };
    let withheld = card.withheld.iter().map(|withheld| format!("{barred}{withheld}"));
    let all: Vec<String> = card.why.iter().cloned().chain(withheld).chain(card.warning.clone()).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// `free: 3 whole cards, 112GB in 4 pieces`: a piece is what slices have left of a card.
fn free_in_words(cards: &[CardView]) -> String {
    let usable = |card: &&CardView| !card.barred;
    let whole = cards.iter().filter(usable).filter(|card| card.reserved_mb == 0).count();
    let pieces: Vec<u64> = cards
        .iter()
        .filter(usable)
        .filter(|card| card.reserved_mb > 0 && card.free_mb > 0)
        .map(|card| card.free_mb)
        .collect();
    let plural = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let mut text = format!("free: {}", plural(whole, "whole card"));
    if !pieces.is_empty() {
        let sum = card_memory(pieces.iter().sum());
        text.push_str(&format!(", {sum} in {}", plural(pieces.len(), "piece")));
    }
    text + "\n"
}
