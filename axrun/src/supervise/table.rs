//! The life of one attempt as a table: states × events → next state and actions.
//! Pure: it knows no process, clock or file. The supervisor turns what happens into events, looks its answer up
//! here and carries the actions out, each of them a few lines. Every pair stands in the table exactly once, the
//! pairs that change nothing too, so that "nothing happens" is a decision and not an omission.

/// Where an attempt stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// The child is made and on its way to exec: it may hang on a file server.
    Preparing,
    /// The script runs.
    Running,
    /// Its processes are frozen, and so is its time limit.
    Suspended,
    /// It runs and had its warning.
    Warned,
    /// Everything was asked to end (TERM) and has its grace.
    Terminating,
    /// Everything was killed; the script may not be reaped yet.
    Killing,
    /// The script ended by itself, or never began; what it left behind was killed.
    Draining,
    /// Nothing of it is left. Only the record is to be written.
    Done,
}

/// What can happen to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// The child executed the script.
    Launched,
    /// The child reported that it could not.
    LaunchFailed,
    /// The script's own process was reaped.
    ChildExit,
    /// Time for the warning.
    Warn,
    /// The time limit is over.
    Limit,
    /// The grace after TERM is over.
    Grace,
    /// Limit, grace and ten seconds are over.
    Overdue,
    /// A look at what is still there is due.
    Again,
    /// Somebody asks that it ends.
    Terminate,
    /// Somebody asks that it ends without grace.
    TerminateNow,
    /// Somebody asks for a signal.
    Signal,
    /// Somebody asks that it is frozen.
    Freeze,
    /// Somebody asks that it is thawed.
    Thaw,
    /// A process of it was killed for memory. Whether that was its end, the script's exit tells.
    OutOfMemory,
    /// The script was reaped **and** nothing of its tree is left.
    Empty,
    /// The attempt may not go on: its node was fenced or its lease given up.
    LeaseLost,
}

/// What is to be done, in the order of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Begin to count the time limit and tell the followers that the script runs.
    Begin,
    /// Note for the verdict what ended the attempt. The first note stays.
    NoteCause,
    /// Note for the verdict that memory was short.
    NoteOutOfMemory,
    /// Send the warning signal.
    Warn,
    /// TERM, then CONT, to every process.
    Term,
    /// Count the grace.
    StartGrace,
    /// KILL to every process, again and again until nothing is left.
    Kill,
    /// Freeze every process and stop counting the limit.
    Freeze,
    /// Thaw every process and go on counting.
    Thaw,
    /// Send the signal that was asked for.
    Signal,
    /// Answer that this can't be done now.
    Refuse,
}

use Action as A;
use Event as E;
use State as S;

