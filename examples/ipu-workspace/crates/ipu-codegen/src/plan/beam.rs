//! Beam search over one candidate for each operation.

use super::candidate::{Candidate, candidates};
use crate::CompileError;
use crate::config::CompilerConfig;
use crate::cost::Cost;
use crate::graph::{BLOCK_WORDS, Graph, ValueId};

use ipu_target::memory::SRAM_BYTES;
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::ops::Add;

/// Memory kept free for code, exchange rows and fragmentation.
const RESERVED_WORDS: u32 = 160 * 1024 / 4;
/// States that may end in the same candidate, lest the beam fill up with
/// near-copies of one plan.
const STATES_PER_CANDIDATE: usize = 6;

/// A complete plan: the graph and one candidate for each operation.
#[derive(Clone, Debug)]
pub struct Finalist {
    pub graph: Graph,
    pub candidates: Vec<Candidate>,
    pub cost: Cost,
    pub peak_words: u32,
}

#[derive(Clone, Debug, Default)]
struct State {
    cost: Cost,
    peak_words: u32,
    choices: Vec<u16>,
}

/// The order is the order of preference.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Expansion {
    cost: Cost,
    peak_words: u32,
    parent: u16,
    candidate: u16,
}

/// The best plans for a graph, best first.
pub fn search(graph: &Graph, config: &CompilerConfig) -> Result<Vec<Finalist>, CompileError> {
    let tiles = config.topology.tile_count();
    let table: Vec<Vec<Candidate>> = graph
        .operations
        .par_iter()
        .map(|operation| candidates(operation.operator.planned(), config))
        .collect();
    let search = Search { graph, config, table: &table, lifetimes: lifetimes(graph) };
    let mut beam = vec![State::default()];
    for operation in 0..graph.operations.len() {
        beam = search.advance(&beam, operation);
        if beam.is_empty() {
            return Err(CompileError::NoPlan { tiles, operation: search.name(operation) });
        }
    }
    Ok(search.finalists(beam))
}

struct Search<'a> {
    graph: &'a Graph,
    config: &'a CompilerConfig,
    table: &'a [Vec<Candidate>],
    /// First and last operation during which each value takes memory.
    lifetimes: Vec<(usize, usize)>,
}

