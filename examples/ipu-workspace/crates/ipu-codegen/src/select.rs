//! The exact comparison of finalists.

use crate::cost::{EXCHANGE_START_CYCLES, PIECE_CYCLES};
use crate::exchange::{coalesce, colour_edges};
use crate::low::{LowProgram, Step, lower};
use crate::plan::Finalist;
use ipu_target::Topology;

/// The finalist that takes the fewest cycles.
#[derive(Debug)]
pub struct Selection {
    pub finalist: usize,
    pub refined_cycles: u64,
    pub program: LowProgram,
}

/// Lowers the finalists one after the other and keeps the best one. A finalist
/// is given up as soon as it is worse than the best so far, which is why they
/// are not compared in parallel.
pub fn select(finalists: &[Finalist], topology: Topology) -> Option<Selection> {
    let mut best: Option<Selection> = None;
    for (index, finalist) in finalists.iter().enumerate() {
        let program = lower(finalist, topology);
        let computing = finalist.cost.cycles - finalist.cost.exchange_cycles;
        let limit = best.as_ref().map_or(u64::MAX, |best| best.refined_cycles);
        let refined_cycles = refined_cycles(&program, topology, computing, limit);
        tracing::info!(
            finalist = index,
            analytical_cycles = finalist.cost.cycles,
            refined_cycles,
            "compared operator-plan finalist"
        );
        if let Some(refined_cycles) = refined_cycles {
            best = Some(Selection { finalist: index, refined_cycles, program });
        }
    }
    best
}

/// Cycles of computing and of all exchanges; `None` once the limit is reached.
fn refined_cycles(
    program: &LowProgram,
    topology: Topology,
    computing: u64,
    limit: u64,
) -> Option<u64> {
    let ports = usize::from(topology.tile_count());
    program.steps.iter().try_fold(computing, |sum, step| {
        let sum = sum + exchange_cycles(step, ports);
        (sum < limit).then_some(sum)
    })
}

/// Transfers of one colour run together and take as long as the longest.
fn exchange_cycles(step: &Step, ports: usize) -> u64 {
    if step.transfers.is_empty() {
        return 0;
    }
    let transfers = coalesce(&step.transfers);
    let edges: Vec<(u16, u16)> =
        transfers.iter().map(|transfer| (transfer.source.0, transfer.destination.0)).collect();
    let colouring = colour_edges(&edges, ports);
    let mut longest = vec![0; colouring.count as usize];
    for (transfer, &colour) in transfers.iter().zip(&colouring.colours) {
        let cycles = u64::from(transfer.words) + PIECE_CYCLES;
        longest[colour as usize] = cycles.max(longest[colour as usize]);
    }
    EXCHANGE_START_CYCLES + longest.iter().sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::low::{BufferId, Transfer};
    use ipu_target::Tile;

    #[test]
    fn transfers_of_one_port_add_up() {
        let transfer = |source, destination, words| Transfer {
            destination: Tile(destination),
            to: BufferId(0),
            to_word: u32::from(source) * 1000,
            source: Tile(source),
            from: BufferId(1),
            from_word: 0,
            words,
        };
        let step = |transfers| Step { transfers, ..Step::default() };
        let apart = step(vec![transfer(0, 1, 50), transfer(2, 3, 80)]);
        let together = step(vec![transfer(0, 1, 50), transfer(2, 1, 80)]);
        let pieces = EXCHANGE_START_CYCLES + PIECE_CYCLES;
        assert_eq!(exchange_cycles(&apart, 4), pieces + 80);
        assert_eq!(exchange_cycles(&together, 4), pieces + PIECE_CYCLES + 130);
        assert_eq!(exchange_cycles(&Step::default(), 4), 0);
    }
}
