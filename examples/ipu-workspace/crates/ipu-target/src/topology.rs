//! Tiles, the columns they stand in, and how long a word travels.

use std::fmt;

/// Tiles of a C600 card.
pub const C600_TILES: u16 = 1472;
/// Tiles that start together; a program uses a multiple of them.
pub const TILES_PER_GROUP: u16 = 4;

const COLUMNS: u16 = 64;
const BASE_LATENCY: u32 = 12;

/// A logical tile number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tile(pub u16);

impl Tile {
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The active tiles of one program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topology {
    tiles: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopologyError {
    tiles: u32,
}

impl fmt::Display for TopologyError {
    fn fmt(&self, output: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            output,
            "{} tiles: expected a nonzero multiple of {TILES_PER_GROUP}, at most {C600_TILES}",
            self.tiles
        )
    }
}

impl std::error::Error for TopologyError {}

impl Topology {
    pub fn new(tiles: u32) -> Result<Self, TopologyError> {
        u16::try_from(tiles)
            .ok()
            .filter(|&count| {
                (TILES_PER_GROUP..=C600_TILES).contains(&count) && count % TILES_PER_GROUP == 0
            })
            .map(|tiles| Self { tiles })
            .ok_or(TopologyError { tiles })
    }

    #[inline]
    pub fn tile_count(self) -> u16 {
        self.tiles
    }

    pub fn tiles(self) -> impl ExactSizeIterator<Item = Tile> {
        (0..self.tiles).map(Tile)
    }

    /// Cycles between a send instruction and the arrival of its first word.
    #[inline]
    pub fn latency(self, source: Tile, destination: Tile) -> u32 {
        let hops = column(source).abs_diff(column(destination));
        BASE_LATENCY + u32::from(hops) / 4
    }

    /// The position on the card. Neighbouring logical tiles stand in different
    /// columns, so that a row of blocks does not load one column.
    #[inline]
    pub fn physical(self, tile: Tile) -> u16 {
        column(tile) * (C600_TILES / COLUMNS) + tile.0 / COLUMNS
    }
}

#[inline]
fn column(tile: Tile) -> u16 {
    tile.0 % COLUMNS
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn physical_positions_are_a_permutation() {
        let topology = Topology::new(u32::from(C600_TILES)).unwrap();
        let positions: BTreeSet<_> = topology.tiles().map(|t| topology.physical(t)).collect();
        assert_eq!(positions.len(), usize::from(C600_TILES));
        assert_eq!(positions.last(), Some(&(C600_TILES - 1)));
    }

    #[test]
    fn latency_is_symmetric() {
        let topology = Topology::new(1472).unwrap();
        let (a, b) = (Tile(3), Tile(1300));
        assert_eq!(topology.latency(a, b), topology.latency(b, a));
        assert!(topology.latency(a, b) >= topology.latency(a, a));
    }

    #[test]
    fn impossible_tile_counts_are_named() {
        for tiles in [0, 3, 1476, 70_000] {
            let message = Topology::new(tiles).unwrap_err().to_string();
            assert!(message.starts_with(&tiles.to_string()), "{message}");
        }
    }
}
