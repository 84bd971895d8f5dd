//! Why a program cannot be compiled.

use crate::kernel::AssemblyError;
use std::fmt;

#[derive(Debug)]
pub enum CompileError {
    /// No candidate of an operation fits behind any partial plan.
    NoPlan {
        tiles: u16,
        operation: &'static str,
    },
    OverlappingTransfers {
        step: u32,
        tile: u16,
    },
    /// Buffers, code and rows together are larger than a tile's memory.
    OutOfMemory {
        needed_bytes: u32,
        tile_bytes: u32,
    },
    Runtime(AssemblyError),
}

impl fmt::Display for CompileError {
    fn fmt(&self, output: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPlan { tiles, operation } => write!(
                output,
                "planner rejected: no candidate fits in {tiles} tiles (operation {operation})"
            ),
            Self::OverlappingTransfers { step, tile } => {
                write!(output, "two transfers of step {step} write the same word of tile {tile}")
            }
            Self::OutOfMemory { needed_bytes, tile_bytes } => write!(
                output,
                "storage placement failed: {needed_bytes} bytes needed, a tile has {tile_bytes}"
            ),
            Self::Runtime(error) => error.fmt(output),
        }
    }
}

impl std::error::Error for CompileError {}
