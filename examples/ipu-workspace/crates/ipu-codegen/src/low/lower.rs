//! Turns a complete plan into steps.

use super::placement::{Placement, kept_part};
use super::{Argument, Buffer, BufferId, LowProgram, MAX_ARGUMENTS, Run, Step, Transfer};
use crate::block::length;
use crate::graph::{BLOCK_WORDS, ValueId};
use crate::kernel::{KernelClass, KernelKey};
use crate::operator::{Part, Tiled};
use crate::plan::{Candidate, Finalist, Round, Scheme};
use ipu_target::{MemoryClass, Tile, Topology};
use std::ops::Range;

/// Longest run that a transfer is made of: short enough for several sources to
/// take turns at one destination.
const MAX_RUN_BLOCKS: u32 = 4;
const SUM_WORDS: u32 = 2 * BLOCK_WORDS;

/// Lowers a plan. The steps of an operation follow from where those before it
/// left its inputs, so this goes strictly in order.
pub fn lower(plan: &Finalist, topology: Topology) -> LowProgram {
    let mut lowering = Lowering::new(plan, topology);
    for (operation, candidate) in plan.graph.operations.iter().zip(&plan.candidates) {
        let operator = operation.operator.tiled();
        lowering.operation(operator, candidate, &operation.inputs, operation.result);
    }
    lowering.finish()
}

struct Lowering<'a> {
    plan: &'a Finalist,
    steps: Vec<Step>,
    buffers: Vec<Buffer>,
    placements: Vec<Option<Placement>>,
    /// The steps of each operation lowered so far.
    operation_steps: Vec<Range<u32>>,
    /// Where the first operand was last staged.
    first_operand: Option<BufferId>,
}

/// What all rounds of one operation share.
struct Context<'a> {
    operator: &'a dyn Tiled,
    scheme: &'a Scheme,
    inputs: &'a [ValueId],
    result: ValueId,
    sums: BufferId,
}

/// What one tile does in one round.
struct Turn {
    tile: Tile,
    round: Round,
    /// All that the tile computes of the stream.
    part: Part,
    /// What of it is computed now.
    window: Part,
}

impl<'a> Lowering<'a> {
    fn new(plan: &'a Finalist, topology: Topology) -> Self {
        let mut lowering = Self {
            plan,
            steps: Vec::new(),
            buffers: Vec::new(),
            placements: vec![None; plan.graph.values.len()],
            operation_steps: Vec::new(),
            first_operand: None,
        };
        for (index, value) in plan.graph.values.iter().enumerate() {
            if plan.graph.producer(ValueId(index as u16)).is_none() {
                let buffer = lowering.buffer(MemoryClass::Standard);
                let placement = Placement::spread(buffer, value, u32::from(topology.tile_count()));
                lowering.require(buffer, placement.most_slots * BLOCK_WORDS);
                lowering.placements[index] = Some(placement);
            }
        }
        lowering
    }

    fn operation(
        &mut self,
        operator: &dyn Tiled,
        candidate: &Candidate,
        inputs: &[ValueId],
        result: ValueId,
    ) {
        let scheme = &candidate.scheme;
        let first_step = self.steps.len() as u32;
        let value = &self.plan.graph.values[result.index()];
        let buffer = self.buffer(MemoryClass::Standard);
        let placement = Placement::computed(buffer, value, operator, scheme);
        self.require(buffer, placement.most_slots * BLOCK_WORDS);
        self.placements[result.index()] = Some(placement);

        let sums = self.buffer(MemoryClass::Standard);
        let context = Context { operator, scheme, inputs, result, sums };
        let rounds: Vec<Round> = scheme.rounds(operator.domain()).collect();
        for (index, &round) in rounds.iter().enumerate() {
            self.round(&context, round);
            let stream_ends = rounds.get(index + 1).is_none_or(|next| next.stream != round.stream);
            if stream_ends && scheme.grid.inner > 1 {
                self.reduction(&context, round.stream);
            }
        }
        let steps = first_step..self.steps.len() as u32;
        self.live(sums, steps.start, steps.end - 1);
        self.operation_steps.push(steps);
    }

