//! Reading the configuration again: all of it or, on an error, none of it.

use ax_core::api::{ApiError, ErrorClass, ReloadAnswer};
use ax_core::config::{Config, compare};
use ax_core::controller::Event;
use ax_core::job::Job;
use ax_core::job::state::JobState;
use ax_core::node::Inventory;

use super::stop::Phase;
use super::{Engine, now};
use crate::api::http::Response;
use crate::api::server::ConnId;
use crate::cards::Cards;
use crate::config;
use crate::local;
use crate::log::{Level, Line};
use crate::people::Person;

/// Reads the configuration as at the start: a named file must be there, the usual one may be absent.
pub(super) fn read(
    named: Option<&std::path::Path>,
    usual: &std::path::Path,
) -> Result<config::Loaded, ApiError> {
    let (path, loaded) = match named {
        Some(path) => (path, config::load_named(path)),
        None => (usual, config::load(usual)),
    };
    loaded.map_err(|findings| ApiError {
        class: ErrorClass::Config,
        error: config::lines(path, &findings).join("\n"),
    })
}

impl Engine {
    pub(super) fn reload_asked(&mut self, conn: ConnId, person: &Person) {
        let response = match person.is_admin(self.controller.config()) {
            false => Response::error(&ApiError {
                class: ErrorClass::NoPermission,
                error: format!("only administrators reload the configuration; you are {}", person.name),
            }),
            true => match self.reload(&person.name) {
                Ok(answer) => Response::json(200, &answer),
                Err(error) => Response::error(&error),
            },
        };
        self.answer_when_durable(conn, response);
    }

    /// Reads the file again and, if it is right and takes nothing away from jobs, goes by it.
    pub(super) fn reload(&mut self, who: &str) -> Result<ReloadAnswer, ApiError> {
        self.accepts()?;
        if self.phase != Phase::Serving {
            // A reload would open the queues again, which are stopped for the end.
            let error = "the daemon is being stopped".to_owned();
            return Err(ApiError { class: ErrorClass::TryAgain, error });
        }
        let loaded = read(self.config_file.as_deref(), &self.paths.config)?;
        let had = self.local.inventory.clone();
        // A job that waits for a person's answer may be told to run again.
        let may_run = |job: &&Job| !job.state.is_final() || job.state == JobState::FailedUnknownState;
        let in_use: Vec<_> =
            self.controller.jobs().filter(may_run).map(|j| (j.id, j.queue.clone())).collect();
        let changes = compare(self.controller.config(), &loaded.config, &in_use)
            .map_err(|refusals| ApiError { class: ErrorClass::Config, error: refusals.join("; ") })?;
        let path = self.config_file.clone().unwrap_or_else(|| self.paths.config.clone());
        let mut warnings = config::lines(&path, &loaded.warnings);
        let known = self.local.warnings.clone();
        self.go_by(loaded.config);
        for warning in self.local.warnings.iter().filter(|warning| !known.contains(warning)) {
            self.log.line(Level::Warning, &Line::new("notice").text("text", warning));
            warnings.push(warning.clone());
        }
        warnings.extend(self.jobs_without_cards(&had));
        for change in &changes {
            self.log.line(Level::Info, &Line::new("reload").text("by", &who).text("change", change));
        }
        Ok(ReloadAnswer { changes, warnings })
    }

    /// Jobs run on, on cards that are no longer given out, and that no list of cards shows any more.
    fn jobs_without_cards(&self, had: &Inventory) -> Option<String> {
        let has = &self.local.inventory;
        let gone = |uuid: &String| {
            let of = |inventory: &Inventory| inventory.cards.iter().any(|card| card.uuid == *uuid);
            of(had) && !of(has)
        };
        let on_them = |job: &&Job| {
            let parts = job.attempt.iter().flat_map(|attempt| attempt.open_parts());
            parts
                .filter(|part| part.node == has.name)
                .flat_map(|part| &part.cards)
                .any(|card| gone(&card.uuid))
        };
        let jobs: Vec<String> =
            self.controller.active_jobs().filter(on_them).map(|job| job.id.to_string()).collect();
        let first = jobs.first()?;
        let more =
            if jobs.len() > 1 { format!(" and {} more run", jobs.len() - 1) } else { " runs".to_owned() };
        Some(format!("{first}{more} on cards that are not declared any more: they keep them until they end"))
    }

    /// Tells the controller, and registers this node anew, since it may be declared differently now.
    fn go_by(&mut self, config: Config) {
        let host = self.local.inventory.name.clone();
        let pace = super::gpu::pace(&host, &config);
        self.on_cards(|cards, poller, now| cards.look_again(poller, pace, now));
        self.local = local::look(&host, &config, self.gpu.cards.as_ref().map(Cards::known));
        self.look_for_mps(&config);
        self.gpu.enforcement.mark(&mut self.local.inventory);
        self.step(Event::ConfigLoaded(Box::new(config)));
        self.step(Event::NodeRegistered(self.local.inventory.clone()));
        self.check_names();
        // `accounting.keep` may have changed.
        self.due.prune = now().boot;
        self.read_zone(now().boot);
    }
}
