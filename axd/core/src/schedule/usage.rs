//! What users have had lately: the share of the cluster that they used, of
//! which half is forgotten with each half-life.
//!
//! With a constant rate r from time 0 the remembered amount is
//! r·H/ln 2·(1 − 2^(−t/H)); it is folded whenever the rate changes. All in
//! integers, so that a history gives the same amounts on every machine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::Uid;
use crate::time::{Span, WallTime};

use super::share::Share;

/// One, with 32 binary places.
const ONE: i128 = 1 << 32;

/// 1 / ln 2, with 32 binary places.
const PER_LN_2: i128 = 6_196_328_019;

/// 2^(−`time`/`half`), with 32 binary places; right to eight digits.
fn halved(time: u128, half: u128) -> i128 {
    let half = half.max(1);
    let whole = time / half;
    if whole >= 64 {
        return 0;
    }
    let part = i128::try_from(((time % half) << 32) / half).unwrap_or(0);
    // The series of e^(−x·ln 2), whose terms fall faster than 0.7^n/n!. None is more than one, so that they are divided as
    // numbers of the machine's own size.
    let x = (part * 2_977_044_472) >> 32;
    let (mut term, mut sum) = (1_i64 << 32, ONE);
    for n in 1..=12 {
        term = -(((i128::from(term) * x) >> 32) as i64) / n;
        sum += i128::from(term);
    }
    sum >> whole
}

/// One user's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Account {
    /// Megabyte-milliseconds that were remembered at `at`.
    amount: u64,
    at: WallTime,
    /// What the user's jobs take now.
    #[serde(skip)]
    rate: u64,
}

impl Account {
    fn amount(&self, now: WallTime, half: Span) -> u64 {
        let left = halved(u128::from((now - self.at).0), u128::from(half.0));
        let old = (i128::from(self.amount) * left) >> 32;
        let lasting = ((ONE - left) * PER_LN_2) >> 32;
        let new = (i128::from(self.rate) * i128::from(half.0) * lasting) >> 32;
        u64::try_from(old + new).unwrap_or(u64::MAX)
    }
}

/// The memory of all users.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Usages(BTreeMap<Uid, Account>);

impl Usages {
    fn fold(&mut self, user: Uid, now: WallTime, half: Span) -> &mut Account {
        let account = self.0.entry(user).or_default();
        account.amount = account.amount(now, half);
        account.at = account.at.max(now);
        account
    }

    /// A job of the user starts to take its share.
    pub fn started(&mut self, user: Uid, share: Share, now: WallTime, half: Span) {
        self.fold(user, now, half).rate += share.0;
    }

    /// A job of the user takes it no more.
    pub fn ended(&mut self, user: Uid, share: Share, now: WallTime, half: Span) {
        let account = self.fold(user, now, half);
        account.rate = account.rate.saturating_sub(share.0);
    }

    /// Nobody's jobs take anything from now on, until they are entered again.
    pub fn forget_rates(&mut self, now: WallTime, half: Span) {
        let users: Vec<Uid> =
            self.0.iter().filter(|(_, account)| account.rate > 0).map(|(user, _)| *user).collect();
        for user in users {
            self.fold(user, now, half).rate = 0;
        }
    }

    /// Whether two remember the same of everybody; what jobs take now, which follows from the jobs, does not count.
    pub fn remembers_like(&self, other: &Usages) -> bool {
        let remembered = |usages: &Usages| -> Vec<(Uid, u64, WallTime)> {
            usages.0.iter().map(|(user, account)| (*user, account.amount, account.at)).collect()
        };
        remembered(self) == remembered(other)
    }

    /// A job that runs already is known again, after a restart.
    pub fn goes_on(&mut self, user: Uid, share: Share) {
        self.0.entry(user).or_default().rate += share.0;
    }

    /// What a user has had of all that users had, in thousandths.
    pub fn per_mille(&self, user: Uid, now: WallTime, half: Span) -> u32 {
        let amount = |account: &Account| u128::from(account.amount(now, half));
        let all: u128 = self.0.values().map(amount).sum();
        let own = self.0.get(&user).map_or(0, amount);
        u32::try_from(own * 1000 / all.max(1)).unwrap_or(1000)
    }

