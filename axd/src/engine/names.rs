//! Warns of people and groups in the configuration that the machine does not know. The name service may hang, so a
//! thread of its own asks it, once for each configuration; the loop does not wait.

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
    /// Asks about this configuration; the answer about an earlier one is dropped.
    pub(super) fn begin(file: PathBuf, config: Config, waker: Arc<Waker>) -> NameCheck {
        let (to, from) = channel();
        let ask = move || {
            let heard = to.send(config::lines(&file, &names::unknown(&config)));
            // If the loop is not woken, it finds the answer at the next waking.
            let _ = heard.is_ok().then(|| waker.wake());
        };
        // Without a thread there are no warnings, and nothing else is lost.
        let asking = thread::Builder::new().name("names".to_owned()).spawn(ask);
        NameCheck { from: asking.ok().map(|_| from) }
    }

    fn take(&mut self) -> Vec<String> {
        self.from.as_ref().and_then(|from| from.try_recv().ok()).unwrap_or_default()
    }
}

impl Engine {
    /// Logs the unknown names, once the answer is there.
    pub(super) fn warn_of_names(&mut self) {
        for line in self.name_check.take() {
            self.log.line(Level::Warning, &Line::new("notice").text("text", &line));
        }
    }

    /// Has the names in the present configuration looked up.
    pub(super) fn check_names(&mut self) {
        let file = self.config_file.clone().unwrap_or_else(|| self.paths.config.clone());
        let config = self.controller.config().clone();
        self.name_check = NameCheck::begin(file, config, Arc::clone(&self.waker));
    }
}
