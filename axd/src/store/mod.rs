//! The store: the truth about every job, in SQLite in the state directory.
//!
//! One writer thread commits batches of rows and says which are durable; readers have connections of their own that
//! can't write. The store decides nothing about jobs: it records what the controller decided and gives it back. A
//! restart reads the column `core` of the table of jobs.

pub mod backup;
pub mod check;
pub mod details;
pub mod error;
pub mod events;
pub mod read;
pub mod rows;
pub mod view;
pub mod write;

mod apply;
mod blobs;
mod high;
mod meta;
mod nodes;
mod numbers;
mod open;
mod profiles;
mod prune;
mod reserve;
mod restore;
mod schema;

pub use blobs::{Content, Footprint};
pub use details::{Details, Environment, OutputFiles, Usage};
pub use error::{Result, StoreError};
pub use nodes::{NodeChange, NodeRow};
pub(crate) use open::make_private as open_private;
pub use open::{Store, adopt};
pub use profiles::Learnt;
pub use read::{AttemptRecord, Finished, Reader};
pub use restore::{Broken, Holding, Restored};
pub use rows::{AttemptClosed, AttemptOpened, Batch, Beside, LogKind, LogRow, NewJob, NewParts, Row};
pub use write::{Ack, Options, Writer};
