//! Plays `libnvidia-ml.so.1` for the tests: cards, processes, errors and hangs as a text file says, which is read anew
//! for every call. README.md has its form. Whoever loads this must not be able to tell it from the real one.

mod calls;
mod script;
mod state;
mod table;
