//! Estimated cost of a plan. Whole numbers only: a plan must not depend on how
//! a processor rounds.

use std::ops::Add;

/// Cycles to start an exchange phase on all tiles.
pub const EXCHANGE_START_CYCLES: u64 = 140;
/// Cycles to start the workers of a tile on one kernel.
pub const KERNEL_START_CYCLES: u64 = 90;
/// Row words and cycles that one separate piece of a transfer costs.
pub const PIECE_CYCLES: u64 = 6;

/// Estimated cycles, and how many of them are exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost {
    pub cycles: u64,
    pub exchange_cycles: u64,
}

impl Cost {
    #[inline]
    pub fn exchange(cycles: u64) -> Self {
        Self { cycles, exchange_cycles: cycles }
    }

    pub fn repeated(self, times: u64) -> Self {
        Self { cycles: self.cycles * times, exchange_cycles: self.exchange_cycles * times }
    }
}

impl Add for Cost {
    type Output = Self;

    #[inline]
    fn add(self, other: Self) -> Self {
        Self {
            cycles: self.cycles + other.cycles,
            exchange_cycles: self.exchange_cycles + other.exchange_cycles,
        }
    }
}

/// Adds up a sequence of rounds of which each fetches and then computes.
///
/// With two buffers the next fetch runs while this round computes.
#[derive(Clone, Copy, Debug)]
pub struct Pipeline {
    overlapping: bool,
    cost: Cost,
    pending: u64,
}

impl Pipeline {
    pub fn new(overlapping: bool) -> Self {
        Self { overlapping, cost: Cost::default(), pending: 0 }
    }

    #[inline]
    pub fn round(&mut self, exchange: u64, compute: u64) {
        let hidden = if self.overlapping { exchange.min(self.pending) } else { 0 };
        self.cost = self.cost
            + Cost { cycles: exchange - hidden + compute, exchange_cycles: exchange - hidden };
        self.pending = compute;
    }

    pub fn finish(self) -> Cost {
        self.cost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(overlapping: bool) -> Cost {
        let mut pipeline = Pipeline::new(overlapping);
        [(100, 50), (80, 200), (60, 10)].iter().for_each(|&(e, c)| pipeline.round(e, c));
        pipeline.finish()
    }

    #[test]
    fn overlap_hides_the_shorter_side() {
        assert_eq!(total(false), Cost { cycles: 500, exchange_cycles: 240 });
        // The second fetch hides behind 50 cycles, the third wholly.
        assert_eq!(total(true), Cost { cycles: 390, exchange_cycles: 130 });
    }
}
