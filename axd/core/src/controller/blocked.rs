//! What a pass has found out: which jobs need not be looked at any more.

use crate::schedule::lane::Worth;
use crate::schedule::order::{Lengths, ShapeId, Waiting};
use crate::time::Span;

/// What a pass has found out about the shapes of jobs: as long as nothing ends, what did not fit will not fit.
#[derive(Default)]
pub(super) struct Blocked {
    pub(super) shapes: Vec<OfShape>,
    /// From this priority on others may have to go.
    pub(super) urgent: Option<u8>,
}

#[derive(Clone, Copy)]
pub(super) struct OfShape {
    /// The least length with which a job of the shape was found not to fit; nothing: it doesn't however short.
    length: Span,
    /// Jobs of a lower priority can make nobody go.
    pub(super) no_victims_below: u8,
}

impl Blocked {
    const UNKNOWN: OfShape = OfShape { length: Span(u64::MAX), no_victims_below: 0 };

    pub(super) fn covers(&self, waiting: &Waiting, by: Lengths) -> bool {
        self.of(waiting.shape).length <= waiting.by(by)
    }

    pub(super) fn of(&self, shape: ShapeId) -> OfShape {
        self.shapes.get(shape.position()).copied().unwrap_or(Self::UNKNOWN)
    }

    pub(super) fn of_mut(&mut self, shape: ShapeId) -> &mut OfShape {
        if shape.position() >= self.shapes.len() {
            self.shapes.resize(shape.position() + 1, Self::UNKNOWN);
        }
        &mut self.shapes[shape.position()]
    }

    pub(super) fn add(&mut self, shape: ShapeId, length: Span) {
        let known = self.of_mut(shape);
        known.length = length.min(known.length);
    }

    /// Which jobs of a shape could still be started, or have others go.
    pub(super) fn worth(&self, shape: ShapeId, by: Lengths) -> Worth {
        let OfShape { length, no_victims_below } = self.of(shape);
        let from_priority = self.urgent.map_or(u8::MAX, |urgent| urgent.max(no_victims_below));
        Worth { shorter_than: length, by, from_priority }
    }
}
