//! The waiting jobs of one user in one queue, by rank, so that what is asked
//! about very many of them is answered by looking at few: the next one that
//! could start, and what all before a rank would be charged.
//!
//! Two search trees over one slab: one of all jobs, which sums their charges,
//! and one for each shape, which knows the shortest and the most urgent job.
//! They are treaps whose balance comes from a mix of the job's number instead
//! of chance, so that a history always gives the same trees.

use crate::id::JobNumber;
use crate::time::{Span, WallTime};

use super::order::{Lengths, Rank, ShapeId, Waiting};
use super::share::{Share, VirtualTime};

/// Which jobs of a shape are worth a look: the shorter ones, and urgent ones whatever their length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Worth {
    /// Jobs that are shorter than this.
    pub shorter_than: Span,
    /// By which of their lengths.
    pub by: Lengths,
    /// Jobs of this priority and above.
    pub from_priority: u8,
}

impl Worth {
    /// All jobs.
    pub const ALL: Worth = Worth { shorter_than: Span(u64::MAX), by: Lengths::Planned, from_priority: 0 };

    /// None.
    pub const NONE: Worth = Worth { shorter_than: Span(0), by: Lengths::Planned, from_priority: u8::MAX };

    /// Whether a job is.
    pub fn covers(&self, waiting: &Waiting) -> bool {
        waiting.by(self.by) < self.shorter_than || waiting.priority >= self.from_priority
    }
}

/// See the module's words.
#[derive(Debug, Clone, Default)]
pub struct Lane {
    knots: Vec<Knot>,
    /// Knots that nobody uses.
    unused: Vec<u32>,
    all: Option<u32>,
    /// By their numbers.
    shapes: Vec<OfShape>,
}

/// The jobs of one shape, with a copy of what the root of their tree says, so that whoever asks about all shapes need not
/// look for each of them.
#[derive(Debug, Clone, Copy)]
struct OfShape {
    shape: ShapeId,
    root: u32,
    shortest: [Span; 2],
    highest: u8,
}

impl OfShape {
    /// Whether some of them are worth a look.
    fn some(&self, worth: &Worth) -> bool {
        self.shortest[worth.by as usize] < worth.shorter_than || self.highest >= worth.from_priority
    }
}

/// A waiting job, its rank and what it is charged, with nothing twice and no gaps: there may be very many of them.
#[derive(Debug, Clone)]
struct Knot {
    value: i64,
    since: WallTime,
    length: Span,
    declared: Span,
    share: Share,
    /// In the tree of all: of this knot and those below it. Its own is what those below it leave of that.
    charges: Halves,
    /// In the tree of the shape: the shortest of this knot and those below it, by either length.
    shortest: [Span; 2],
    number: JobNumber,
    shape: ShapeId,
    links: [[Option<Link>; 2]; 2],
    class: u8,
    priority: u8,
    /// The most urgent of this knot and those below it in the tree of the shape.
    highest: u8,
}

impl Knot {
    fn new(rank: Rank, waiting: Waiting, charge: VirtualTime) -> Knot {
        let Waiting { number, shape, length, declared, share, priority } = waiting;
        let Rank { class, value, since, .. } = rank;
        Knot {
            value,
            since,
            length,
            declared,
            share,
            charges: Halves::of(charge),
            shortest: lengths(&waiting),
            number,
            shape,
            links: [[None; 2]; 2],
            class,
            priority,
            highest: priority,
        }
    }

    fn rank(&self) -> Rank {
        Rank { class: self.class, value: self.value, since: self.since, number: self.number }
    }

    fn waiting(&self) -> Waiting {
        let Knot { number, shape, length, declared, share, priority, .. } = *self;
        Waiting { number, shape, length, declared, share, priority }
    }
}

/// A virtual time that stands anywhere: as one number it would have to begin at a multiple of its size.
#[derive(Debug, Clone, Copy)]
struct Halves([u64; 2]);

impl Halves {
    fn of(time: VirtualTime) -> Halves {
        Halves([(time.0 >> 64) as u64, time.0 as u64])
    }

