//! Threads that spend their time in deeply inlined iterator code and in a recursion that is not inlined.

use std::hint::black_box;
use std::thread;

trait Step {
    fn step(&self, value: u64) -> u64;
}

struct Rotate<const BY: u32>;

impl<const BY: u32> Step for Rotate<BY> {
    #[inline]
    fn step(&self, value: u64) -> u64 {
        value.rotate_left(BY).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

#[inline]
fn mix<S: Step>(step: &S, values: &[u64]) -> u64 {
    values.iter().enumerate().map(|(index, value)| step.step(value ^ index as u64)).fold(0, |sum, value| sum ^ value)
}

#[inline(never)]
fn descend(depth: u32, values: &mut Vec<u64>) -> u64 {
    if depth == 0 {
        values.sort_unstable_by_key(|value| value.wrapping_mul(31));
        return mix(&Rotate::<7>, values) ^ mix(&Rotate::<11>, values);
    }
    let last = values.len() - 1;
    values[last] = values[last].wrapping_add(u64::from(depth));
    let below = descend(depth - 1, values);
    black_box(below).rotate_left(depth)
}

#[inline(never)]
fn work(seed: u64, rounds: u64) -> u64 {
    let mut values: Vec<u64> = (0..512).map(|index| index * seed).collect();
    (0..rounds).fold(seed, |sum, round| sum ^ descend((round % 23) as u32, &mut values))
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>().expect("a number"));
    let threads = arguments.next().unwrap_or(4);
    let rounds = arguments.next().unwrap_or(60_000);
    let workers: Vec<_> = (1..=threads)
        .map(|seed| {
            thread::Builder::new().name(format!("worker {seed}")).spawn(move || work(seed, rounds)).expect("a thread")
        })
        .collect();
    let sum = workers.into_iter().fold(work(99, rounds), |sum, worker| sum ^ worker.join().expect("a sum"));
    println!("{sum:x}");
}
