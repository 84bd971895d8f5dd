//! All schemes for one operation, costed and pruned.

use super::cuts::Cuts;
use super::scheme::{Grid, Order, Scheme, Tiling};
use crate::block::useful_parts;
use crate::config::{AttentionProducts, CompilerConfig};
use crate::cost::{Cost, EXCHANGE_START_CYCLES, KERNEL_START_CYCLES, PIECE_CYCLES, Pipeline};
use crate::graph::BLOCK_WORDS;
use crate::operator::{Domain, Tiled};
use ipu_target::MemoryClass;
use ipu_target::memory::{ELEMENT_BYTES, SRAM_BYTES};
use rayon::prelude::*;
use std::cmp::Reverse;

/// Result blocks that a tile accumulates at a time.
const ACCUMULATORS: [u32; 3] = [4, 8, 16];
/// Words of one staging buffer.
const STAGING_WORDS: [u32; 3] = [4096, 8192, 16384];
/// Cycles that are worth starting a tile for.
const CYCLES_PER_TILE: u64 = 2048;
/// Words of one block of single-precision sums.
const SUM_WORDS: u32 = 2 * BLOCK_WORDS;

/// A scheme with what the search needs to know about it.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub scheme: Scheme,
    pub cost: Cost,
    /// Words per tile while the operation runs.
    pub working_words: u32,
    /// Words per tile that hold the result afterwards.
    pub result_words: u32,
    pub reads: Vec<Cuts>,
    pub writes: Cuts,
}

/// The order is the order of preference; the scheme breaks ties.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Costed {
    cost: Cost,
    working_words: u32,
    result_words: u32,
    scheme: Scheme,
}

/// The steps of planning that differ from operator to operator.
pub trait Planned: Sync {
    fn grids(&self, config: &CompilerConfig) -> Vec<Grid>;

    /// The schemes on one grid that fit into memory.
    fn costed(&self, grid: Grid) -> Vec<Costed>;

    fn candidate(&self, costed: Costed) -> Candidate;
}

impl<T: Tiled> Planned for T {
    fn grids(&self, config: &CompilerConfig) -> Vec<Grid> {
        grids(self, config)
    }

    fn costed(&self, grid: Grid) -> Vec<Costed> {
        let mut costed = Vec::new();
        for scheme in variants(self, grid) {
            costed.extend(evaluate(self, scheme));
        }
        costed
    }

    fn candidate(&self, costed: Costed) -> Candidate {
        Candidate::new(self, costed)
    }
}

/// The schemes worth combining, best first.
pub fn candidates(operator: &dyn Planned, config: &CompilerConfig) -> Vec<Candidate> {
    let mut costed: Vec<Costed> = operator
        .grids(config)
        .into_par_iter()
        .flat_map_iter(|grid| operator.costed(grid))
        .collect();
    costed.par_sort_unstable();
    prune(costed, config.candidate_limit)
        .into_par_iter()
        .map(|costed| operator.candidate(costed))
        .collect()
}

impl Candidate {
    fn new(operator: &dyn Tiled, costed: Costed) -> Self {
        let Costed { cost, working_words, result_words, scheme } = costed;
        let reads = (0..operator.operands())
            .map(|operand| Cuts::of(operator, &scheme, |part| operator.operand(operand, part)))
            .collect();
        let writes = Cuts::of(operator, &scheme, |part| operator.result(part));
        Self { scheme, cost, working_words, result_words, reads, writes }
    }

    /// Cycles to bring a value from its producer's tiles to this one's, beyond
    /// those of receiving it: for separate pieces, and for few senders.
    #[inline]
    pub fn handoff(&self, operand: usize, producer: &Self, tiles: u64) -> Cost {
        let reads = &self.reads[operand];
        let copies = reads.blocks.div_ceil(producer.writes.blocks.max(1));
        let pieces = producer.writes.pieces(reads) * copies;
        let words = reads.blocks * u64::from(BLOCK_WORDS);
        let sent = words / u64::from(producer.scheme.grid.tiles());
        let received = words / u64::from(self.scheme.grid.tiles());
        Cost::exchange(pieces * PIECE_CYCLES / tiles + sent.saturating_sub(received))
    }
}

