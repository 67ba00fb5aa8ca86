//! Warns of people and groups that the configuration names and the machine does
//! not know. The name service may hang: a thread of its own asks it, once a
//! configuration, and the loop waits for nothing.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use ax_core::config::Config;
use ax_sys::socket::Waker;

use super::Engine;
use crate::config::{self, names};
use crate::log::{Level, Line};

/// An answer that may come.
#[derive(Debug, Default)]
pub(super) struct NameCheck {
    from: Option<Receiver<Vec<String>>>,
}

impl NameCheck {
    /// Begins to ask about this configuration; whatever was asked before is of no interest any more.
    pub(super) fn begin(file: PathBuf, config: Config, waker: Arc<Waker>) -> NameCheck {
        let (to, from) = channel();
        let ask = move || {
            let heard = to.send(config::lines(&file, &names::unknown(&config)));
            // Who does not hear it at once finds it at the next waking.
            let _ = heard.is_ok().then(|| waker.wake());
        };
        // Without a thread nobody is warned, and that is all.
        let asking = thread::Builder::new().name("names".to_owned()).spawn(ask);
        NameCheck { from: asking.ok().map(|_| from) }
    }

    fn take(&mut self) -> Vec<String> {
        self.from.as_ref().and_then(|from| from.try_recv().ok()).unwrap_or_default()
    }
}

impl Engine {
    /// Says who is not there, once that is known.
    pub(super) fn warn_of_names(&mut self) {
        for line in self.name_check.take() {
            self.log.line(Level::Warning, &Line::new("notice").text("text", &line));
        }
    }

    /// Has it found out who of the configuration in force is not there.
    pub(super) fn check_names(&mut self) {
        let file = self.config_file.clone().unwrap_or_else(|| self.paths.config.clone());
        let config = self.controller.config().clone();
        self.name_check = NameCheck::begin(file, config, Arc::clone(&self.waker));
    }
}
