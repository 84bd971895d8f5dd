//! Kernels: the loops that the workers of a tile run.

mod assemble;
mod body;
mod build;
mod link;
mod modulo;

pub use assemble::{AssemblyError, assemble};
pub use build::{Kernel, build};
pub use link::{LinkedCode, link};

use crate::low::LowProgram;
use rayon::prelude::*;
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KernelClass {
    Product,
    Flash,
    Normalise,
    Softmax,
    Gelu,
    Add,
    /// Converts sums and stores them.
    Store,
    /// Adds up partial sums of several tiles.
    Reduce,
    /// Moves words within a tile.
    Copy,
}

/// What a kernel is specialised for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelKey {
    pub class: KernelClass,
    /// Block rows that one call works on.
    pub rows: u16,
    /// Whether it adds to sums that are already there.
    pub accumulates: bool,
}

impl KernelKey {
    pub const COPY: Self = Self { class: KernelClass::Copy, rows: 1, accumulates: false };
}

impl fmt::Display for KernelKey {
    fn fmt(&self, output: &mut fmt::Formatter<'_>) -> fmt::Result {
        let class = match self.class {
            KernelClass::Product => "product",
            KernelClass::Flash => "flash",
            KernelClass::Normalise => "normalise",
            KernelClass::Softmax => "softmax",
            KernelClass::Gelu => "gelu",
            KernelClass::Add => "add",
            KernelClass::Store => "store",
            KernelClass::Reduce => "reduce",
            KernelClass::Copy => "copy",
        };
        let suffix = if self.accumulates { ".accumulate" } else { "" };
        write!(output, "{class}.r{}{suffix}", self.rows)
    }
}

/// The kernels that a program calls, in order.
pub fn plan(program: &LowProgram) -> Vec<KernelKey> {
    let mut keys: Vec<KernelKey> = program
        .steps
        .par_iter()
        .flat_map_iter(|step| {
            let mut keys: Vec<_> = step.runs.iter().map(|run| run.kernel).collect();
            keys.extend((!step.copies.is_empty()).then_some(KernelKey::COPY));
            keys.sort_unstable();
            keys.dedup();
            keys
        })
        .collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}
