//! Builds a kernel: the best of several unrollings, preferences and intervals.

use super::KernelKey;
use super::body::{Body, Work};
use super::modulo::{
    ByHeight, ByLatency, ByUsers, InOrder, LoopSchedule, minimum_interval, schedule,
};
use ipu_target::{Instruction, Register};
use rayon::prelude::*;

const UNROLLS: [usize; 5] = [1, 2, 4, 8, 16];
/// A longer interval may need fewer registers.
const EXTRA_INTERVALS: u32 = 5;
const REGISTERS: u32 = 12;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    pub key: KernelKey,
    pub words: Vec<u32>,
    /// Cycles of 1024 iterations.
    pub cycles: u64,
}

/// The order is the order of preference.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Quality {
    cycles: u64,
    words: usize,
}

/// Builds one kernel.
pub fn build(key: KernelKey) -> Kernel {
    let (quality, words) = UNROLLS
        .iter()
        .map(|&unroll| best_of_unroll(key, unroll))
        .min()
        .expect("every loop has a schedule");
    Kernel { key, words, cycles: quality.cycles }
}

type Scheduler = fn(&Body, u32) -> Option<LoopSchedule>;

fn best_of_unroll(key: KernelKey, unroll: usize) -> (Quality, Vec<u32>) {
    let body = Body::new(key, unroll);
    let minimum = minimum_interval(&body);
    let preferences: [Scheduler; 4] =
        [schedule::<ByHeight>, schedule::<ByUsers>, schedule::<ByLatency>, schedule::<InOrder>];
    preferences
        .par_iter()
        .flat_map_iter(|schedule| schedules(&body, minimum, schedule))
        .map(|schedule| {
            let words = emit(&body, &schedule);
            (Quality { cycles: cycles(&body, &schedule, unroll), words: words.len() }, words)
        })
        .min()
        .expect("a long enough interval always succeeds")
}

/// The first schedule that succeeds and those of the next longer intervals.
fn schedules(body: &Body, minimum: u32, schedule: &Scheduler) -> Vec<LoopSchedule> {
    let mut found: Vec<LoopSchedule> = Vec::new();
    for interval in minimum.. {
        found.extend(schedule(body, interval));
        if found.first().is_some_and(|first| interval >= first.interval + EXTRA_INTERVALS) {
            break;
        }
    }
    found
}

/// Cycles of 1024 iterations; values without a register are stored and loaded.
fn cycles(body: &Body, schedule: &LoopSchedule, unroll: usize) -> u64 {
    let spilled = schedule.registers(body).saturating_sub(REGISTERS);
    u64::from(schedule.interval + 2 * spilled) * 1024 / unroll as u64
}

/// Prologue, steady loop, epilogue.
fn emit(body: &Body, schedule: &LoopSchedule) -> Vec<u32> {
    let mut order: Vec<usize> = (0..body.len()).collect();
    order.sort_by_key(|&node| (schedule.starts[node] % schedule.interval, node));
    let stage = |node: usize| schedule.starts[node] / schedule.interval;
    let last = schedule.stages() - 1;
    let counter = Register(15);
    let steady = order.iter().map(|&node| instruction(body, node));
    let loop_end = Instruction::LoopEnd { counter, words: body.len() as u16 };

    let prologue = (0..last).flat_map(|filled| {
        order.iter().filter(move |&&node| stage(node) <= filled).map(|&node| (node, body))
    });
    let epilogue = (0..last).flat_map(|drained| {
        order.iter().filter(move |&&node| stage(node) > drained).map(|&node| (node, body))
    });
    prologue
        .map(|(node, body)| instruction(body, node))
        .chain(steady)
        .chain(std::iter::once(loop_end))
        .chain(epilogue.map(|(node, body)| instruction(body, node)))
        .chain(std::iter::once(Instruction::Halt))
        .map(Instruction::encode)
        .collect()
}

fn instruction(body: &Body, node: usize) -> Instruction {
    let register = |node: usize| Register((node % REGISTERS as usize) as u8);
    let mut operands = body.incoming(node).filter(|d| d.distance == 0).map(|d| register(d.from));
    let first = operands.next().unwrap_or(Register(13));
    let second = operands.next().unwrap_or(Register(14));
    match body.work[node] {
        Work::Load => {
            Instruction::Load { destination: register(node), base: first, offset: node as u16 }
        }
        Work::Store => Instruction::Store { source: first, base: second, offset: node as u16 },
        Work::Accumulate => {
            Instruction::Accumulate { left: first, right: second, accumulator: node as u16 }
        }
        Work::Map(function) => {
            Instruction::Map { destination: register(node), source: first, function }
        }
        Work::Advance => {
            Instruction::AddImmediate { destination: Register(13), source: Register(13), value: 32 }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::KernelClass;

    const PRODUCT: KernelKey =
        KernelKey { class: KernelClass::Product, rows: 4, accumulates: true };

    #[test]
    fn a_kernel_is_decodable_and_ends() {
        let kernel = build(PRODUCT);
        let decoded: Option<Vec<_>> =
            kernel.words.iter().map(|&word| Instruction::decode(word)).collect();
        assert_eq!(decoded.unwrap().last(), Some(&Instruction::Halt));
    }

    #[test]
    fn more_rows_do_not_make_a_row_slower() {
        let one = build(KernelKey { rows: 1, ..PRODUCT });
        let four = build(PRODUCT);
        assert!(four.cycles <= 4 * one.cycles);
    }
}