    /// How far each user is below an equal share of what all have had: one, with 32 binary places, for who had nothing,
    /// a half for who had an equal share, less for who had more (2^(−used/equal), the classic factor of Slurm's
    /// multifactor plugin). Users who are not in it had nothing.
    pub fn factors(&self, now: WallTime, half: Span) -> Factors {
        let amounts: BTreeMap<Uid, u64> =
            self.0.iter().map(|(user, account)| (*user, account.amount(now, half))).collect();
        let all: u128 = amounts.values().map(|amount| u128::from(*amount)).sum();
        let users = amounts.values().filter(|amount| **amount > 0).count() as u128;
        let factor = |amount: u64| if all == 0 { ONE } else { halved(u128::from(amount) * users, all) };
        Factors(amounts.into_iter().map(|(user, amount)| (user, factor(amount))).collect())
    }
}

/// See [`Usages::factors`].
#[derive(Debug, Clone, Default)]
pub struct Factors(BTreeMap<Uid, i128>);

impl Factors {
    /// What a user's factor is worth, if one is worth so much.
    pub fn worth(&self, user: Uid, one: i64) -> i64 {
        let factor = self.0.get(&user).copied().unwrap_or(ONE);
        i64::try_from((i128::from(one) * factor) >> 32).unwrap_or(one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Span = Span::seconds(86_400);

    #[test]
    fn halves_are_halves() {
        assert_eq!(halved(0, 10), ONE);
        for (time, exact) in [(10_u128, 0.5), (20, 0.25), (5, 0.5_f64.sqrt()), (33, 0.5_f64.powf(3.3))] {
            let got = halved(time, 10) as f64 / ONE as f64;
            assert!((got - exact).abs() < 1e-8, "2^-{}: {got} and {exact}", time as f64 / 10.0);
        }
        assert_eq!(halved(u128::from(u64::MAX), 1), 0);
    }

    #[test]
    fn half_of_what_was_used_is_forgotten_in_a_half_life() {
        let mut usages = Usages::default();
        let (user, share) = (Uid(1), Share(1000));
        usages.started(user, share, WallTime(0), DAY);
        usages.ended(user, share, WallTime(3_600_000), DAY);
        let then = usages.0[&user].amount(WallTime(3_600_000), DAY);
        assert!((3_540_000_000..3_600_000_000).contains(&then), "nearly all of an hour: {then}");
        let later = usages.0[&user].amount(WallTime(3_600_000 + 86_400_000), DAY);
        assert!((later * 2).abs_diff(then) < 10, "{later} is half of {then}");
    }

    #[test]
    fn folding_often_is_folding_once() {
        let (mut often, mut once) = (Usages::default(), Usages::default());
        let (user, share) = (Uid(1), Share(80_000));
        often.started(user, share, WallTime(0), DAY);
        once.started(user, share, WallTime(0), DAY);
        for hour in 1..=48 {
            often.started(user, Share(0), WallTime(hour * 3_600_000), DAY);
        }
        let [often, once] = [&often, &once].map(|u| u.0[&user].amount(WallTime(172_800_000), DAY));
        assert!(often.abs_diff(once) < once / 1_000_000, "{often} and {once}");
    }

    #[test]
    fn who_had_more_is_worth_less() {
        let mut usages = Usages::default();
        for (user, ms) in [(1, 1000), (2, 3000)] {
            usages.started(Uid(user), Share(1000), WallTime(0), DAY);
            usages.ended(Uid(user), Share(1000), WallTime(ms), DAY);
        }
        let factors = usages.factors(WallTime(3000), DAY);
        let [little, much, none] = [1, 2, 3].map(|user| factors.worth(Uid(user), 1_000_000));
        assert!((little - 707_107).abs() < 50, "a quarter of all where a half is equal: {little}");
        assert!((much - 353_553).abs() < 50, "{much}");
        assert_eq!(none, 1_000_000);
    }
}
