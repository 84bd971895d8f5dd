//! On which tile, and in which slot of its buffer, each block of a value lies.

use super::BufferId;
use crate::block::{Rect, part};
use crate::graph::Value;
use crate::operator::{Part, Tiled};
use crate::plan::Scheme;
use ipu_target::Tile;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    pub tile: Tile,
    pub index: u32,
}

#[derive(Clone, Debug)]
pub struct Placement {
    pub buffer: BufferId,
    /// Slots of the fullest tile.
    pub most_slots: u32,
    columns: u32,
    slots: Vec<Slot>,
}

impl Placement {
    /// Host tensors and parameters: equal runs of blocks on all tiles.
    pub fn spread(buffer: BufferId, value: &Value, tiles: u32) -> Self {
        let blocks = value.blocks();
        let mut slots = Vec::with_capacity(blocks as usize);
        for tile in 0..tiles {
            let range = part(blocks, tiles, tile);
            slots.extend(
                (0..range.len() as u32).map(|index| Slot { tile: Tile(tile as u16), index }),
            );
        }
        Self { buffer, most_slots: blocks.div_ceil(tiles), columns: value.columns, slots }
    }

    /// Results: each block on the tile that computes it.
    pub fn computed(
        buffer: BufferId,
        value: &Value,
        operator: &dyn Tiled,
        scheme: &Scheme,
    ) -> Self {
        let mut placement = Self {
            buffer,
            most_slots: 0,
            columns: value.columns,
            slots: vec![Slot::default(); value.blocks() as usize],
        };
        for (tile, place) in scheme.places() {
            let mut index = 0;
            for part in scheme.parts(operator.domain(), place) {
                let kept = kept_part(scheme, &part, place.inner);
                for (row, columns) in operator.result(&kept).row_spans() {
                    for column in columns {
                        *placement.slot_mut(row, column) = Slot { tile, index };
                        index += 1;
                    }
                }
            }
            placement.most_slots = placement.most_slots.max(index);
        }
        placement
    }

    fn slot_mut(&mut self, row: u32, column: u32) -> &mut Slot {
        &mut self.slots[(row * self.columns + column) as usize]
    }

    /// The blocks of a rectangle as runs of consecutive slots of one tile, each
    /// with its distance from the rectangle's first block.
    #[inline]
    pub fn runs(&self, rect: &Rect, longest: u32) -> impl Iterator<Item = SlotRun> + use<'_> {
        let width = rect.columns.end - rect.columns.start;
        rect.row_spans().enumerate().flat_map(move |(line, (row, columns))| {
            let first = (row * self.columns + columns.start) as usize;
            let slots = &self.slots[first..first + width as usize];
            row_runs(slots, longest).map(move |(at, length)| SlotRun {
                start: slots[at],
                blocks: length as u32,
                offset: line as u32 * width + at as u32,
            })
        })
    }
}

/// The rows of a part that stay on a tile after the inner parts are added up.
#[inline]
pub fn kept_part(scheme: &Scheme, whole: &Part, inner: u32) -> Part {
    let height = whole.rows.end - whole.rows.start;
    let kept = part(height, scheme.grid.inner, inner);
    let rows = whole.rows.start + kept.start..whole.rows.start + kept.end;
    Part { rows, ..whole.clone() }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRun {
    pub start: Slot,
    pub blocks: u32,
    pub offset: u32,
}

/// Splits a row into (start, length) of consecutive slots.
#[inline]
fn row_runs(slots: &[Slot], longest: u32) -> impl Iterator<Item = (usize, usize)> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let first = *slots.get(at)?;
        let length = slots[at..]
            .iter()
            .zip(first.index..first.index + longest)
            .take_while(|(slot, index)| slot.tile == first.tile && slot.index == *index)
            .count();
        let start = at;
        at += length;
        Some((start, length))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::Gemm;
    use crate::plan::{Grid, Order, Tiling};
    use ipu_target::MemoryClass;
    use std::collections::BTreeSet;

    #[test]
    fn a_spread_value_is_balanced() {
        let value = Value { name: "weights", rows: 5, columns: 7 };
        let placement = Placement::spread(BufferId(0), &value, 8);
        let runs: Vec<_> = placement.runs(&Rect { rows: 0..5, columns: 0..7 }, 16).collect();
        assert_eq!(runs.iter().map(|run| run.blocks).sum::<u32>(), 35);
        assert_eq!(placement.most_slots, 5);
        assert!(runs.iter().all(|run| run.start.index + run.blocks <= 5));
    }

    #[test]
    fn computed_blocks_have_slots_of_their_own() {
        let value = Value { name: "result", rows: 9, columns: 6 };
        let gemm = Gemm { rows: 9, columns: 6, inner: 4 };
        let scheme = Scheme {
            grid: Grid { streams: 1, rows: 2, columns: 3, inner: 2 },
            order: Order::RowsFast,
            tiling: Tiling { rows: 1, columns: 1, inner: 1 },
            overlapping: false,
            class: MemoryClass::Standard,
        };
        let placement = Placement::computed(BufferId(0), &value, &gemm, &scheme);
        let distinct: BTreeSet<_> =
            placement.slots.iter().map(|slot| (slot.tile, slot.index)).collect();
        assert_eq!(distinct.len(), 54);
        assert!(distinct.iter().all(|&(_, index)| index < placement.most_slots));
    }

    #[test]
    fn runs_end_at_gaps_and_at_the_longest() {
        let slot = |tile, index| Slot { tile: Tile(tile), index };
        let slots = [slot(0, 0), slot(0, 1), slot(0, 2), slot(1, 3), slot(1, 5)];
        let runs: Vec<_> = row_runs(&slots, 2).collect();
        assert_eq!(runs, [(0, 2), (2, 1), (3, 1), (4, 1)]);
    }
}
