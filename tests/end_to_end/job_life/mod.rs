//! A job's life as its user sees it, one module a stretch of it.

mod ends;
mod environment;
mod files;
mod leftovers;
mod odd;
mod resources;
mod retries;
mod scripts;
mod waiting;