impl Search<'_> {
    fn advance(&self, beam: &[State], operation: usize) -> Vec<State> {
        let mut expansions: Vec<Expansion> = beam
            .par_iter()
            .enumerate()
            .flat_map_iter(|(parent, state)| self.expand(parent as u16, state, operation))
            .collect();
        expansions.par_sort_unstable();
        // Plans of one cost and size differ in ways that do not matter.
        expansions.dedup_by_key(|expansion| (expansion.cost, expansion.peak_words));
        let mut used = vec![0; self.table[operation].len()];
        expansions
            .into_iter()
            .filter(|expansion| {
                let uses = &mut used[usize::from(expansion.candidate)];
                *uses += 1;
                *uses <= STATES_PER_CANDIDATE
            })
            .take(self.config.beam_width)
            .map(|expansion| beam[usize::from(expansion.parent)].extended(expansion))
            .collect()
    }

    /// Every candidate that fits behind a partial plan.
    fn expand<'s>(
        &'s self,
        parent: u16,
        state: &'s State,
        operation: usize,
    ) -> impl Iterator<Item = Expansion> + 's {
        let resident = self.resident_words(state, operation);
        let tiles = u64::from(self.config.topology.tile_count());
        self.table[operation].iter().enumerate().filter_map(move |(index, candidate)| {
            let words = resident + candidate.working_words + candidate.result_words;
            let fits = words + RESERVED_WORDS <= SRAM_BYTES / 4;
            fits.then(|| Expansion {
                cost: state.cost
                    + candidate.cost
                    + self.handoffs(state, operation, candidate, tiles),
                peak_words: state.peak_words.max(words),
                parent,
                candidate: index as u16,
            })
        })
    }

    #[inline]
    fn handoffs(&self, state: &State, operation: usize, candidate: &Candidate, tiles: u64) -> Cost {
        self.graph.operations[operation]
            .inputs
            .iter()
            .enumerate()
            .filter_map(|(operand, &value)| {
                let producer = self.chosen(state, self.graph.producer(value)?);
                Some(candidate.handoff(operand, producer, tiles))
            })
            .fold(Cost::default(), Cost::add)
    }

    #[inline]
    fn chosen(&self, state: &State, operation: usize) -> &Candidate {
        &self.table[operation][usize::from(state.choices[operation])]
    }

    /// Words per tile of the values that live during an operation, without its
    /// own result.
    fn resident_words(&self, state: &State, operation: usize) -> u32 {
        (0..self.graph.values.len())
            .filter(|&value| {
                let (first, last) = self.lifetimes[value];
                first <= operation && operation <= last
            })
            .map(|value| match self.graph.producer(ValueId(value as u16)) {
                Some(producer) if producer >= operation => 0,
                Some(producer) => self.chosen(state, producer).result_words,
                None => {
                    let tiles = u32::from(self.config.topology.tile_count());
                    self.graph.values[value].blocks().div_ceil(tiles) * BLOCK_WORDS
                }
            })
            .sum()
    }

    fn name(&self, operation: usize) -> &'static str {
        self.graph.values[self.graph.operations[operation].result.index()].name
    }

    /// The best plans of which no two spread all operations in the same way.
    fn finalists(&self, beam: Vec<State>) -> Vec<Finalist> {
        let mut seen = BTreeSet::new();
        beam.into_iter()
            .map(|state| self.finalist(state))
            .filter(|finalist| {
                let grids = finalist.candidates.iter().map(|candidate| candidate.scheme.grid);
                seen.insert(grids.collect::<Vec<_>>())
            })
            .take(self.config.finalists)
            .collect()
    }

    fn finalist(&self, state: State) -> Finalist {
        let candidates = (0..self.table.len()).map(|at| self.chosen(&state, at).clone()).collect();
        Finalist {
            graph: self.graph.clone(),
            candidates,
            cost: state.cost,
            peak_words: state.peak_words,
        }
    }
}

impl State {
    fn extended(&self, expansion: Expansion) -> Self {
        let mut choices = self.choices.clone();
        choices.push(expansion.candidate);
        Self { cost: expansion.cost, peak_words: expansion.peak_words, choices }
    }
}

/// Host tensors and parameters live from the start, results from their
/// producer, all until their last reader.
pub fn lifetimes(graph: &Graph) -> Vec<(usize, usize)> {
    (0..graph.values.len())
        .map(|value| ValueId(value as u16))
        .map(|value| (graph.producer(value).unwrap_or(0), graph.last_use(value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{AttentionForm, AttentionShape};
    use ipu_target::Topology;

    fn graph(tokens: u32) -> Graph {
        let shape = AttentionShape { batch: 1, heads: 2, tokens, head_width: 32, blocks: 1 };
        Graph::attention(shape, AttentionForm::Flash)
    }

    fn config(tiles: u32) -> CompilerConfig {
        let mut config = CompilerConfig::new(Topology::new(tiles).unwrap());
        (config.beam_width, config.candidate_limit) = (8, 32);
        config
    }

    #[test]
    fn finalists_are_complete_and_sorted() {
        let finalists = search(&graph(64), &config(32)).unwrap();
        assert!(!finalists.is_empty() && finalists.len() <= 4);
        assert!(finalists.iter().all(|finalist| finalist.candidates.len() == 5));
        assert!(finalists.is_sorted_by_key(|finalist| finalist.cost));
    }

    #[test]
    fn a_plan_that_fits_nowhere_is_refused() {
        let error = search(&graph(40_000), &config(4)).unwrap_err();
        assert!(error.to_string().contains("no candidate fits in 4 tiles"), "{error}");
    }
}