fn grids<T: Tiled>(operator: &T, config: &CompilerConfig) -> Vec<Grid> {
    let (domain, tiles) = (operator.domain(), useful_tiles(operator, config));
    let streams: Vec<u32> = useful_parts(domain.streams, tiles)
        .into_iter()
        .filter(|&parts| match config.products {
            AttentionProducts::Automatic => true,
            AttentionProducts::HeadSplit => parts == domain.streams.min(tiles),
            AttentionProducts::RowSplit => parts == 1,
        })
        .collect();
    let mut grids = Vec::new();
    for &streams in &streams {
        for rows in useful_parts(domain.rows, tiles / streams) {
            for columns in useful_parts(domain.columns, tiles / (streams * rows)) {
                let rest = tiles / (streams * rows * columns);
                let inner = useful_parts(domain.inner, rest);
                grids.extend(inner.into_iter().map(|inner| Grid { streams, rows, columns, inner }));
            }
        }
    }
    grids
}

/// Small operations do not gain from all tiles.
fn useful_tiles<T: Tiled>(operator: &T, config: &CompilerConfig) -> u32 {
    let cycles = operator.domain().positions() * operator.block_cycles();
    let all = u64::from(config.topology.tile_count());
    (cycles / CYCLES_PER_TILE).clamp(1, all) as u32
}

fn variants<T: Tiled>(operator: &T, grid: Grid) -> impl Iterator<Item = Scheme> {
    let part = grid.largest_part(operator.domain());
    ACCUMULATORS
        .iter()
        .flat_map(|&accumulators| STAGING_WORDS.map(|words| (accumulators, words)))
        .filter_map(move |(accumulators, words)| tiling(operator, part, accumulators, words))
        .flat_map(|tiling| [false, true].map(|overlapping| (tiling, overlapping)))
        .flat_map(|(tiling, overlapping)| {
            [MemoryClass::Standard, MemoryClass::Interleaved]
                .map(|class| (tiling, overlapping, class))
        })
        .flat_map(move |(tiling, overlapping, class)| {
            [Order::RowsFast, Order::ColumnsFast].map(|order| Scheme {
                grid,
                order,
                tiling,
                overlapping,
                class,
            })
        })
}

/// The largest windows within the given memory; `None` if not one block fits.
#[inline]
fn tiling<T: Tiled>(
    operator: &T,
    part: Domain,
    accumulators: u32,
    staging_words: u32,
) -> Option<Tiling> {
    let columns = part.columns.min(accumulators);
    let rows = part.rows.min((accumulators / columns).max(1));
    let staging_blocks = staging_words / BLOCK_WORDS;
    let fits = |inner: u32| operator.operand_blocks(rows, columns, inner) <= staging_blocks;
    if !fits(1) {
        return None;
    }
    // Operand blocks grow with the inner extent, so halving finds the largest.
    let (mut inner, mut beyond) = (1, part.inner + 1);
    while beyond - inner > 1 {
        let middle = inner + (beyond - inner) / 2;
        if fits(middle) { inner = middle } else { beyond = middle }
    }
    Some(Tiling { rows, columns, inner })
}

/// Walks the rounds of the largest part; `None` if they cannot fit in memory.
fn evaluate<T: Tiled>(operator: &T, scheme: Scheme) -> Option<Costed> {
    let (part, tiling) = (scheme.grid.largest_part(operator.domain()), scheme.tiling);
    let mut pipeline = Pipeline::new(scheme.overlapping);
    for rows in windows(part.rows, tiling.rows) {
        for columns in windows(part.columns, tiling.columns) {
            for inner in windows(part.inner, tiling.inner) {
                let blocks = operator.operand_blocks(rows, columns, inner);
                let pieces = operator.operand_rows(rows, columns, inner);
                let products = u64::from(rows * columns * inner);
                pipeline.round(
                    EXCHANGE_START_CYCLES
                        + u64::from(blocks * BLOCK_WORDS)
                        + u64::from(pieces) * PIECE_CYCLES,
                    compute_cycles(operator.block_cycles() * products, scheme.class)
                        + u64::from(columns) * KERNEL_START_CYCLES,
                );
            }
        }
    }
    let reduction = Reduction::new(operator, &scheme, part);
    let cost = (pipeline.finish() + reduction.cost).repeated(u64::from(part.streams));
    let working_words = working_words(operator, &scheme) + reduction.words;
    let result_words =
        part.streams * reduction.kept_rows * part.columns * operator.result_width() * BLOCK_WORDS;
    let fits = u64::from(working_words + result_words) * 4 <= u64::from(SRAM_BYTES);
    fits.then_some(Costed { cost, working_words, result_words, scheme })
}

