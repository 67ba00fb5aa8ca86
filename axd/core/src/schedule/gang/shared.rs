//! Nodes of which something is reserved, asked for one instant after the other: what each said is remembered as long as
//! nothing on it begins or ends that could change the answer.

use std::rc::Rc;

use crate::schedule::placement::Search;
use crate::schedule::timeline::Profile;
use crate::time::WallTime;

/// A node of which something is reserved.
pub(super) struct Watched {
    position: usize,
    /// Nothing: it could not hold the request if it were empty.
    future: Option<Rc<Profile>>,
    /// Whether it has room for what begins before an instant.
    has_room: (bool, WallTime),
}

impl Search<'_> {
    /// A node, of which nobody has asked anything yet.
    pub(super) fn watched(&self, position: usize) -> Watched {
        let node = &self.nodes[position];
        let could = self.rules.could_hold(node, self.asks);
        let future = could.then(|| self.timeline.future(position, node));
        Watched { position, future, has_room: (false, WallTime(i64::MIN)) }
    }

    /// Whether so many of these nodes have room from an instant on, which is never before that of the last call.
    pub(super) fn has_room_on(&self, nodes: &mut [Watched], count: usize, at: WallTime) -> bool {
        let has_room = |watched: &mut Watched| {
            let Some(future) = &watched.future else { return false };
            if at >= watched.has_room.1 {
                let node = &self.nodes[watched.position];
                let fits = |usage: &_| self.rules.fits_beside(node, self.asks, usage);
                watched.has_room = future.fits_from(at, self.length, fits);
            }
            watched.has_room.0
        };
        count == 0
            || nodes.iter_mut().filter_map(|node| has_room(node).then_some(())).nth(count - 1).is_some()
    }
}
