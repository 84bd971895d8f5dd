//! The operators: their iteration space, and which blocks a part of it reads
//! and writes.

mod gemm;
mod heads;
mod rowwise;

pub use gemm::Gemm;
pub use heads::{HeadProduct, HeadView, Product};
pub use rowwise::{RowFunction, Rowwise};

use crate::block::Rect;
use crate::kernel::KernelClass;
use crate::plan::Planned;
use std::ops::Range;

/// The extents of an iteration space, in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Domain {
    pub streams: u32,
    pub rows: u32,
    pub columns: u32,
    /// The axis that is summed over.
    pub inner: u32,
}

impl Domain {
    pub fn positions(&self) -> u64 {
        u64::from(self.streams * self.rows) * u64::from(self.columns * self.inner)
    }
}

/// A part of one stream of an iteration space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub stream: u32,
    pub rows: Range<u32>,
    pub columns: Range<u32>,
    pub inner: Range<u32>,
    /// Whether it adds to sums of an earlier part.
    pub continues: bool,
}

/// An operator that can be cut into parts along the axes of its domain.
pub trait Tiled: Sync {
    fn domain(&self) -> Domain;

    fn kernel(&self) -> KernelClass;

    /// How many inputs a part reads.
    fn operands(&self) -> usize;

    /// The blocks of an input that a part reads.
    fn operand(&self, operand: usize, part: &Part) -> Rect;

    /// The blocks that a part writes.
    fn result(&self, part: &Part) -> Rect;

    /// Result blocks of one (row, column) position of the domain.
    fn result_width(&self) -> u32;

    /// Operand blocks that a part of these extents reads.
    fn operand_blocks(&self, rows: u32, columns: u32, inner: u32) -> u32;

    /// Block rows of those operands: each is a run of blocks of its own.
    fn operand_rows(&self, rows: u32, columns: u32, inner: u32) -> u32;

    /// Cycles of one (row, column, inner) position.
    fn block_cycles(&self) -> u64;

    /// Whether the first operand stays on the tile while the others pass by.
    fn keeps_first_operand(&self) -> bool {
        false
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Operator {
    Gemm(Gemm),
    Rowwise(Rowwise),
    HeadProduct(HeadProduct),
}

impl Operator {
    /// The operator as what can be lowered.
    pub fn tiled(&self) -> &dyn Tiled {
        match self {
            Self::Gemm(gemm) => gemm,
            Self::Rowwise(rowwise) => rowwise,
            Self::HeadProduct(product) => product,
        }
    }

    /// The operator as what can be planned.
    pub fn planned(&self) -> &dyn Planned {
        match self {
            Self::Gemm(gemm) => gemm,
            Self::Rowwise(rowwise) => rowwise,
            Self::HeadProduct(product) => product,
        }
    }
}

impl From<Gemm> for Operator {
    fn from(operator: Gemm) -> Self {
        Self::Gemm(operator)
    }
}

impl From<Rowwise> for Operator {
    fn from(operator: Rowwise) -> Self {
        Self::Rowwise(operator)
    }
}

impl From<HeadProduct> for Operator {
    fn from(operator: HeadProduct) -> Self {
        Self::HeadProduct(operator)
    }
}

/// Cycles of one 8×16×16 block product.
const PRODUCT_CYCLES: u64 = 32;

/// Block rows for a range of 16-wide blocks: each covers two 8-high ones, but
/// for the last one of an odd extent.
#[inline]
fn doubled(range: &Range<u32>, extent: u32) -> Range<u32> {
    (2 * range.start).min(extent)..(2 * range.end).min(extent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_odd_extent_ends_the_last_double_row() {
        assert_eq!(doubled(&(2..4), 7), 4..7);
        assert_eq!(doubled(&(2..4), u32::MAX), 4..8);
    }
}
