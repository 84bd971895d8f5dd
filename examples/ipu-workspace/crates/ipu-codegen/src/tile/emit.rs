//! Emits instructions for a tile program.

use super::{Call, TileOp, TileProgram};
use crate::graph::BLOCK_WORDS;
use crate::kernel::KernelKey;
use crate::low::{Argument, BufferId, MAX_ARGUMENTS};
use ipu_target::{Instruction, Register};

const COUNTER: Register = Register(4);
const SCRATCH: Register = Register(5);
/// Points to the argument blocks of the workers.
const WORKER_BLOCKS: Register = Register(14);
const WORKERS: u16 = 6;
/// Words of the argument block of one worker.
const WORKER_BLOCK_WORDS: u16 = 4;
/// The result and the left operand are dealt out by rows; all workers share
/// the other operands.
const DEALT_ARGUMENTS: usize = 2;

/// Where emitted instructions go.
pub trait Sink {
    fn put(&mut self, instruction: Instruction);

    /// Words so far.
    fn position(&self) -> u32;
}

/// Counts words only.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountingSink {
    words: u32,
}

/// Keeps the encoded words.
#[derive(Clone, Debug, Default)]
pub struct WordSink {
    pub words: Vec<u32>,
}

impl Sink for CountingSink {
    #[inline]
    fn put(&mut self, _instruction: Instruction) {
        self.words += 1;
    }

    fn position(&self) -> u32 {
        self.words
    }
}

impl Sink for WordSink {
    #[inline]
    fn put(&mut self, instruction: Instruction) {
        self.words.push(instruction.encode());
    }

    fn position(&self) -> u32 {
        self.words.len() as u32
    }
}

/// What emitted code refers to.
pub trait EmitContext {
    /// Byte address of a buffer; `None` while it is unknown.
    fn address(&self, buffer: BufferId) -> Option<u32>;

    /// Word address of a kernel.
    fn entry(&self, kernel: KernelKey) -> u32;

    /// Word address of the tile's row in a phase; `None` if it has none.
    fn row(&self, phase: u32) -> Option<u32>;
}

/// Before storage is placed: every tile may have a row, and nothing has an
/// address.
#[derive(Clone, Copy, Debug)]
pub struct Unplaced;

impl EmitContext for Unplaced {
    fn address(&self, _buffer: BufferId) -> Option<u32> {
        None
    }

    fn entry(&self, _kernel: KernelKey) -> u32 {
        0
    }

    fn row(&self, _phase: u32) -> Option<u32> {
        Some(0)
    }
}

/// Emits a whole program. With unknown addresses the code is as long as it can
/// ever become.
pub fn emit<S: Sink, C: EmitContext>(program: &TileProgram, context: &C, sink: &mut S) {
    let mut emitter = Emitter { context, sink, known: [None; MAX_ARGUMENTS] };
    for op in &program.ops {
        match op {
            TileOp::Sync => emitter.sink.put(Instruction::Sync { zone: 1 }),
            TileOp::Exchange { phase } => emitter.exchange(*phase),
            TileOp::Call(call) => emitter.call(call),
        }
    }
    emitter.sink.put(Instruction::Halt);
}

struct Emitter<'a, S, C> {
    context: &'a C,
    sink: &'a mut S,
    /// Values of the argument registers; kernels leave them alone.
    known: [Option<u32>; MAX_ARGUMENTS],
}