/// One row: in each of these states, each of these events leads there and does this. `None`: the state stays.
type Row = (&'static [State], &'static [Event], Option<State>, &'static [Action]);

/// States in which the script's processes run or could run at once.
const LIVE: &[State] = &[S::Running, S::Warned];
const ENDING: &[State] = &[S::Killing, S::Draining];
const ALL_BUT_DONE: &[State] =
    &[S::Preparing, S::Running, S::Suspended, S::Warned, S::Terminating, S::Killing, S::Draining];

#[rustfmt::skip]
const TABLE: &[Row] = &[
    // The start.
    (&[S::Preparing], &[E::Launched],                       Some(S::Running),     &[A::Begin]),
    (&[S::Preparing], &[E::LaunchFailed],                   Some(S::Draining),    &[A::Kill]),
    (&[S::Preparing], &[E::ChildExit],                      Some(S::Draining),    &[A::Kill]),
    // Nothing of the user's ran yet, so there is nothing to be given grace.
    (&[S::Preparing], &[E::Terminate, E::TerminateNow, E::LeaseLost, E::Limit, E::Overdue],
                                                            Some(S::Killing),     &[A::NoteCause, A::Kill]),
    (&[S::Preparing], &[E::Signal, E::Freeze, E::Thaw],     None,                 &[A::Refuse]),
    (&[S::Preparing], &[E::Warn, E::Grace, E::Again, E::Empty], None,             &[]),

    // It runs. Whatever a script leaves behind when it ends gets no grace.
    (LIVE,            &[E::ChildExit],                      Some(S::Draining),    &[A::Kill]),
    (&[S::Running],   &[E::Warn],                           Some(S::Warned),      &[A::Warn]),
    (&[S::Warned],    &[E::Warn],                           None,                 &[]),
    (LIVE,            &[E::Limit, E::Terminate],            Some(S::Terminating), &[A::NoteCause, A::Term, A::StartGrace]),
    (LIVE,            &[E::Overdue, E::TerminateNow, E::LeaseLost],
                                                            Some(S::Killing),     &[A::NoteCause, A::Kill]),
    (LIVE,            &[E::Signal],                         None,                 &[A::Signal]),
    (LIVE,            &[E::Freeze],                         Some(S::Suspended),   &[A::Freeze]),
    (LIVE,            &[E::Thaw, E::Launched, E::LaunchFailed, E::Grace, E::Again, E::Empty], None, &[]),

    // Frozen: a signal waits for the thaw, an end does not. A warning is sent once: the timer is spent.
    (&[S::Suspended], &[E::Thaw],                           Some(S::Running),     &[A::Thaw]),
    (&[S::Suspended], &[E::Freeze],                         None,                 &[]),
    (&[S::Suspended], &[E::Signal],                         None,                 &[A::Signal]),
    (&[S::Suspended], &[E::ChildExit],                      Some(S::Draining),    &[A::Kill, A::Thaw]),
    (&[S::Suspended], &[E::Limit, E::Terminate],            Some(S::Terminating), &[A::NoteCause, A::Term, A::Thaw, A::StartGrace]),
    (&[S::Suspended], &[E::Overdue, E::TerminateNow, E::LeaseLost],
                                                            Some(S::Killing),     &[A::NoteCause, A::Kill, A::Thaw]),
    (&[S::Suspended], &[E::Launched, E::LaunchFailed, E::Warn, E::Grace, E::Again, E::Empty], None, &[]),

    // Asked to end. The script's own end does not shorten the grace of the others: a shell dies of TERM at
    // once, while the program that it started is still writing its checkpoint.
    (&[S::Terminating], &[E::ChildExit, E::Again],          None,                 &[]),
    (&[S::Terminating], &[E::Grace, E::Overdue, E::TerminateNow, E::LeaseLost],
                                                            Some(S::Killing),     &[A::NoteCause, A::Kill]),
    (&[S::Terminating], &[E::Empty],                        Some(S::Done),        &[]),
    (&[S::Terminating], &[E::Signal],                       None,                 &[A::Signal]),
    (&[S::Terminating], &[E::Freeze],                       None,                 &[A::Refuse]),
    (&[S::Terminating], &[E::Terminate, E::Limit, E::Warn, E::Thaw, E::Launched, E::LaunchFailed], None, &[]),

    // Being killed. An end that is asked for now is under way already.
    (ENDING,          &[E::Again],                          None,                 &[A::Kill]),
    (ENDING,          &[E::Empty],                          Some(S::Done),        &[]),
    (ENDING,          &[E::Signal, E::Freeze],              None,                 &[A::Refuse]),
    (ENDING,          &[E::ChildExit, E::Terminate, E::TerminateNow, E::LeaseLost, E::Limit, E::Overdue, E::Grace,
                        E::Warn, E::Thaw, E::Launched, E::LaunchFailed], None,    &[]),

    (ALL_BUT_DONE,    &[E::OutOfMemory],                    None,                 &[A::NoteOutOfMemory]),

    // Over: the answer to every request is in the record.
    (&[S::Done],      &[E::Terminate, E::TerminateNow, E::Signal, E::Freeze, E::Thaw], None, &[A::Refuse]),
    (&[S::Done],      &[E::Launched, E::LaunchFailed, E::ChildExit, E::Warn, E::Limit, E::Grace, E::Overdue, E::Again,
                        E::OutOfMemory, E::Empty, E::LeaseLost], None,            &[]),
];

impl State {
    /// Where this event leads from here, and what is to be done.
    pub(crate) fn on(self, event: Event) -> (State, &'static [Action]) {
        let row = TABLE.iter().find(|(states, events, ..)| states.contains(&self) && events.contains(&event));
        row.map_or((self, &[]), |(_, _, next, actions)| (next.unwrap_or(self), actions))
    }

    /// Whether the script's processes run.
    pub(crate) fn is_live(self) -> bool {
        LIVE.contains(&self)
    }

    /// Whether its end has begun.
    pub(crate) fn is_ending(self) -> bool {
        matches!(self, S::Terminating | S::Killing | S::Draining | S::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STATES: [State; 8] =
        [S::Preparing, S::Running, S::Suspended, S::Warned, S::Terminating, S::Killing, S::Draining, S::Done];

    const EVENTS: [Event; 16] = [
        E::Launched,
        E::LaunchFailed,
        E::ChildExit,
        E::Warn,
        E::Limit,
        E::Grace,
        E::Overdue,
        E::Again,
        E::Terminate,
        E::TerminateNow,
        E::Signal,
        E::Freeze,
        E::Thaw,
        E::OutOfMemory,
        E::Empty,
        E::LeaseLost,
    ];

    fn pairs() -> impl Iterator<Item = (State, Event)> {
        STATES.into_iter().flat_map(|state| EVENTS.into_iter().map(move |event| (state, event)))
    }

    #[test]
    fn every_pair_has_exactly_one_row() {
        for (state, event) in pairs() {
            let rows = TABLE.iter().filter(|(s, e, ..)| s.contains(&state) && e.contains(&event)).count();
            assert_eq!(rows, 1, "{state:?} on {event:?}");
        }
    }

    #[test]
    fn no_state_ignores_the_wish_to_end() {
        for state in STATES.into_iter().filter(|state| *state != S::Done) {
            for event in [E::Terminate, E::TerminateNow, E::LeaseLost, E::Limit, E::Overdue] {
                let (next, _) = state.on(event);
                assert!(next.is_ending(), "{state:?} on {event:?}");
            }
            for event in [E::TerminateNow, E::LeaseLost, E::Overdue] {
                let (next, _) = state.on(event);
                assert!(matches!(next, S::Killing | S::Draining), "{state:?} on {event:?}");
            }
        }
    }

    #[test]
    fn whoever_enters_an_ending_state_is_killed_or_has_a_grace_that_ends_in_a_kill() {
        for (state, event) in pairs() {
            let (next, actions) = state.on(event);
            if next == state {
                continue;
            }
            match next {
                S::Killing | S::Draining => assert!(actions.contains(&A::Kill), "{state:?} on {event:?}"),
                S::Terminating => {
                    assert!(actions.contains(&A::Term) && actions.contains(&A::StartGrace), "{state:?}");
                    assert_eq!(S::Terminating.on(E::Grace).0, S::Killing);
                }
                _ => {}
            }
        }
    }

    #[test]
    fn nothing_stays_frozen_at_its_end() {
        for event in EVENTS {
            let (next, actions) = S::Suspended.on(event);
            if next != S::Suspended {
                assert!(actions.contains(&A::Thaw), "{event:?}");
            }
        }
        for (state, event) in pairs() {
            let (next, actions) = state.on(event);
            assert_eq!(actions.contains(&A::Freeze), next == S::Suspended && state != S::Suspended);
        }
    }

    #[test]
    fn an_end_is_never_taken_back() {
        for (state, event) in pairs().filter(|(state, _)| state.is_ending()) {
            assert!(state.on(event).0.is_ending(), "{state:?} on {event:?}");
        }
        for event in EVENTS {
            assert_eq!(S::Done.on(event).0, S::Done);
        }
    }

    #[test]
    fn done_only_when_nothing_is_left() {
        for (state, event) in pairs().filter(|(state, _)| *state != S::Done) {
            if state.on(event).0 == S::Done {
                assert_eq!(event, E::Empty, "{state:?}");
            }
        }
    }

    #[test]
    fn every_request_is_refused_or_done_but_never_lost() {
        // What changes nothing and refuses nothing must be a request whose wish is already fulfilled.
        for state in STATES {
            for event in [E::Terminate, E::TerminateNow, E::Signal, E::Freeze, E::Thaw] {
                let (next, actions) = state.on(event);
                let fulfilled = match event {
                    E::Terminate | E::TerminateNow => state.is_ending(),
                    E::Freeze => state == S::Suspended,
                    E::Thaw => state != S::Suspended,
                    _ => false,
                };
                assert!(next != state || !actions.is_empty() || fulfilled, "{state:?} on {event:?}");
            }
        }
    }

    fn any_event() -> impl Strategy<Value = Event> {
        (0..EVENTS.len()).prop_map(|index| EVENTS[index])
    }

    proptest! {
        /// Whatever happened before: an end that is asked for, the grace, the child's exit and emptiness lead to Done.
        #[test]
        fn every_history_can_be_ended(history in proptest::collection::vec(any_event(), 0..40)) {
            let mut state = S::Preparing;
            for event in history {
                state = state.on(event).0;
            }
            for event in [E::Terminate, E::Grace] {
                state = state.on(event).0;
            }
            prop_assert!(matches!(state, S::Killing | S::Draining | S::Done));
            for event in [E::ChildExit, E::Empty] {
                state = state.on(event).0;
            }
            prop_assert_eq!(state, S::Done);
        }

        /// Once killed, nothing that may happen keeps emptiness from being the end.
        #[test]
        fn killed_and_empty_is_done(noise in proptest::collection::vec(any_event(), 0..40)) {
            for start in [S::Killing, S::Draining] {
                let mut state = start;
                for event in &noise {
                    state = state.on(*event).0;
                }
                prop_assert_eq!(state.on(E::Empty).0, S::Done);
            }
        }
    }
}
