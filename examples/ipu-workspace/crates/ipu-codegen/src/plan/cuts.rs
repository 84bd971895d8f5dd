//! Where the tiles' rectangles begin, along both axes of a tensor.
//!
//! Two ways to cut the same tensor are compared by counting the pieces of the
//! common refinement: each piece is a transfer of its own.

use super::scheme::Scheme;
use crate::block::Rect;
use crate::operator::{Part, Tiled};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cuts {
    rows: Vec<u32>,
    columns: Vec<u32>,
    /// Blocks of all rectangles, each counted as often as it is needed.
    pub blocks: u64,
}

impl Cuts {
    /// Cuts of the rectangles that `rect` names for every part of a scheme.
    pub fn of(operator: &dyn Tiled, scheme: &Scheme, rect: impl Fn(&Part) -> Rect) -> Self {
        let domain = operator.domain();
        let rects = scheme
            .places()
            .flat_map(|(_, place)| scheme.parts(domain, place))
            .map(|part| rect(&part));
        let mut cuts = Self::default();
        for rect in rects {
            cuts.blocks += u64::from(rect.blocks());
            cuts.rows.extend([rect.rows.start, rect.rows.end]);
            cuts.columns.extend([rect.columns.start, rect.columns.end]);
        }
        cuts.rows.sort_unstable();
        cuts.rows.dedup();
        cuts.columns.sort_unstable();
        cuts.columns.dedup();
        cuts
    }

    /// Pieces of the common refinement of a tensor.
    #[inline]
    pub fn pieces(&self, other: &Self) -> u64 {
        intervals(&self.rows, &other.rows) * intervals(&self.columns, &other.columns)
    }
}

/// Intervals between the cuts of two sorted lists together.
fn intervals(left: &[u32], right: &[u32]) -> u64 {
    let (mut i, mut j, mut cuts) = (0, 0, 0u64);
    while let (Some(a), Some(b)) = (left.get(i), right.get(j)) {
        i += usize::from(a <= b);
        j += usize::from(b <= a);
        cuts += 1;
    }
    (cuts + (left.len() - i + right.len() - j) as u64).saturating_sub(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_cuts_are_counted_once() {
        assert_eq!(intervals(&[0, 4, 8], &[0, 4, 8]), 2);
        assert_eq!(intervals(&[0, 4, 8], &[0, 2, 8]), 3);
        assert_eq!(intervals(&[0, 8], &[0, 1, 2, 3, 8]), 4);
        assert_eq!(intervals(&[], &[]), 1);
    }
}
