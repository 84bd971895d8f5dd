//! Lays the code and the rows of a tile out and packs them.

use super::{EmitContext, TileProgram, WordSink, emit};
use crate::exchange::TileRow;
use crate::kernel::{KernelKey, LinkedCode};
use crate::low::BufferId;
use ipu_package::{Region, RegionKind, TileImage};
use ipu_target::{Tile, Topology};

/// The rows of all phases, found by tile.
pub struct RowIndex<'a> {
    phases: &'a [Vec<TileRow>],
}

impl<'a> RowIndex<'a> {
    pub fn new(phases: &'a [Vec<TileRow>]) -> Self {
        Self { phases }
    }

    /// (phase, words) of the rows of one tile.
    pub fn of_tile(&self, tile: Tile) -> impl Iterator<Item = (u32, &'a [u32])> {
        self.phases.iter().enumerate().filter_map(move |(phase, rows)| {
            let at = rows.binary_search_by_key(&tile, |row| row.tile).ok()?;
            Some((phase as u32, rows[at].words.as_slice()))
        })
    }
}

/// Emitted code of a tile and the places of its rows behind it.
pub struct TileCode {
    pub tile: Tile,
    pub code: Vec<u32>,
}

/// Code comes first, as long as it can become; rows follow.
struct Placed<'a> {
    linked: &'a LinkedCode,
    addresses: &'a [u32],
    /// Word address of the row of each phase.
    rows: Vec<Option<u32>>,
}

impl EmitContext for Placed<'_> {
    #[inline]
    fn address(&self, buffer: BufferId) -> Option<u32> {
        Some(self.addresses[buffer.index()])
    }

    #[inline]
    fn entry(&self, kernel: KernelKey) -> u32 {
        self.linked.entry(kernel)
    }

    #[inline]
    fn row(&self, phase: u32) -> Option<u32> {
        self.rows[phase as usize]
    }
}

impl TileCode {
    /// Emits a program whose code starts at a byte address, with its rows
    /// `code_words` words further on.
    pub fn emit(
        program: &TileProgram,
        linked: &LinkedCode,
        addresses: &[u32],
        rows: &RowIndex,
        address: u32,
        code_words: u32,
    ) -> Self {
        let mut placed = Placed { linked, addresses, rows: vec![None; rows.phases.len()] };
        let mut next = address / 4 + code_words;
        for (phase, words) in rows.of_tile(program.tile) {
            placed.rows[phase as usize] = Some(next);
            next += words.len() as u32;
        }
        let mut sink = WordSink::default();
        emit(program, &placed, &mut sink);
        sink.words.resize(code_words as usize, 0);
        Self { tile: program.tile, code: sink.words }
    }
}

/// Joins code and rows, compresses and hashes them.
pub fn build_image(
    code: &TileCode,
    rows: &RowIndex,
    topology: Topology,
    address: u32,
) -> TileImage {
    let mut words = code.code.clone();
    let mut regions =
        vec![Region { kind: RegionKind::TileCode, start: 0, words: words.len() as u32 }];
    for (_, row) in rows.of_tile(code.tile) {
        let start = words.len() as u32;
        regions.push(Region { kind: RegionKind::ExchangeRow, start, words: row.len() as u32 });
        words.extend(row);
    }
    TileImage::build(code.tile, topology.physical(code.tile), address, regions, &words)
}
