//! What is known of nodes and cards beyond what jobs hold: who drained them and why, which cards are not fit or are
//! held by others, and the story of all that.

use std::collections::BTreeMap;

use ax_core::api::DecisionView;
use ax_core::controller::Known;
use ax_core::gpu::{CardState, Health};
use ax_core::id::HostName;
use ax_core::time::WallTime;
use rusqlite::{Connection, Result};

use super::apply::json;
use super::error::{self, Doing};
use super::open::Store;
use super::read::Reader;

/// A node or one of its cards as it is now, and how it came to be so.
#[derive(Debug, Clone)]
pub struct NodeRow {
    /// The node.
    pub node: HostName,
    /// What has changed.
    pub change: NodeChange,
    /// When.
    pub at: WallTime,
    /// Who.
    pub actor: std::sync::Arc<str>,
    /// What, and why.
    pub text: String,
}

/// What of a node has changed.
#[derive(Debug, Clone)]
pub enum NodeChange {
    /// What is known of a card.
    Card {
        /// Which.
        uuid: String,
        /// What.
        state: Box<CardState>,
    },
    /// Who drained the node and why; absent: nobody.
    Drained(Option<Box<str>>),
}

/// Writes a change down.
pub(crate) fn changed(connection: &Connection, row: &NodeRow) -> Result<()> {
    let node = row.node.as_str();
    let uuid = match &row.change {
        NodeChange::Card { uuid, state } => {
            let sql = "INSERT INTO cards (node, uuid, state) VALUES (?1, ?2, ?3)
                       ON CONFLICT (node, uuid) DO UPDATE SET state = ?3";
            connection.prepare_cached(sql)?.execute((node, uuid, json(state)?))?;
            Some(uuid)
        }
        NodeChange::Drained(drained) => {
            let sql = "INSERT INTO nodes (name, drained) VALUES (?1, ?2)
                       ON CONFLICT (name) DO UPDATE SET drained = ?2";
            connection.prepare_cached(sql)?.execute((node, drained.as_deref()))?;
            None
        }
    };
    let sql = "INSERT INTO node_log (at, node, uuid, actor, text) VALUES (?1, ?2, ?3, ?4, ?5)";
    connection.prepare_cached(sql)?.execute((row.at.0, node, uuid, &*row.actor, &row.text)).map(drop)
}

/// A card of which nobody can say what was known is for a person to look at.
fn state_of(text: &str) -> CardState {
    serde_json::from_str(text).unwrap_or_else(|error| CardState {
        health: Health::Drained,
        why: Some(format!("what was known of it can't be read: {error}")),
        ..CardState::default()
    })
}

impl Store {
    /// What is known of nodes and cards.
    pub(crate) fn known(&self) -> error::Result<BTreeMap<HostName, Known>> {
        let mut known: BTreeMap<HostName, Known> = BTreeMap::new();
        for [node, uuid, state] in self.words("SELECT node, uuid, state FROM cards")? {
            // What no daemon has written is of no node.
            if let Ok(name) = node.parse() {
                known.entry(name).or_default().cards.insert(uuid, state_of(&state));
            }
        }
        let drained = "SELECT name, drained, '' FROM nodes WHERE drained IS NOT NULL";
        for [node, drained, _] in self.words(drained)? {
            if let Ok(name) = node.parse() {
                known.entry(name).or_default().drained = Some(drained.into());
            }
        }
        Ok(known)
    }

    fn words(&self, sql: &str) -> error::Result<Vec<[String; 3]>> {
        let mut statement = self.connection.prepare(sql).doing("read", &self.database)?;
        let rows = statement.query_map([], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]));
        rows.and_then(Iterator::collect).doing("read", &self.database)
    }
}

impl Reader {
    /// What was last decided about a node and its cards, the newest last.
    pub(crate) fn node_log(&self, node: &HostName) -> error::Result<Vec<DecisionView>> {
        let sql = "SELECT at, actor, text FROM node_log WHERE node = ?1 ORDER BY line DESC LIMIT 50";
        let row = |row: &rusqlite::Row<'_>| {
            let (at, actor, what) = (WallTime(row.get(0)?), row.get(1)?, row.get(2)?);
            Ok(DecisionView { at, actor, what, why: String::new() })
        };
        let mut lines = self.all(sql, [node.as_str()], row)?;
        lines.reverse();
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_whose_record_is_damaged_is_left_to_a_person() {
        let state = state_of("{");
        assert_eq!(state.health, Health::Drained);
        assert!(state.why.unwrap().contains("can't be read"));
        let known = CardState { health: Health::Suspect, ..CardState::default() };
        assert_eq!(state_of(&serde_json::to_string(&known).unwrap()), known);
    }
}
