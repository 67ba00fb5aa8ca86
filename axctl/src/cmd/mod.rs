//! The subcommands of `ax`, one file each: arguments, the question to the daemon, the answer shown.

pub(crate) mod acct;
pub(crate) mod act;
pub(crate) mod cancel;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod eff;
pub(crate) mod history;
pub(crate) mod keep;
pub(crate) mod logs;
pub(crate) mod node;
pub(crate) mod queue;
pub(crate) mod reload;
pub(crate) mod resource;
pub(crate) mod select;
pub(crate) mod status;
pub(crate) mod submit;
pub(crate) mod update;
pub(crate) mod why;
