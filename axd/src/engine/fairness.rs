//! Keeps one user's requests from delaying others', in the loop and in the threads beside it. The time that requests
//! take is charged to their user; a user who has used up the allowance waits until it has grown again. Cheap requests
//! cost nothing. Questions that are answered beside the loop wait for earlier ones of their user; other requests wait
//! for no question.

use std::collections::{HashMap, VecDeque};

use ax_core::id::Uid;
use ax_core::time::{BootTime, Span};

use crate::api::http::{Method, Request};
use crate::api::server::{ConnId, Incoming};

/// A user who has used up the allowance gets one part in so many of the loop's time.
const SHARE: u64 = 4;

/// How much a user may use at a time, counted with the factor above: a few long lists in a row.
const ALLOWANCE: Span = Span::seconds(2);

/// So many questions of a user are answered beside the loop at a time: other users wait for these at most.
const MOST_UNDER_WAY: u32 = 4;

/// The accounts of all users whose requests took time lately.
#[derive(Debug, Default)]
pub(super) struct Fairness {
    accounts: HashMap<Uid, Account>,
}

#[derive(Debug, Default)]
struct Account {
    /// When everything that was charged is paid.
    paid_at: BootTime,
    /// Requests that wait until then, in their order.
    waiting: VecDeque<Incoming>,
    /// Questions that are being answered beside the loop.
    under_way: u32,
    /// Further questions, which wait.
    questions: VecDeque<Incoming>,
}

impl Account {
    /// When the next request may be served.
    fn free_at(&self) -> BootTime {
        BootTime(self.paid_at.0.saturating_sub(ALLOWANCE.0))
    }

    /// The next request, if one may be served now.
    fn next(&mut self, now: BootTime) -> Option<Incoming> {
        if self.free_at() > now {
            return None;
        }
        if self.under_way < MOST_UNDER_WAY
            && let Some(question) = self.questions.pop_front()
        {
            return Some(question);
        }
        while let Some(request) = self.waiting.pop_front() {
            match is_question(&request.request) && self.under_way >= MOST_UNDER_WAY {
                true => self.questions.push_back(request),
                false => return Some(request),
            }
        }
        None
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.questions.is_empty() && self.under_way == 0
    }
}

/// True if a request is answered beside the loop.
fn is_question(request: &Request) -> bool {
    let path = request.path.trim_matches('/').strip_prefix("api/v1/").unwrap_or_default();
    let about = path.split('/').next().unwrap_or_default();
    request.method == Method::Get && (matches!(about, "jobs" | "diag") || path == "cards/history")
}

impl Fairness {
    /// Returns the request if it may be served now; else it waits. Root never waits.
    pub(super) fn admit(&mut self, uid: Uid, request: Incoming, now: BootTime) -> Option<Incoming> {
        let Some(account) = self.accounts.get_mut(&uid).filter(|_| uid != Uid::ROOT) else {
            return Some(request);
        };
        if account.free_at() > now || !account.waiting.is_empty() {
            account.waiting.push_back(request);
        } else if account.under_way >= MOST_UNDER_WAY && is_question(&request.request) {
            account.questions.push_back(request);
        } else {
            return Some(request);
        }
        None
    }

    /// Charges a user for the time that a request took.
    pub(super) fn charge(&mut self, uid: Uid, took: Span, now: BootTime) {
        if took > Span(0) {
            let account = self.accounts.entry(uid).or_default();
            account.paid_at = account.paid_at.max(now) + Span(took.0.saturating_mul(SHARE));
        }
    }

    /// A request of this user is now being answered beside the loop.
    pub(super) fn began(&mut self, uid: Uid) {
        self.accounts.entry(uid).or_default().under_way += 1;
    }

    /// It was answered, and took so long.
    pub(super) fn ended(&mut self, uid: Uid, took: Span, now: BootTime) {
        if let Some(account) = self.accounts.get_mut(&uid) {
            account.under_way = account.under_way.saturating_sub(1);
        }
        self.charge(uid, took, now);
    }

    /// Takes out the requests whose time has come, one of each user.
    pub(super) fn due(&mut self, now: BootTime) -> Vec<Incoming> {
        let due = self.accounts.values_mut().filter_map(|account| account.next(now)).collect();
        self.accounts.retain(|_, account| account.paid_at > now || !account.is_idle());
        due
    }

