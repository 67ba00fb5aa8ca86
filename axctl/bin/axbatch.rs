//! The program `axbatch`; everything is in the crate axctl.
#![cfg_attr(not(test), no_main)]

#[cfg(not(test))]
axctl::lean_main!(axctl::axbatch::main);
