//! The real programs together: a private daemon under a root of its own, real
//! users, groups, files and jobs. One module a promise or capability.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod administration;
#[allow(dead_code, reason = "each test uses what it needs of it")]
mod asking;
mod axrun_outside;
mod backups;
mod bad_words;
mod books;
mod card_apart;
mod card_check;
mod card_fence;
mod card_health;
mod card_jobs;
mod card_keepers;
mod card_limits;
mod card_mps;
mod card_mps_attacks;
mod card_rounds;
mod card_unlisted;
mod card_use;
mod card_watch;
mod cards;
mod cards_cold;
mod cards_hang;
mod changing;
#[allow(dead_code, reason = "each test uses what it needs of it")]
mod cluster;
mod commands;
#[cfg(feature = "crash-points")]
mod crash_points;
mod deaf;
mod disk_full;
#[allow(dead_code, reason = "each test uses what it needs of it")]
mod fake_cards;
mod false_daemon;
mod first_job;
mod hostile_requests;
mod hostile_submissions;
mod hours;
mod inside_job;
mod job_life;
mod keyed;
mod leased;
mod limits;
mod long_requests;
mod never;
mod newcomers;
mod other_users;
mod queue_rights;
#[allow(dead_code, reason = "each test uses what it needs of it")]
mod raw;
mod retention;
mod same_decisions;
mod scheduler_view;
mod scheduling;
mod script_files;
mod sessions;
mod slow_parts;
mod spool;
mod spool_attacks;
mod spool_cron;
mod spool_floods;
mod spool_mounts;
mod stays_small;
mod stored;
mod stories;
mod storm;
#[allow(dead_code, reason = "each test uses what it needs of it")]
mod stranger;
mod supervisor_lost;
mod survival;
mod told;
mod watching;
