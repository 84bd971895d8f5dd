//! One way to compute one operation: how its domain is spread over tiles, and
//! in which windows each tile walks through its part.

use crate::block::{part, window};
use crate::operator::{Domain, Part};
use ipu_target::{MemoryClass, Tile};

/// Into how many parts each axis of a domain is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grid {
    pub streams: u32,
    pub rows: u32,
    pub columns: u32,
    pub inner: u32,
}

/// Which parts stand on neighbouring tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    RowsFast,
    ColumnsFast,
}

/// The extents that a tile works on in one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tiling {
    pub rows: u32,
    pub columns: u32,
    pub inner: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scheme {
    pub grid: Grid,
    pub order: Order,
    pub tiling: Tiling,
    /// Two staging buffers: fetch for the next round while computing.
    pub overlapping: bool,
    pub class: MemoryClass,
}

/// The coordinates of one tile in a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub stream: u32,
    pub row: u32,
    pub column: u32,
    pub inner: u32,
}

impl Grid {
    pub fn tiles(&self) -> u32 {
        self.streams * self.rows * self.columns * self.inner
    }

    /// The largest part of a domain.
    pub fn largest_part(&self, domain: Domain) -> Domain {
        Domain {
            streams: domain.streams.div_ceil(self.streams),
            rows: domain.rows.div_ceil(self.rows),
            columns: domain.columns.div_ceil(self.columns),
            inner: domain.inner.div_ceil(self.inner),
        }
    }
}

impl Scheme {
    /// Every place of the grid with its tile.
    pub fn places(&self) -> impl Iterator<Item = (Tile, Place)> + Clone {
        let scheme = *self;
        (0..self.grid.tiles()).map(move |index| (Tile(index as u16), scheme.place(index)))
    }

    /// Where a tile stands. The inner axis is slowest, so that the tiles of one
    /// reduction are far apart.
    #[inline]
    fn place(&self, index: u32) -> Place {
        let Grid { streams, rows, columns, .. } = self.grid;
        let (row, column) = match self.order {
            Order::RowsFast => (index % rows, index / rows % columns),
            Order::ColumnsFast => (index / columns % rows, index % columns),
        };
        let plane = index / (rows * columns);
        Place { stream: plane % streams, row, column, inner: plane / streams }
    }

    /// The tile at a place: the inverse of [`Scheme::places`].
    #[inline]
    pub fn tile(&self, place: Place) -> Tile {
        let Grid { streams, rows, columns, .. } = self.grid;
        let within = match self.order {
            Order::RowsFast => place.column * rows + place.row,
            Order::ColumnsFast => place.row * columns + place.column,
        };
        Tile(((place.inner * streams + place.stream) * rows * columns + within) as u16)
    }

    /// The parts of a domain, one for each stream, that a place computes.
    #[inline]
    pub fn parts(&self, domain: Domain, place: Place) -> impl Iterator<Item = Part> + Clone {
        let rows = part(domain.rows, self.grid.rows, place.row);
        let columns = part(domain.columns, self.grid.columns, place.column);
        let inner = part(domain.inner, self.grid.inner, place.inner);
        part(domain.streams, self.grid.streams, place.stream).map(move |stream| Part {
            stream,
            rows: rows.clone(),
            columns: columns.clone(),
            inner: inner.clone(),
            continues: false,
        })
    }

    /// The rounds of the largest part, in execution order. All tiles walk them
    /// in lockstep; one with a smaller part idles in some.
    pub fn rounds(&self, domain: Domain) -> impl Iterator<Item = Round> {
        let (most, tiling) = (self.grid.largest_part(domain), self.tiling);
        let starts = |extent: u32, step: u32| (0..extent).step_by(step as usize);
        (0..most.streams)
            .flat_map(move |stream| starts(most.rows, tiling.rows).map(move |row| (stream, row)))
            .flat_map(move |(stream, row)| {
                starts(most.columns, tiling.columns).map(move |column| (stream, row, column))
            })
            .flat_map(move |(stream, row, column)| {
                starts(most.inner, tiling.inner).map(move |inner| Round {
                    stream,
                    row,
                    column,
                    inner,
                })
            })
    }

    /// What a part contributes in one round; `None` if it is already done.
    ///
    /// Each place starts at another inner window, as in Cannon's algorithm:
    /// otherwise all tiles would ask the same few for their blocks at once.
    #[inline]
    pub fn window(&self, part: &Part, place: Place, round: Round) -> Option<Part> {
        let rows = window(&part.rows, round.row, self.tiling.rows);
        let columns = window(&part.columns, round.column, self.tiling.columns);
        let windows = self.inner_windows(part);
        let turn = round.inner / self.tiling.inner;
        if rows.is_empty() || columns.is_empty() || turn >= windows {
            return None;
        }
        let turned = (turn + place.row + place.column) % windows;
        let inner = window(&part.inner, turned * self.tiling.inner, self.tiling.inner);
        Some(Part { stream: part.stream, rows, columns, inner, continues: turn > 0 })
    }

    /// Whether a round completes the sums of a part.
    #[inline]
    pub fn completes(&self, part: &Part, round: Round) -> bool {
        round.inner / self.tiling.inner + 1 == self.inner_windows(part)
    }

    #[inline]
    fn inner_windows(&self, part: &Part) -> u32 {
        (part.inner.end - part.inner.start).div_ceil(self.tiling.inner)
    }
}

/// Offsets of a round from the start of each tile's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    pub stream: u32,
    pub row: u32,
    pub column: u32,
    pub inner: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn scheme(order: Order) -> Scheme {
        Scheme {
            grid: Grid { streams: 2, rows: 3, columns: 5, inner: 2 },
            order,
            tiling: Tiling { rows: 2, columns: 2, inner: 3 },
            overlapping: false,
            class: MemoryClass::Standard,
        }
    }

    #[test]
    fn places_and_tiles_are_inverse() {
        for order in [Order::RowsFast, Order::ColumnsFast] {
            let scheme = scheme(order);
            assert!(scheme.places().all(|(tile, place)| scheme.tile(place) == tile));
        }
    }

    #[test]
    fn rounds_visit_every_position_once() {
        let domain = Domain { streams: 3, rows: 11, columns: 9, inner: 7 };
        let scheme = scheme(Order::RowsFast);
        let rounds: Vec<Round> = scheme.rounds(domain).collect();
        let mut seen = BTreeSet::new();
        for (_, place) in scheme.places() {
            let parts: Vec<Part> = scheme.parts(domain, place).collect();
            for round in &rounds {
                let Some(part) = parts.get(round.stream as usize) else { continue };
                let Some(window) = scheme.window(part, place, *round) else { continue };
                for row in window.rows.clone() {
                    for column in window.columns.clone() {
                        for inner in window.inner.clone() {
                            assert!(seen.insert((window.stream, row, column, inner)));
                        }
                    }
                }
            }
        }
        assert_eq!(seen.len(), 3 * 11 * 9 * 7);
    }
}
