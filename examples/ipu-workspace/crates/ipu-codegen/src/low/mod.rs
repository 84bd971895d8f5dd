//! The lowered program: steps that all tiles take together, each an exchange
//! followed by kernel runs, on buffers that have no addresses yet.

mod lower;
mod placement;

pub use lower::lower;

use crate::kernel::KernelKey;
use ipu_target::{MemoryClass, Tile};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferId(pub u16);

impl BufferId {
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Memory at one address on every tile; its size is that of the largest use.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    pub words: u32,
    pub first_step: u32,
    pub last_step: u32,
    pub class: MemoryClass,
}

/// A run of words from one tile's buffer to another's.
///
/// The order of the fields makes neighbours in memory neighbours in a sorted
/// list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Transfer {
    pub destination: Tile,
    pub to: BufferId,
    pub to_word: u32,
    pub source: Tile,
    pub from: BufferId,
    pub from_word: u32,
    pub words: u16,
}

/// A kernel argument: a place in a buffer, advancing from call to call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    pub buffer: BufferId,
    pub word: u32,
    pub stride: u32,
}

pub const MAX_ARGUMENTS: usize = 4;

/// Calls of one kernel on one tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub tile: Tile,
    pub kernel: KernelKey,
    pub calls: u32,
    pub arguments: [Option<Argument>; MAX_ARGUMENTS],
}

#[derive(Clone, Debug, Default)]
pub struct Step {
    pub transfers: Vec<Transfer>,
    /// Transfers whose source and destination are the same tile.
    pub copies: Vec<Transfer>,
    /// Ordered by tile.
    pub runs: Vec<Run>,
}

#[derive(Clone, Debug)]
pub struct LowProgram {
    pub steps: Vec<Step>,
    pub buffers: Vec<Buffer>,
}

impl LowProgram {
    pub fn transfer_count(&self) -> usize {
        self.steps.iter().map(|step| step.transfers.len()).sum()
    }
}
