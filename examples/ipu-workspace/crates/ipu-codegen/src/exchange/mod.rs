//! Exchange phases: from transfers between buffers to the rows that tiles walk.

mod coalesce;
mod colour;
mod gap;
mod row;
mod schedule;

pub use coalesce::{ExchangePhase, coalesce, plan_storage};
pub use colour::{EdgeColouring, colour_edges};
pub use row::{TileRow, encode_rows};
pub use schedule::{Schedule, schedule};

use ipu_target::Topology;

/// What is known about a phase before buffers have addresses.
#[derive(Clone, Debug)]
pub struct ProvisionalPhase {
    pub colouring: EdgeColouring,
    pub schedule: Schedule,
    /// An upper bound of the words of each tile's row.
    pub row_words: Vec<u32>,
}

/// Colours the transfers of a phase, schedules them once and bounds the rows.
pub fn provisional(phase: &ExchangePhase, topology: Topology) -> ProvisionalPhase {
    let tiles = usize::from(topology.tile_count());
    let edges: Vec<(u16, u16)> =
        phase.transfers.iter().map(|t| (t.source.0, t.destination.0)).collect();
    let colouring = colour_edges(&edges, tiles);
    let schedule = schedule::provisional_schedule(&phase.transfers, &colouring, topology);
    ProvisionalPhase { colouring, schedule, row_words: row::bound(&phase.transfers, tiles) }
}

/// Words of each tile's rows in all phases together.
pub fn total_row_words(phases: &[ProvisionalPhase], tiles: usize) -> Vec<u32> {
    let mut sums = vec![0; tiles];
    for phase in phases {
        sums.iter_mut().zip(&phase.row_words).for_each(|(sum, words)| *sum += words);
    }
    sums
}