    /// Fetches the operands of one round and runs the kernel on them.
    fn round(&mut self, context: &Context, round: Round) {
        let Context { operator, scheme, .. } = *context;
        let staging: Vec<BufferId> =
            (0..operator.operands()).map(|operand| self.staging(context, operand, round)).collect();
        let mut step = Step::default();
        for (tile, place) in scheme.places() {
            let Some(part) = scheme.parts(operator.domain(), place).nth(round.stream as usize)
            else {
                continue;
            };
            let Some(window) = scheme.window(&part, place, round) else { continue };
            let turn = Turn { tile, round, part, window };
            for (operand, &buffer) in staging.iter().enumerate() {
                let words = self.fetch(&mut step, context, &turn, operand, buffer);
                self.require(buffer, words);
            }
            self.compute(&mut step, context, &turn, &staging);
        }
        self.steps.push(step);
    }

    /// The buffer of an operand in one round.
    fn staging(&mut self, context: &Context, operand: usize, round: Round) -> BufferId {
        let step = self.steps.len() as u32;
        if operand == 0
            && round.inner > 0
            && context.operator.keeps_first_operand()
            && let Some(kept) = self.first_operand
        {
            self.buffers[kept.index()].last_step = step;
            return kept;
        }
        let buffer = self.buffer(context.scheme.class);
        let fetched = step.saturating_sub(u32::from(context.scheme.overlapping));
        self.live(buffer, fetched, step);
        if operand == 0 {
            self.first_operand = Some(buffer);
        }
        buffer
    }

    /// Adds the transfers of one operand and returns the words it takes.
    fn fetch(
        &self,
        step: &mut Step,
        context: &Context,
        turn: &Turn,
        operand: usize,
        buffer: BufferId,
    ) -> u32 {
        let rect = context.operator.operand(operand, &turn.window);
        let placement = self.placement(context.inputs[operand]);
        for run in placement.runs(&rect, MAX_RUN_BLOCKS) {
            let transfer = Transfer {
                destination: turn.tile,
                to: buffer,
                to_word: run.offset * BLOCK_WORDS,
                source: run.start.tile,
                from: placement.buffer,
                from_word: run.start.index * BLOCK_WORDS,
                words: (run.blocks * BLOCK_WORDS) as u16,
            };
            if transfer.source == turn.tile {
                step.copies.push(transfer);
            } else {
                step.transfers.push(transfer);
            }
        }
        rect.blocks() * BLOCK_WORDS
    }

    /// Adds the kernel calls of one tile, and the storing of finished sums.
    fn compute(&mut self, step: &mut Step, context: &Context, turn: &Turn, staging: &[BufferId]) {
        let Turn { tile, round, ref part, ref window } = *turn;
        let width = context.operator.result_width();
        let reduced = context.scheme.grid.inner > 1;
        let (rows, columns) = (length(&window.rows), length(&window.columns));
        // Partial sums are kept whole until they are exchanged; others are
        // stored and forgotten window by window.
        let pitch = if reduced { length(&part.columns) } else { columns } * width * SUM_WORDS;
        let first = if reduced { round.row * pitch + round.column * width * SUM_WORDS } else { 0 };
        let last = first + (rows - 1) * pitch + columns * width * SUM_WORDS;
        self.require(context.sums, last);

        let sums = Argument { buffer: context.sums, word: first, stride: width * SUM_WORDS };
        let operands = staging.iter().enumerate().map(|(operand, &buffer)| {
            // The first operand serves all columns; the others advance.
            let stride = if operand == 0 { 0 } else { BLOCK_WORDS };
            Argument { buffer, word: 0, stride }
        });
        step.runs.push(Run {
            tile,
            kernel: KernelKey {
                class: context.operator.kernel(),
                rows: rows as u16,
                accumulates: window.continues,
            },
            calls: columns,
            arguments: arguments(std::iter::once(sums).chain(operands)),
        });
        if !reduced && context.scheme.completes(part, round) {
            let result = self.placement(context.result).buffer;
            let pitch = length(&part.columns) * width * BLOCK_WORDS;
            let height = length(&part.rows);
            let word =
                (round.stream * height + round.row) * pitch + round.column * width * BLOCK_WORDS;
            let stored = Argument { buffer: result, word, stride: pitch };
            let summed = Argument { word: 0, stride: columns * width * SUM_WORDS, ..sums };
            step.runs.push(Run {
                tile,
                kernel: KernelKey {
                    class: KernelClass::Store,
                    rows: (columns * width) as u16,
                    accumulates: false,
                },
                calls: rows,
                arguments: arguments([stored, summed]),
            });
        }
    }

