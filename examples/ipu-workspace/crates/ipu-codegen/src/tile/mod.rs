//! Tile code: what the supervisor of each tile executes.

mod emit;
mod image;
mod program;
mod roll;

pub use emit::{CountingSink, EmitContext, Sink, Unplaced, WordSink, emit};
pub use image::{RowIndex, TileCode, build_image};
pub use program::{TileProgram, build_program};

use crate::kernel::KernelKey;
use crate::low::{Argument, MAX_ARGUMENTS};

/// A call whose arguments have no addresses yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    pub kernel: KernelKey,
    pub arguments: [Option<Argument>; MAX_ARGUMENTS],
    /// How often; each time the arguments advance by their strides.
    pub count: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TileOp {
    Sync,
    Exchange { phase: u32 },
    Call(Call),
}
