//! The state of the screen: which jobs, in which order, which of them is chosen, and what a key does. Pure: what is
//! to be done elsewhere is returned as a [`Wish`].

use ax_core::api::{CardView, JobView};
use ax_core::id::JobId;
use ax_core::time::{Span, WallTime};

use super::keys::Key;

/// What the daemon says.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Seen {
    pub(super) at: WallTime,
    pub(super) cards: Vec<CardView>,
    pub(super) jobs: Vec<JobView>,
    /// Jobs that are not in the list.
    pub(super) left_out: u64,
    /// Why it is not newer.
    pub(super) trouble: Option<String>,
}

/// What is done elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wish {
    Quit,
    Halt,
    Redraw,
    Cancel(JobId),
    /// Where does it write?
    Follow(JobId),
}

/// What is on the screen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Mode {
    #[default]
    List,
    /// The filter is being typed.
    Filter,
    /// Shall it be cancelled?
    Confirm(JobId),
    /// The end of a job's output.
    Log(JobId),
    Help,
}

/// What jobs are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Order {
    /// As the daemon lists them: running ones, then who is next.
    #[default]
    Turn,
    Id,
    User,
    Time,
    Cards,
    Priority,
}

impl Order {
    const ALL: [Order; 6] = [Order::Turn, Order::Id, Order::User, Order::Time, Order::Cards, Order::Priority];

    pub(super) fn word(self) -> &'static str {
        match self {
            Order::Turn => "turn",
            Order::Id => "id",
            Order::User => "user",
            Order::Time => "time",
            Order::Cards => "cards",
            Order::Priority => "priority",
        }
    }

    fn next(self) -> Order {
        let at = Order::ALL.iter().position(|order| *order == self).unwrap_or(0);
        Order::ALL[(at + 1) % Order::ALL.len()]
    }
}

/// All of it.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) seen: Seen,
    pub(super) mode: Mode,
    pub(super) order: Order,
    pub(super) reversed: bool,
    pub(super) filter: String,
    /// Only jobs of this user.
    pub(super) only: Option<String>,
    /// Who looks.
    pub(super) user: Option<String>,
    /// The job that is meant, wherever it is in the list.
    pub(super) chosen: Option<JobId>,
    /// Cards are moved through instead of jobs.
    pub(super) on_cards: bool,
    pub(super) first_card: usize,
    /// What became of the last wish.
    pub(super) said: Option<String>,
    /// The output that is followed.
    pub(super) log: Vec<String>,
    pub(super) log_path: Option<String>,
    /// Rows that a page has.
    pub(super) page: usize,
}

impl State {
    /// The jobs that are shown, in their order.
    pub(super) fn jobs(&self) -> Vec<&JobView> {
        let mut jobs: Vec<&JobView> = self.seen.jobs.iter().filter(|job| self.shows(job)).collect();
        match self.order {
            Order::Turn => {}
            Order::Id => jobs.sort_by_key(|job| job.id),
            Order::User => jobs.sort_by(|a, b| a.user.cmp(&b.user)),
            Order::Time => jobs.sort_by_key(|job| std::cmp::Reverse(self.ran(job))),
            Order::Cards => jobs.sort_by_key(|job| std::cmp::Reverse(job.gpus)),
            Order::Priority => jobs.sort_by_key(|job| std::cmp::Reverse(job.priority)),
        }
        if self.reversed {
            jobs.reverse();
        }
        jobs
    }

    fn ran(&self, job: &JobView) -> Span {
        job.started_at.map_or(Span::ZERO, |start| self.seen.at - start)
    }

    fn shows(&self, job: &JobView) -> bool {
        let wanted = self.filter.to_lowercase();
        let (id, nodes) = (job.id.to_string(), job.nodes.join(","));
        let texts = [id.as_str(), &job.name, &job.user, &job.queue, job.state.word(), &nodes];
        let own = self.only.as_ref().is_none_or(|user| *user == job.user);
        own && (wanted.is_empty() || texts.iter().any(|text| text.to_lowercase().contains(&wanted)))
    }

    /// The place of the job that is meant; the first if it has gone.
    pub(super) fn place(&self) -> usize {
        self.jobs().iter().position(|job| Some(job.id) == self.chosen).unwrap_or(0)
    }

    fn chosen_job(&self) -> Option<JobId> {
        self.jobs().get(self.place()).map(|job| job.id)
    }