    /// Sends each tile the partial sums of the rows that it keeps.
    fn reduction(&mut self, context: &Context, stream: u32) {
        let Context { operator, scheme, sums, .. } = *context;
        let now = self.steps.len() as u32;
        let incoming = self.buffer(MemoryClass::Standard);
        self.live(incoming, now, now);
        let result = self.placement(context.result).buffer;
        let mut step = Step::default();
        for (tile, place) in scheme.places() {
            let Some(part) = scheme.parts(operator.domain(), place).nth(stream as usize) else {
                continue;
            };
            let kept = kept_part(scheme, &part, place.inner);
            let width = length(&part.columns) * operator.result_width() * SUM_WORDS;
            let first = (kept.rows.start - part.rows.start) * width;
            let words = length(&kept.rows) * width;
            if words == 0 {
                continue;
            }
            let others = (0..scheme.grid.inner).filter(|&inner| inner != place.inner);
            for (index, inner) in others.enumerate() {
                let source = scheme.tile(crate::plan::Place { inner, ..place });
                let to_word = index as u32 * words;
                step.transfers.extend(chunks(words).map(|(offset, words)| Transfer {
                    destination: tile,
                    to: incoming,
                    to_word: to_word + offset,
                    source,
                    from: sums,
                    from_word: first + offset,
                    words,
                }));
            }
            self.require(incoming, (scheme.grid.inner - 1) * words);
            let stored = Argument {
                buffer: result,
                word: stream * words / SUM_WORDS * BLOCK_WORDS,
                stride: 0,
            };
            let own = Argument { buffer: sums, word: first, stride: 0 };
            let other = Argument { buffer: incoming, word: 0, stride: words };
            step.runs.push(Run {
                tile,
                kernel: KernelKey {
                    class: KernelClass::Reduce,
                    rows: (words / SUM_WORDS) as u16,
                    accumulates: true,
                },
                calls: scheme.grid.inner - 1,
                arguments: arguments([stored, own, other]),
            });
        }
        self.steps.push(step);
    }

    fn finish(mut self) -> LowProgram {
        let last_step = self.steps.len().saturating_sub(1) as u32;
        let graph = &self.plan.graph;
        for index in 0..graph.values.len() {
            let value = ValueId(index as u16);
            let first = graph.producer(value).map_or(0, |at| self.operation_steps[at].start);
            let last =
                self.operation_steps.get(graph.last_use(value)).map_or(last_step, |s| s.end - 1);
            let buffer = self.placement(value).buffer;
            self.live(buffer, first, last);
        }
        LowProgram { steps: self.steps, buffers: self.buffers }
    }

    fn placement(&self, value: ValueId) -> &Placement {
        self.placements[value.index()].as_ref().expect("operations come after their inputs")
    }

    fn buffer(&mut self, class: MemoryClass) -> BufferId {
        self.buffers.push(Buffer { words: 0, first_step: 0, last_step: 0, class });
        BufferId((self.buffers.len() - 1) as u16)
    }

    #[inline]
    fn require(&mut self, buffer: BufferId, words: u32) {
        let buffer = &mut self.buffers[buffer.index()];
        buffer.words = buffer.words.max(words);
    }

    fn live(&mut self, buffer: BufferId, first_step: u32, last_step: u32) {
        let buffer = &mut self.buffers[buffer.index()];
        (buffer.first_step, buffer.last_step) = (first_step, last_step);
    }
}

fn arguments(list: impl IntoIterator<Item = Argument>) -> [Option<Argument>; MAX_ARGUMENTS] {
    let mut arguments = [None; MAX_ARGUMENTS];
    arguments.iter_mut().zip(list).for_each(|(slot, argument)| *slot = Some(argument));
    arguments
}

/// (offset, words) of the pieces of a long run.
#[inline]
fn chunks(words: u32) -> impl Iterator<Item = (u32, u16)> {
    let longest = MAX_RUN_BLOCKS * BLOCK_WORDS;
    (0..words)
        .step_by(longest as usize)
        .map(move |offset| (offset, longest.min(words - offset) as u16))
}
