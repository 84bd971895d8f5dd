//! Joins runs that touch at both ends, and checks that nothing is written twice.

use crate::CompileError;
use crate::low::{LowProgram, Step, Transfer};
use ipu_target::exchange::MAX_TRANSFER_WORDS;
use rayon::prelude::*;

/// Lists shorter than this are not worth a task of their own.
const LEAF: usize = 4096;

/// The transfers of one step, ordered by destination.
#[derive(Clone, Debug)]
pub struct ExchangePhase {
    pub step: u32,
    pub transfers: Vec<Transfer>,
}

/// Moves the transfers out of a program's steps, coalesced.
pub fn plan_storage(program: &mut LowProgram) -> Result<Vec<ExchangePhase>, CompileError> {
    program
        .steps
        .par_iter_mut()
        .enumerate()
        .filter(|(_, step)| !step.transfers.is_empty())
        .map(|(index, step)| phase(index as u32, step))
        .collect()
}

fn phase(index: u32, step: &mut Step) -> Result<ExchangePhase, CompileError> {
    let mut transfers = std::mem::take(&mut step.transfers);
    transfers.sort_unstable();
    step.copies.sort_unstable();
    step.copies = coalesce(&step.copies);
    let transfers = coalesce(&transfers);
    match first_overlap(&transfers) {
        Some(tile) => Err(CompileError::OverlappingTransfers { step: index, tile }),
        None => Ok(ExchangePhase { step: index, transfers }),
    }
}

/// Joins neighbours of a sorted list, half by half.
pub fn coalesce(transfers: &[Transfer]) -> Vec<Transfer> {
    if transfers.len() <= LEAF {
        return coalesce_run(transfers);
    }
    let (left, right) = transfers.split_at(boundary(transfers));
    if left.is_empty() || right.is_empty() {
        return coalesce_run(transfers);
    }
    let (mut joined, mut rest) = rayon::join(|| coalesce(left), || coalesce(right));
    joined.append(&mut rest);
    joined
}

/// The start of the destination in the middle, so that no run spans halves.
fn boundary(transfers: &[Transfer]) -> usize {
    let middle = transfers[transfers.len() / 2].destination;
    transfers.partition_point(|transfer| transfer.destination < middle)
}

fn coalesce_run(transfers: &[Transfer]) -> Vec<Transfer> {
    let mut joined: Vec<Transfer> = Vec::with_capacity(transfers.len());
    for &transfer in transfers {
        match joined.last_mut() {
            Some(last) if touches(last, &transfer) => last.words += transfer.words,
            _ => joined.push(transfer),
        }
    }
    joined
}

#[inline]
fn touches(left: &Transfer, right: &Transfer) -> bool {
    let words = u32::from(left.words);
    (left.destination, left.to, left.source, left.from)
        == (right.destination, right.to, right.source, right.from)
        && left.to_word + words == right.to_word
        && left.from_word + words == right.from_word
        && words + u32::from(right.words) <= MAX_TRANSFER_WORDS
}

/// The tile of the first two transfers that write the same word.
fn first_overlap(transfers: &[Transfer]) -> Option<u16> {
    transfers
        .iter()
        .zip(&transfers[transfers.len().min(1)..])
        .find(|(left, right)| {
            (left.destination, left.to) == (right.destination, right.to)
                && left.to_word + u32::from(left.words) > right.to_word
        })
        .map(|(left, _)| left.destination.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::low::BufferId;
    use ipu_target::Tile;

    fn transfer(destination: u16, to_word: u32, from_word: u32) -> Transfer {
        Transfer {
            destination: Tile(destination),
            to: BufferId(1),
            to_word,
            source: Tile(9),
            from: BufferId(0),
            from_word,
            words: 64,
        }
    }

    #[test]
    fn runs_that_touch_at_both_ends_are_joined() {
        let joined = coalesce(&[
            transfer(1, 0, 128),
            transfer(1, 64, 192),
            transfer(1, 128, 0),
            transfer(2, 192, 64),
        ]);
        let words: Vec<_> = joined.iter().map(|t| (t.destination.0, t.to_word, t.words)).collect();
        assert_eq!(words, [(1, 0, 128), (1, 128, 64), (2, 192, 64)]);
    }

    #[test]
    fn halves_give_what_the_whole_gives() {
        let mut transfers: Vec<Transfer> =
            (0..20_000u32).map(|n| transfer((n / 50) as u16, n % 50 * 64, n % 50 * 64)).collect();
        transfers.sort_unstable();
        assert_eq!(coalesce(&transfers), coalesce_run(&transfers));
    }

    #[test]
    fn overlaps_are_found() {
        let apart = [transfer(1, 0, 0), transfer(1, 64, 0), transfer(2, 0, 0)];
        assert_eq!(first_overlap(&apart), None);
        assert_eq!(first_overlap(&[transfer(3, 0, 0), transfer(3, 63, 0)]), Some(3));
    }
}
