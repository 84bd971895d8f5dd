//! Gathers what one tile does in all steps.

use super::roll::roll;
use super::{Call, TileOp};
use crate::exchange::ExchangePhase;
use crate::graph::BLOCK_WORDS;
use crate::kernel::KernelKey;
use crate::low::{Argument, LowProgram, Run, Step, Transfer};
use ipu_target::Tile;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileProgram {
    pub tile: Tile,
    pub ops: Vec<TileOp>,
}

/// The program of one tile, with repeated calls rolled into loops.
pub fn build_program(program: &LowProgram, phases: &[ExchangePhase], tile: Tile) -> TileProgram {
    let mut ops = Vec::with_capacity(program.steps.len() * 4);
    let mut phase = 0;
    for (index, step) in program.steps.iter().enumerate() {
        ops.push(TileOp::Sync);
        if phases.get(phase).is_some_and(|next| next.step == index as u32) {
            ops.push(TileOp::Exchange { phase: phase as u32 });
            phase += 1;
        }
        ops.extend(roll(calls(step, tile)).map(TileOp::Call));
    }
    TileProgram { tile, ops }
}

/// Copies within the tile come first: kernels read what they bring.
fn calls(step: &Step, tile: Tile) -> impl Iterator<Item = Call> {
    let copies = of_tile(&step.copies, |copy: &Transfer| copy.destination, tile);
    let runs = of_tile(&step.runs, |run: &Run| run.tile, tile);
    copies.iter().map(copy_call).chain(runs.iter().map(run_call))
}

fn of_tile<T>(sorted: &[T], tile_of: impl Fn(&T) -> Tile, tile: Tile) -> &[T] {
    let first = sorted.partition_point(|item| tile_of(item) < tile);
    let count = sorted[first..].partition_point(|item| tile_of(item) == tile);
    &sorted[first..first + count]
}

/// Runs are whole blocks, so one kernel copies them all.
fn copy_call(copy: &Transfer) -> Call {
    let argument = |buffer, word| Some(Argument { buffer, word, stride: BLOCK_WORDS });
    Call {
        kernel: KernelKey::COPY,
        arguments: [
            argument(copy.to, copy.to_word),
            argument(copy.from, copy.from_word),
            None,
            None,
        ],
        count: u32::from(copy.words) / BLOCK_WORDS,
    }
}

fn run_call(run: &Run) -> Call {
    Call { kernel: run.kernel, arguments: run.arguments, count: run.calls }
}