#[inline]
fn windows(extent: u32, step: u32) -> impl Iterator<Item = u32> {
    (0..extent).step_by(step as usize).map(move |start| step.min(extent - start))
}

/// Interleaved operands are loaded two words a cycle.
#[inline]
fn compute_cycles(cycles: u64, class: MemoryClass) -> u64 {
    match class {
        MemoryClass::Standard => cycles,
        MemoryClass::Interleaved => cycles * 3 / 4,
    }
}

fn working_words<T: Tiled>(operator: &T, scheme: &Scheme) -> u32 {
    let Tiling { rows, columns, inner } = scheme.tiling;
    let staging = operator.operand_blocks(rows, columns, inner) * BLOCK_WORDS;
    let staging = match scheme.class {
        MemoryClass::Standard => staging,
        MemoryClass::Interleaved => staging.next_multiple_of(ELEMENT_BYTES / 4),
    };
    let sums = rows * columns * operator.result_width() * SUM_WORDS;
    staging * (1 + u32::from(scheme.overlapping)) + sums
}

/// The exchange that adds up the parts of the inner axis.
struct Reduction {
    cost: Cost,
    words: u32,
    /// Result rows that stay on a tile.
    kept_rows: u32,
}

impl Reduction {
    fn new<T: Tiled>(operator: &T, scheme: &Scheme, part: Domain) -> Self {
        let inner = scheme.grid.inner;
        if inner == 1 {
            return Self { cost: Cost::default(), words: 0, kept_rows: part.rows };
        }
        let kept_rows = part.rows.div_ceil(inner);
        let width = part.columns * operator.result_width();
        let incoming = (inner - 1) * kept_rows * width * SUM_WORDS;
        let adding = u64::from(incoming / 2) + KERNEL_START_CYCLES;
        let exchange = Cost::exchange(EXCHANGE_START_CYCLES + u64::from(incoming));
        Self {
            cost: exchange + Cost { cycles: adding, exchange_cycles: 0 },
            words: incoming + part.rows * width * SUM_WORDS,
            kept_rows,
        }
    }
}

/// Keeps the cheapest, then those that need less memory than all cheaper ones.
fn prune(costed: Vec<Costed>, limit: usize) -> Vec<Costed> {
    let (cheap, frugal) = (limit - limit / 4, limit / 4);
    let mut least = Reverse(u32::MAX);
    let mut kept = Vec::with_capacity(limit);
    let mut frugal_kept = 0;
    for candidate in costed {
        let words = Reverse(candidate.working_words + candidate.result_words);
        let saves_memory = words > least;
        least = least.max(words);
        if kept.len() - frugal_kept < cheap {
            kept.push(candidate);
        } else if saves_memory && frugal_kept < frugal {
            frugal_kept += 1;
            kept.push(candidate);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::Gemm;
    use ipu_target::Topology;

    const GEMM: Gemm = Gemm { rows: 12, columns: 10, inner: 6 };

    fn config() -> CompilerConfig {
        CompilerConfig::new(Topology::new(64).unwrap())
    }

    #[test]
    fn candidates_are_sorted_and_fit() {
        let candidates = candidates(&GEMM, &config());
        assert!(candidates.len() > 50);
        assert!(candidates.iter().all(|candidate| candidate.scheme.grid.tiles() <= 64));
        let cheap = &candidates[..candidates.len() / 2];
        assert!(cheap.windows(2).all(|pair| pair[0].cost <= pair[1].cost));
    }

    #[test]
    fn every_read_block_is_covered() {
        for candidate in candidates(&GEMM, &config()) {
            assert_eq!(candidate.writes.blocks, u64::from(candidate.scheme.grid.inner) * 120);
            assert!(candidate.reads[0].blocks >= 72);
        }
    }

    #[test]
    fn tiling_uses_the_memory_it_is_given() {
        let part = Domain { streams: 1, rows: 12, columns: 10, inner: 40 };
        let small = tiling(&GEMM, part, 4, 1024).unwrap();
        let large = tiling(&GEMM, part, 4, 4096).unwrap();
        assert!(small.inner < large.inner);
        assert_eq!(tiling(&GEMM, part, 16, 64), None);
    }
}