    /// When the next of them is due, unless it waits for an answer beside the loop.
    pub(super) fn next_due(&self) -> Option<BootTime> {
        let may_ask = |account: &Account| account.under_way < MOST_UNDER_WAY && !account.questions.is_empty();
        let waits = |account: &&Account| !account.waiting.is_empty() || may_ask(account);
        let waiting = self.accounts.values().filter(waits);
        waiting.map(Account::free_at).min()
    }

    /// A client has gone.
    pub(super) fn gone(&mut self, conn: ConnId) {
        for account in self.accounts.values_mut() {
            account.waiting.retain(|request| request.conn != conn);
            account.questions.retain(|request| request.conn != conn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ax_sys::credentials::Peer;

    const LI: Uid = Uid(1000);

    fn request(number: u64) -> Incoming {
        incoming(Method::Post, format!("/{number}"), number)
    }

    fn question(number: u64) -> Incoming {
        incoming(Method::Get, format!("/api/v1/jobs/{number}"), number)
    }

    fn incoming(method: Method, path: String, number: u64) -> Incoming {
        let request = Request { method, path, query: Vec::new(), body: Vec::new() };
        Incoming { conn: ConnId::for_test(number), peer: Peer { pid: 1, uid: LI.0, gid: 1 }, request }
    }

    fn paths(due: &[Incoming]) -> Vec<&str> {
        due.iter().map(|incoming| incoming.request.path.as_str()).collect()
    }

    #[test]
    fn whoever_has_had_their_share_waits_and_nobody_else() {
        let mut fairness = Fairness::default();
        let at = BootTime(10_000);
        assert!(fairness.admit(LI, request(1), at).is_some());
        fairness.charge(LI, Span(600), at);
        assert!(fairness.admit(LI, request(2), at).is_none());
        assert!(fairness.admit(LI, request(3), at).is_none());
        assert!(fairness.admit(Uid(1001), request(4), at).is_some());
        assert_eq!(fairness.next_due(), Some(BootTime(10_400)));
        assert!(fairness.due(BootTime(10_399)).is_empty());
        assert_eq!(paths(&fairness.due(BootTime(10_400))), ["/2"]);
        fairness.charge(LI, Span(100), BootTime(10_400));
        assert_eq!(fairness.next_due(), Some(BootTime(10_800)), "the second one is paid for first");
        assert_eq!(paths(&fairness.due(BootTime(10_800))), ["/3"]);
        assert_eq!(fairness.next_due(), None);
    }

    #[test]
    fn what_is_cheap_or_root_s_never_waits_and_accounts_are_forgotten() {
        let mut fairness = Fairness::default();
        for number in 0..1000 {
            assert!(fairness.admit(LI, request(number), BootTime(5)).is_some());
            fairness.charge(LI, Span(0), BootTime(5));
        }
        assert!(fairness.accounts.is_empty());
        fairness.charge(Uid::ROOT, Span(60_000), BootTime(5));
        assert!(fairness.admit(Uid::ROOT, request(1), BootTime(6)).is_some());
        assert!(fairness.due(BootTime(1_000_000)).is_empty() && fairness.accounts.is_empty());
    }

    #[test]
    fn a_user_s_questions_wait_for_the_answers_to_earlier_ones() {
        let mut fairness = Fairness::default();
        let at = BootTime(5);
        for number in 0..MOST_UNDER_WAY {
            assert!(fairness.admit(LI, question(u64::from(number)), at).is_some());
            fairness.began(LI);
        }
        assert!(fairness.admit(LI, question(4), at).is_none());
        assert!(fairness.admit(LI, request(6), at).is_some(), "what is to be done is no question");
        assert!(fairness.admit(Uid(1001), question(5), at).is_some());
        assert_eq!(fairness.next_due(), None, "nothing is due by the clock");
        assert!(fairness.due(BootTime(9)).is_empty());
        fairness.ended(LI, Span(1), BootTime(9));
        assert_eq!(paths(&fairness.due(BootTime(9))), ["/api/v1/jobs/4"]);
        (1..MOST_UNDER_WAY).for_each(|_| fairness.ended(LI, Span(0), BootTime(9)));
        assert!(fairness.due(BootTime(60_000)).is_empty() && fairness.accounts.is_empty());
    }

    #[test]
    fn who_hangs_up_is_not_served() {
        let mut fairness = Fairness::default();
        fairness.charge(LI, Span(60_000), BootTime(5));
        assert!(fairness.admit(LI, request(1), BootTime(5)).is_none());
        fairness.gone(ConnId::for_test(1));
        assert_eq!(fairness.next_due(), None);
    }
}