    fn whole(self) -> VirtualTime {
        let [high, low] = self.0;
        VirtualTime((i128::from(high) << 64) | i128::from(low))
    }
}

/// Position of a knot, and one, so that no link takes no room.
type Link = std::num::NonZeroU32;

/// One of the two trees that a knot is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tree {
    All = 0,
    Shape = 1,
}

type Root = Option<u32>;

/// What a knot says of itself in one of the trees.
#[derive(Debug, Clone, Copy)]
enum Own {
    Charge(VirtualTime),
    Worth([Span; 2], u8),
}

fn lengths(waiting: &Waiting) -> [Span; 2] {
    [Lengths::Planned, Lengths::Declared].map(|lengths| waiting.by(lengths))
}

/// Equal shares of all numbers, in no order that anybody would submit in.
fn height(number: u32) -> u32 {
    let mixed = u64::from(number).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32) as u32
}

impl Lane {
    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.all.is_none()
    }

    /// Enters a job, which will be charged so much.
    pub fn insert(&mut self, rank: Rank, waiting: Waiting, charge: VirtualTime) {
        let knot = Knot::new(rank, waiting, charge);
        let at = match self.unused.pop() {
            Some(at) => {
                self.knots[at as usize] = knot;
                at
            }
            None => {
                if self.knots.len() == self.knots.capacity() {
                    // An eighth more, not twice as much: there may be very many of them.
                    self.knots.reserve_exact(self.knots.len() / 8 + 4);
                }
                self.knots.push(knot);
                self.knots.len() as u32 - 1
            }
        };
        self.all = Some(self.enter(Tree::All, self.all, at));
        let root = self.enter(Tree::Shape, self.root_of(waiting.shape), at);
        self.set_root_of(waiting.shape, Some(root));
    }

    /// Takes a job out; whether it was there.
    pub fn remove(&mut self, rank: &Rank) -> bool {
        let Some(at) = self.find(rank) else { return false };
        let shape = self.knots[at as usize].shape;
        self.all = self.leave(Tree::All, self.all, rank);
        let root = self.leave(Tree::Shape, self.root_of(shape), rank);
        self.set_root_of(shape, root);
        self.unused.push(at);
        if self.is_empty() {
            *self = Lane::default();
        }
        true
    }

    /// The first job of all.
    pub fn first_of_all(&self) -> Option<(Rank, Waiting)> {
        let mut first = self.all?;
        while let Some(before) = self.child(Tree::All, first, 0) {
            first = before;
        }
        let knot = &self.knots[first as usize];
        Some((knot.rank(), knot.waiting()))
    }

    /// Reads up to so many jobs after a rank, the first first.
    pub fn read(&self, after: Option<&Rank>, most: usize, mut give: impl FnMut(Rank, Waiting)) {
        let mut path = Vec::new();
        let mut next = self.all;
        while let Some(at) = next {
            let knot = &self.knots[at as usize];
            if after.is_none_or(|after| knot.rank() > *after) {
                path.push(at);
                next = self.child(Tree::All, at, 0);
            } else {
                next = self.child(Tree::All, at, 1);
            }
        }
        for _ in 0..most {
            let Some(at) = path.pop() else { return };
            let knot = &self.knots[at as usize];
            give(knot.rank(), knot.waiting());
            let mut next = self.child(Tree::All, at, 1);
            while let Some(at) = next {
                path.push(at);
                next = self.child(Tree::All, at, 0);
            }
        }
    }

    /// How many jobs are before a rank. Looks at all of them: for people, not for the pass.
    pub fn before(&self, rank: &Rank) -> usize {
        let mut count = 0;
        self.read(None, usize::MAX, |each, _| count += usize::from(each < *rank));
        count
    }

    /// What all jobs before a rank would be charged together.
    pub fn charges_before(&self, rank: &Rank) -> VirtualTime {
        let (mut sum, mut next) = (VirtualTime::default(), self.all);
        while let Some(at) = next {
            let knot = &self.knots[at as usize];
            if knot.rank() < *rank {
                next = self.child(Tree::All, at, 1);
                sum = sum + knot.charges.whole() - self.charges(next);
            } else {
                next = self.child(Tree::All, at, 0);
            }
        }
        sum
    }

    /// The shapes that jobs here have, each with a glance at whether one of them is worth a look.
    pub fn shapes<'a>(
        &'a self,
        worth: &'a dyn Fn(ShapeId) -> Worth,
    ) -> impl Iterator<Item = (ShapeId, Worth)> + 'a {
        let own = self.shapes.iter().map(|own| (own, worth(own.shape)));
        own.filter(|(own, worth)| own.some(worth)).map(|(own, worth)| (own.shape, worth))
    }

    /// The first job of a shape after a rank that is worth a look.
    pub fn next(&self, shape: ShapeId, after: Option<&Rank>, worth: &Worth) -> Option<(Rank, Waiting)> {
        let at = self.first(self.root_of(shape), after, worth)?;
        let knot = &self.knots[at as usize];
        Some((knot.rank(), knot.waiting()))
    }

    /// The length of the shortest job of each shape.
    pub fn shortest_of_each(&self, by: Lengths) -> impl Iterator<Item = (ShapeId, Span)> + '_ {
        self.shapes.iter().map(move |own| (own.shape, own.shortest[by as usize]))
    }

    fn place_of(&self, shape: ShapeId) -> Result<usize, usize> {
        self.shapes.binary_search_by_key(&shape, |own| own.shape)
    }

    fn root_of(&self, shape: ShapeId) -> Root {
        self.place_of(shape).ok().map(|at| self.shapes[at].root)
    }

    fn set_root_of(&mut self, shape: ShapeId, root: Root) {
        let place = self.place_of(shape);
        let Some(root) = root else {
            if let Ok(at) = place {
                self.shapes.remove(at);
            }
            return;
        };
        let Knot { shortest, highest, .. } = self.knots[root as usize];
        let own = OfShape { shape, root, shortest, highest };
        match place {
            Ok(at) => self.shapes[at] = own,
            Err(at) => self.shapes.insert(at, own),
        }
    }

    fn some(&self, at: u32, worth: &Worth) -> bool {
        let knot = &self.knots[at as usize];
        knot.shortest[worth.by as usize] < worth.shorter_than || knot.highest >= worth.from_priority
    }

    fn first(&self, root: Root, after: Option<&Rank>, worth: &Worth) -> Root {
        let at = root.filter(|at| self.some(*at, worth))?;
        let knot = &self.knots[at as usize];
        if after.is_some_and(|after| knot.rank() <= *after) {
            return self.first(self.child(Tree::Shape, at, 1), after, worth);
        }
        self.first(self.child(Tree::Shape, at, 0), after, worth)
            .or_else(|| worth.covers(&knot.waiting()).then_some(at))
            .or_else(|| self.first(self.child(Tree::Shape, at, 1), after, worth))
    }

    fn find(&self, rank: &Rank) -> Root {
        let mut next = self.all;
        while let Some(at) = next {
            let knot = &self.knots[at as usize];
            next = match rank.cmp(&knot.rank()) {
                std::cmp::Ordering::Equal => return Some(at),
                std::cmp::Ordering::Less => self.child(Tree::All, at, 0),
                std::cmp::Ordering::Greater => self.child(Tree::All, at, 1),
            };
        }
        None
    }

    fn child(&self, tree: Tree, at: u32, side: usize) -> Root {
        self.knots[at as usize].links[tree as usize][side].map(|link| link.get() - 1)
    }

    fn set_child(&mut self, tree: Tree, at: u32, side: usize, child: Root) {
        self.knots[at as usize].links[tree as usize][side] = child.and_then(|child| Link::new(child + 1));
    }

    fn is_above(&self, this: u32, that: u32) -> bool {
        let key = |at: u32| {
            let number = self.knots[at as usize].number.0;
            (height(number), number)
        };
        key(this) > key(that)
    }

    /// What a subtree of the tree of all is charged.
    fn charges(&self, root: Root) -> VirtualTime {
        root.map_or(VirtualTime::default(), |at| self.knots[at as usize].charges.whole())
    }

    /// What a knot itself says, before anything below it changes.
    fn own(&self, tree: Tree, at: u32) -> Own {
        match tree {
            Tree::All => {
                let below = self.charges(self.child(tree, at, 0)) + self.charges(self.child(tree, at, 1));
                Own::Charge(self.charges(Some(at)) - below)
            }
            Tree::Shape => {
                let knot = &self.knots[at as usize];
                Own::Worth(lengths(&knot.waiting()), knot.priority)
            }
        }
    }

    /// Adds that up with what those below it say by now.
    fn add_up(&mut self, tree: Tree, at: u32, own: Own) {
        let below = [self.child(tree, at, 0), self.child(tree, at, 1)];
        match own {
            Own::Charge(own) => {
                let charges = own + self.charges(below[0]) + self.charges(below[1]);
                self.knots[at as usize].charges = Halves::of(charges);
            }
            Own::Worth(mut shortest, mut highest) => {
                for below in below.into_iter().flatten() {
                    let below = &self.knots[below as usize];
                    shortest = [0, 1].map(|by| shortest[by].min(below.shortest[by]));
                    highest = highest.max(below.highest);
                }
                let knot = &mut self.knots[at as usize];
                (knot.shortest, knot.highest) = (shortest, highest);
            }
        }
    }

    /// Enters a single knot below a root; the new root.
    fn enter(&mut self, tree: Tree, root: Root, new: u32) -> u32 {
        let Some(at) = root else { return new };
        let rank = self.knots[new as usize].rank();
        if self.is_above(new, at) {
            let own = self.own(tree, new);
            let (before, after) = self.split(tree, root, &rank);
            self.set_child(tree, new, 0, before);
            self.set_child(tree, new, 1, after);
            self.add_up(tree, new, own);
            return new;
        }
        let (side, own) = (usize::from(self.knots[at as usize].rank() < rank), self.own(tree, at));
        let child = self.enter(tree, self.child(tree, at, side), new);
        self.set_child(tree, at, side, Some(child));
        self.add_up(tree, at, own);
        at
    }

    /// Takes the knot of a rank out; the new root.
    fn leave(&mut self, tree: Tree, root: Root, rank: &Rank) -> Root {
        let at = root?;
        let this = self.knots[at as usize].rank();
        if this == *rank {
            return self.join(tree, self.child(tree, at, 0), self.child(tree, at, 1));
        }
        let (side, own) = (usize::from(this < *rank), self.own(tree, at));
        let child = self.leave(tree, self.child(tree, at, side), rank);
        self.set_child(tree, at, side, child);
        self.add_up(tree, at, own);
        Some(at)
    }

    /// Those before a rank, and the others.
    fn split(&mut self, tree: Tree, root: Root, rank: &Rank) -> (Root, Root) {
        let Some(at) = root else { return (None, None) };
        let own = self.own(tree, at);
        if self.knots[at as usize].rank() < *rank {
            let (before, after) = self.split(tree, self.child(tree, at, 1), rank);
            self.set_child(tree, at, 1, before);
            self.add_up(tree, at, own);
            (Some(at), after)
        } else {
            let (before, after) = self.split(tree, self.child(tree, at, 0), rank);
            self.set_child(tree, at, 0, after);
            self.add_up(tree, at, own);
            (before, Some(at))
        }
    }

    /// One tree of two of which all of the first come before all of the second.
    fn join(&mut self, tree: Tree, before: Root, after: Root) -> Root {
        let (Some(first), Some(second)) = (before, after) else { return before.or(after) };
        if self.is_above(first, second) {
            let own = self.own(tree, first);
            let child = self.join(tree, self.child(tree, first, 1), after);
            self.set_child(tree, first, 1, child);
            self.add_up(tree, first, own);
            Some(first)
        } else {
            let own = self.own(tree, second);
            let child = self.join(tree, before, self.child(tree, second, 0));
            self.set_child(tree, second, 0, child);
            self.add_up(tree, second, own);
            Some(second)
        }
    }
}

#[cfg(test)]
mod tests;
