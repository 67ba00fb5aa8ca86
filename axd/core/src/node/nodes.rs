//! All nodes of the cluster, with the indexes by which places are found without a look at each node.

use std::cell::{Ref, RefCell};

use super::ends;
use super::room::Room;
use super::{At, Node, Want};
use crate::id::HostName;
use crate::time::WallTime;

/// All nodes, by name; a node's position changes only when nodes come or go.
#[derive(Debug, Clone, Default)]
pub struct Nodes {
    all: Vec<Node>,
    /// Brought up to date when it is asked.
    index: RefCell<Index>,
    changes: Changes,
}

/// What the nodes were at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version(u64);

/// So many changes are remembered.
const REMEMBERED: usize = 256;

/// Which nodes may have been changed lately.
#[derive(Debug, Clone, Default)]
struct Changes {
    /// Changes that are no longer known.
    before: u64,
    /// Positions, in the order of the changes.
    known: Vec<At>,
}

impl Changes {
    fn add(&mut self, position: usize) {
        if self.known.len() >= REMEMBERED {
            self.forget();
        }
        self.known.push(position as At);
    }

    /// Any node may be another one now.
    fn forget(&mut self) {
        self.before += self.known.len() as u64 + 1;
        self.known.clear();
    }
}

#[derive(Debug, Clone, Default)]
struct Index {
    room: Room,
    ends: ends::Ends,
    /// Positions of nodes that may have changed since they were entered.
    changed: Vec<usize>,
}

impl Index {
    fn touch(&mut self, position: usize) {
        // Most often the node that was changed last is changed again.
        if self.changed.last() != Some(&position) {
            self.changed.push(position);
        }
        self.ends.changed(position);
    }

    fn follow(&mut self, nodes: &[Node]) {
        while self.room.entered() < nodes.len() {
            let next = self.room.entered();
            self.room.enter(next, &nodes[next]);
        }
        for position in std::mem::take(&mut self.changed) {
            self.room.enter(position, &nodes[position]);
        }
    }
}

impl PartialEq for Nodes {
    fn eq(&self, other: &Nodes) -> bool {
        self.all == other.all
    }
}

impl Eq for Nodes {}

impl Nodes {
    /// The node of that name.
    pub fn get(&self, name: &HostName) -> Option<&Node> {
        self.position(name).map(|position| &self.all[position])
    }

    /// The node of that name, to be changed.
    pub fn get_mut(&mut self, name: &HostName) -> Option<&mut Node> {
        let position = self.position(name)?;
        self.index.get_mut().touch(position);
        self.changes.add(position);
        Some(&mut self.all[position])
    }

    /// The position of a node.
    pub fn position(&self, name: &HostName) -> Option<usize> {
        self.all.binary_search_by(|node| node.inventory.name.cmp(name)).ok()
    }

    /// Adds a node, or replaces the one of its name.
    pub fn insert(&mut self, node: Node) {
        self.start_over();
        match self.all.binary_search_by(|each| each.inventory.name.cmp(&node.inventory.name)) {
            Ok(position) => self.all[position] = node,
            Err(position) => self.all.insert(position, node),
        }
    }

    /// All of them, by name.
    pub fn as_slice(&self) -> &[Node] {
        &self.all
    }

    /// All of them, by name.
    pub fn iter(&self) -> std::slice::Iter<'_, Node> {
        self.all.iter()
    }

    /// All of them, by name, to be changed.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, Node> {
        self.start_over();
        self.all.iter_mut()
    }

    fn start_over(&mut self) {
        self.index = RefCell::default();
        self.changes.forget();
    }

    /// What they are now, to be compared later.
    pub fn version(&self) -> Version {
        Version(self.changes.before + self.changes.known.len() as u64)
    }

    /// Positions of those that may have changed since; `None` if that is not known any more.
    pub fn changed_since(&self, version: Version) -> Option<&[At]> {
        let from = version.0.checked_sub(self.changes.before)?;
        self.changes.known.get(usize::try_from(from).ok()?..)
    }

    /// The index of free room. Drop it before anything else is asked of the nodes.
    pub fn room(&self) -> Ref<'_, Room> {
        self.index.borrow_mut().follow(&self.all);
        Ref::map(self.index.borrow(), |index| &index.room)
    }

    /// Busy nodes with a lower bound on when `want` could fit (without reservations), earliest first; stops when
    /// `look` returns false.
    pub fn by_bound(&self, want: Want, mut look: impl FnMut(WallTime, At) -> bool) {
        let mut index = self.index.borrow_mut();
        index.follow(&self.all);
        let Index { room, ends, .. } = &mut *index;
        for (bound, at) in ends.by_bound(want, &self.all, room.sorts()) {
            if !look(*bound, *at) {
                break;
            }
        }
    }

    /// True if the index is what it would be if made anew.
    pub fn index_agrees(&self) -> bool {
        let mut anew = Index::default();
        anew.follow(&self.all);
        let mut index = self.index.borrow_mut();
        index.follow(&self.all);
        let Index { room, ends, .. } = &mut *index;
        room.agrees(&anew.room) && ends.agrees(&self.all, room.sorts())
    }
}

impl FromIterator<Node> for Nodes {
    fn from_iter<T: IntoIterator<Item = Node>>(nodes: T) -> Nodes {
        let mut all: Vec<Node> = nodes.into_iter().collect();
        all.sort_by(|a, b| a.inventory.name.cmp(&b.inventory.name));
        Nodes { all, ..Nodes::default() }
    }
}
