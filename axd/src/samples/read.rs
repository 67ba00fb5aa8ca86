//! Reading samples: cards over time, and what attempts used in all.

use std::collections::BTreeMap;

use ax_core::api::{AttemptUsage, CardHistory, CardPoint};
use ax_core::gpu::thin::{Figure, Grain, beginning, thin};
use ax_core::time::WallTime;
use rusqlite::{Connection, Result};

use super::store::{Series, What};

/// Fills in the points of cards, from their `since` on.
pub(super) fn history(
    connection: &Connection,
    cards: Vec<CardHistory>,
    until: WallTime,
) -> Result<Vec<CardHistory>> {
    let fill = |mut card: CardHistory| {
        card.points = points(connection, &card, until)?;
        Ok(card)
    };
    cards.into_iter().map(fill).collect()
}

fn points(connection: &Connection, card: &CardHistory, until: WallTime) -> Result<Vec<CardPoint>> {
    let grain = Grain::reaching((until - card.since).0 / 1000);
    let of = |what| {
        let seen = figures(connection, &Series::card(&card.uuid, what), grain, card.since)?;
        Ok::<_, rusqlite::Error>(thin(seen, card.step_s))
    };
    let (memory, load) = (of(What::Memory)?, of(What::Load)?);
    let (temperature, power) = (of(What::Temperature)?, of(What::Power)?);
    let mut points = Vec::new();
    let mut at = beginning(card.since, card.step_s);
    while at <= until {
        let get = |figures: &BTreeMap<WallTime, Figure>| figures.get(&at).copied();
        points.push(CardPoint {
            used_mb: get(&memory),
            load: get(&load),
            temperature: get(&temperature),
            power_w: get(&power),
        });
        at = WallTime(at.0.saturating_add(i64::from(card.step_s.max(1)) * 1000));
    }
    Ok(points)
}

/// What these attempts used; those of which nothing was seen are left out.
pub(super) fn usage(connection: &Connection, epochs: &[u64]) -> Result<Vec<AttemptUsage>> {
    let mut all = Vec::new();
    for &epoch in epochs {
        let of = |what| {
            let series = Series::attempt(epoch, what);
            let seen = figures(connection, &series, Grain::Hour, WallTime(0))?;
            Ok::<_, rusqlite::Error>(seen.into_iter().map(|(_, figure)| figure).reduce(Figure::and))
        };
        let usage = AttemptUsage {
            epoch,
            gpu_load: of(What::Load)?,
            gpu_mem_mb: of(What::Memory)?,
            cpus: of(What::Cpus)?,
            ram_mb: of(What::Ram)?,
            ..AttemptUsage::default()
        };
        if usage != (AttemptUsage { epoch, ..AttemptUsage::default() }) {
            all.push(usage);
        }
    }
    Ok(all)
}

/// The figures of a series from some time on, in their order.
fn figures(
    connection: &Connection,
    series: &Series,
    grain: Grain,
    since: WallTime,
) -> Result<Vec<(WallTime, Figure)>> {
    let sql = "SELECT at, min, mean, max, count FROM figures
               WHERE series = (SELECT id FROM series WHERE subject = ?1 AND what = ?2)
                 AND grain = ?3 AND at >= ?4 ORDER BY at";
    let since = beginning(since, grain.seconds());
    connection
        .prepare_cached(sql)?
        .query_map((&series.subject, series.what.word(), grain.seconds(), since.0), |row| {
            let figure = Figure { min: row.get(1)?, mean: row.get(2)?, max: row.get(3)?, count: row.get(4)? };
            Ok((WallTime(row.get(0)?), figure))
        })?
        .collect()
}