    /// Takes in what the daemon says.
    pub(super) fn take(&mut self, seen: Seen) {
        let trouble = seen.trouble.is_some();
        if trouble {
            self.seen.trouble = seen.trouble;
            return;
        }
        self.seen = seen;
        self.first_card = self.first_card.min(self.seen.cards.len().saturating_sub(1));
    }

    /// What a key does.
    pub(super) fn press(&mut self, key: Key) -> Option<Wish> {
        match key {
            Key::Interrupt => return Some(Wish::Quit),
            Key::Halt => return Some(Wish::Halt),
            Key::Redraw => return Some(Wish::Redraw),
            _ => {}
        }
        match self.mode.clone() {
            Mode::List => self.in_list(key),
            Mode::Filter => self.in_filter(key),
            Mode::Confirm(job) => self.in_confirm(key, job),
            Mode::Help => {
                self.mode = Mode::List;
                None
            }
            Mode::Log(_) => {
                if matches!(key, Key::Escape | Key::Char('q' | 'l')) {
                    (self.mode, self.log, self.log_path) = (Mode::List, Vec::new(), None);
                }
                None
            }
        }
    }

    fn in_list(&mut self, key: Key) -> Option<Wish> {
        self.said = None;
        match key {
            Key::Char('q') => return Some(Wish::Quit),
            Key::Char('?' | 'h') => self.mode = Mode::Help,
            Key::Char('/') => self.mode = Mode::Filter,
            Key::Escape => (self.filter, self.only) = (String::new(), None),
            Key::Char('s') => self.order = self.order.next(),
            Key::Char('r') => self.reversed = !self.reversed,
            Key::Char('u') => self.only = if self.only.is_some() { None } else { self.user.clone() },
            Key::Tab => self.on_cards = !self.on_cards,
            Key::Char('c') => self.mode = self.chosen_job().map(Mode::Confirm).unwrap_or_default(),
            Key::Char('l') | Key::Enter => {
                let job = self.chosen_job()?;
                self.mode = Mode::Log(job);
                return Some(Wish::Follow(job));
            }
            Key::Up | Key::Char('k') => self.step(-1),
            Key::Down | Key::Char('j') => self.step(1),
            Key::PageUp => self.step(-self.a_page()),
            Key::PageDown => self.step(self.a_page()),
            Key::Home | Key::Char('g') => self.step(isize::MIN),
            Key::End | Key::Char('G') => self.step(isize::MAX),
            _ => {}
        }
        None
    }

    fn a_page(&self) -> isize {
        isize::try_from(self.page.max(2) - 1).unwrap_or(1)
    }

    fn step(&mut self, by: isize) {
        if self.on_cards {
            let last = self.seen.cards.len().saturating_sub(1);
            self.first_card = self.first_card.saturating_add_signed(by).min(last);
            return;
        }
        let (jobs, place) = (self.jobs(), self.place());
        let place = place.saturating_add_signed(by).min(jobs.len().saturating_sub(1));
        self.chosen = jobs.get(place).map(|job| job.id);
    }

    fn in_filter(&mut self, key: Key) -> Option<Wish> {
        match key {
            Key::Enter => self.mode = Mode::List,
            Key::Escape => (self.mode, self.filter) = (Mode::List, String::new()),
            Key::Backspace => drop(self.filter.pop()),
            Key::Char(c) if self.filter.chars().count() < 40 => self.filter.push(c),
            _ => {}
        }
        None
    }