impl<S: Sink, C: EmitContext> Emitter<'_, S, C> {
    fn exchange(&mut self, phase: u32) {
        if let Some(row) = self.context.row(phase) {
            self.sink.put(Instruction::Exchange { row });
        }
    }

    fn call(&mut self, call: &Call) {
        for (slot, argument) in arguments(call) {
            match self.context.address(argument.buffer) {
                Some(address) => self.set_argument(slot, address + argument.word * 4),
                None => self.set_unknown(slot),
            }
        }
        self.deal_rows(call);
        let run = Instruction::Run { entry: self.context.entry(call.kernel) };
        if call.count == 1 {
            self.sink.put(run);
            return;
        }
        self.sink.put(Instruction::SetImmediate { register: COUNTER, value: call.count as u16 });
        let start = self.sink.position();
        self.sink.put(run);
        for (slot, argument) in arguments(call).filter(|(_, argument)| argument.stride > 0) {
            self.advance(slot, argument.stride * 4, call.count);
        }
        let words = self.sink.position() - start;
        self.sink.put(Instruction::LoopEnd { counter: COUNTER, words: words as u16 });
    }

    /// Gives each worker but the first, who has the registers, its rows.
    fn deal_rows(&mut self, call: &Call) {
        for worker in 1..WORKERS.min(call.kernel.rows) {
            for (slot, _) in arguments(call).take(DEALT_ARGUMENTS) {
                self.sink.put(Instruction::AddImmediate {
                    destination: SCRATCH,
                    source: register(slot),
                    value: (u32::from(worker) * BLOCK_WORDS * 4) as i16,
                });
                self.sink.put(Instruction::Store {
                    source: SCRATCH,
                    base: WORKER_BLOCKS,
                    offset: worker * WORKER_BLOCK_WORDS + slot as u16,
                });
            }
        }
    }

    /// Sets an argument register by the shortest sequence.
    #[inline]
    fn set_argument(&mut self, slot: usize, value: u32) {
        if self.known[slot] == Some(value) {
            return;
        }
        let nearby = self.known.iter().enumerate().find_map(|(other, known)| {
            let delta = i64::from(value) - i64::from((*known)?);
            Some((other, i16::try_from(delta).ok()?))
        });
        let destination = register(slot);
        match nearby {
            Some((other, delta)) => self.sink.put(Instruction::AddImmediate {
                destination,
                source: register(other),
                value: delta,
            }),
            None => self.set_both_halves(destination, value),
        }
        self.known[slot] = Some(value);
    }

    fn set_unknown(&mut self, slot: usize) {
        self.set_both_halves(register(slot), 0);
        self.known[slot] = None;
    }

    fn set_both_halves(&mut self, register: Register, value: u32) {
        self.sink.put(Instruction::SetImmediate { register, value: value as u16 });
        self.sink.put(Instruction::OrUpper { register, value: (value >> 16) as u16 });
    }

    /// Steps an argument inside a loop, as often as its stride needs.
    fn advance(&mut self, slot: usize, stride: u32, count: u32) {
        let destination = register(slot);
        let mut rest = stride;
        while rest > 0 {
            let value = rest.min(i16::MAX as u32) as i16;
            self.sink.put(Instruction::AddImmediate { destination, source: destination, value });
            rest -= value as u32;
        }
        self.known[slot] = self.known[slot].map(|value| value + stride * count);
    }
}

fn arguments(call: &Call) -> impl Iterator<Item = (usize, &Argument)> {
    call.arguments
        .iter()
        .enumerate()
        .filter_map(|(slot, argument)| Some((slot, argument.as_ref()?)))
}

fn register(slot: usize) -> Register {
    Register(slot as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipu_target::Tile;

    struct Fixed {
        address: Option<u32>,
    }

    impl EmitContext for Fixed {
        fn address(&self, buffer: BufferId) -> Option<u32> {
            self.address.map(|address| address + u32::from(buffer.0) * 0x100)
        }

        fn entry(&self, _kernel: KernelKey) -> u32 {
            0x1_3000
        }

        fn row(&self, phase: u32) -> Option<u32> {
            (phase == 0).then_some(0x1_4000)
        }
    }

    fn program() -> TileProgram {
        let argument =
            |buffer, stride| Some(Argument { buffer: BufferId(buffer), word: 0, stride });
        let call = |count| {
            let arguments = [argument(0, 16), argument(1, 0), None, None];
            TileOp::Call(Call { kernel: KernelKey::COPY, arguments, count })
        };
        let exchange = |phase| TileOp::Exchange { phase };
        TileProgram {
            tile: Tile(0),
            ops: vec![TileOp::Sync, exchange(0), exchange(1), call(1), call(5)],
        }
    }

    fn decoded(address: Option<u32>) -> Vec<Instruction> {
        let mut sink = WordSink::default();
        emit(&program(), &Fixed { address }, &mut sink);
        sink.words.iter().map(|&word| Instruction::decode(word).unwrap()).collect()
    }

    #[test]
    fn registers_that_hold_the_value_are_not_set_again() {
        let code = decoded(Some(0x5_0000));
        let sets = code.iter().filter(|i| matches!(i, Instruction::OrUpper { .. })).count();
        // The second argument is near the first; the second call needs nothing.
        assert_eq!(sets, 1);
        assert_eq!(code.last(), Some(&Instruction::Halt));
    }

    #[test]
    fn unknown_addresses_give_the_longest_code() {
        let mut counted = CountingSink::default();
        emit(&program(), &Fixed { address: None }, &mut counted);
        assert!(decoded(Some(0x5_0000)).len() < counted.position() as usize);
        assert_eq!(decoded(None).len(), counted.position() as usize);
    }
}