    fn in_confirm(&mut self, key: Key, job: JobId) -> Option<Wish> {
        self.mode = Mode::List;
        let yes = matches!(key, Key::Char('y' | 'Y'));
        yes.then_some(Wish::Cancel(job))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ax_core::job::state::JobState;

    fn job(number: u32, user: &str, gpus: u32) -> JobView {
        serde_json::from_value(serde_json::json!({
            "id": format!("ax-2026-{number:04}"), "number": number, "name": format!("name{number}"), "user": user,
            "uid": 1, "queue": "default", "state": JobState::Running, "reason": null, "reasons": [], "priority": number,
            "submitted_at": WallTime(0), "eligible_at": null, "started_at": WallTime(i64::from(number) * 1000),
            "ended_at": null, "expected_start": null, "exit_code": null, "signal": null, "node": null, "nodes": [],
            "cpus": 1, "ram_mb": 1, "gpus": gpus, "gpu_uuids": [], "gpu_mem_mb": null, "time_limit_s": null,
            "attempt": 1, "attempts": [], "time_in_state": {}, "decisions": [], "stdout": null, "stderr": null,
            "comment": null, "idempotent": true, "account": null, "ticket": null
        }))
        .unwrap()
    }

    fn state() -> State {
        let jobs = vec![job(3, "li", 1), job(1, "wang", 8), job(2, "li", 2)];
        let seen = Seen { jobs, at: WallTime(9_000_000), ..Seen::default() };
        State { seen, user: Some("li".into()), page: 10, ..State::default() }
    }

    fn numbers(state: &State) -> Vec<u32> {
        state.jobs().iter().map(|job| job.number).collect()
    }

    fn press(state: &mut State, keys: &str) -> Option<Wish> {
        keys.chars().map(|c| state.press(Key::Char(c))).last().flatten()
    }

    #[test]
    fn jobs_are_sorted_filtered_and_turned_round() {
        let mut state = state();
        let mut orders = vec![];
        for _ in 0..6 {
            orders.push(numbers(&state));
            press(&mut state, "s");
        }
        assert_eq!(orders[0], [3, 1, 2], "as the daemon lists them");
        assert_eq!(orders[1], [1, 2, 3]);
        assert_eq!(orders[2], [3, 2, 1], "li before wang");
        assert_eq!(orders[3], [1, 2, 3], "the longest first");
        assert_eq!(orders[4], [1, 2, 3], "the most cards first");
        assert_eq!(orders[5], [3, 2, 1]);
        press(&mut state, "r/WANG");
        assert_eq!(numbers(&state), [1]);
        state.press(Key::Escape);
        assert_eq!(numbers(&state).len(), 3);
        press(&mut state, "u");
        assert_eq!(numbers(&state).len(), 2);
    }

    #[test]
    fn the_chosen_job_stays_chosen_wherever_it_goes() {
        let mut state = state();
        press(&mut state, "j");
        assert_eq!(state.chosen, Some(job(1, "", 0).id));
        press(&mut state, "s");
        assert_eq!(state.place(), 0);
        press(&mut state, "G");
        assert_eq!(state.place(), 2);
        let gone = Seen { jobs: vec![job(1, "wang", 8)], ..Seen::default() };
        state.take(gone);
        assert_eq!(state.place(), 0);
        state.press(Key::PageDown);
        state.press(Key::Up);
        assert_eq!(state.place(), 0);
    }

    #[test]
    fn nothing_is_cancelled_without_a_yes() {
        let mut state = state();
        let first = job(3, "", 0).id;
        for answer in ["n", "q", "c", " "] {
            press(&mut state, "c");
            assert_eq!(state.mode, Mode::Confirm(first));
            assert_eq!(press(&mut state, answer), None, "'{answer}' is no yes");
            assert_eq!(state.mode, Mode::List);
        }
        press(&mut state, "c");
        // Another job at the same place is not the one that was asked about.
        state.take(Seen { jobs: vec![job(7, "li", 1)], ..Seen::default() });
        assert_eq!(press(&mut state, "y"), Some(Wish::Cancel(first)));
        let mut empty = State::default();
        press(&mut empty, "c");
        assert_eq!((press(&mut empty, "y"), empty.mode), (None, Mode::List));
    }

    #[test]
    fn trouble_keeps_what_was_seen_before() {
        let mut state = state();
        state.take(Seen { trouble: Some("no daemon".into()), ..Seen::default() });
        assert_eq!((state.seen.jobs.len(), state.seen.trouble.as_deref()), (3, Some("no daemon")));
        state.take(Seen::default());
        assert_eq!(state.seen.trouble, None);
    }

    #[test]
    fn a_log_is_left_and_everything_can_be_left() {
        let mut state = state();
        assert_eq!(press(&mut state, "l"), Some(Wish::Follow(job(3, "", 0).id)));
        assert_eq!((press(&mut state, "q"), state.mode.clone()), (None, Mode::List));
        assert_eq!(press(&mut state, "q"), Some(Wish::Quit));
        for mode in [Mode::Filter, Mode::Help, Mode::Log(job(1, "", 0).id), Mode::Confirm(job(1, "", 0).id)] {
            state.mode = mode;
            assert_eq!(state.press(Key::Interrupt), Some(Wish::Quit));
        }
    }
}
