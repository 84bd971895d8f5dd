//! Functions of rows.

use super::{Domain, Part, Tiled};
use crate::block::Rect;
use crate::kernel::KernelClass;

/// What each row is turned into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFunction {
    Normalise,
    Softmax,
    Gelu,
    Add,
}

impl RowFunction {
    /// Whether a row may be cut.
    #[inline]
    fn is_elementwise(self) -> bool {
        matches!(self, Self::Gelu | Self::Add)
    }
}

/// A function of rows: of whole ones, or of every element on its own.
#[derive(Clone, Copy, Debug)]
pub struct Rowwise {
    pub function: RowFunction,
    pub rows: u32,
    pub columns: u32,
}

impl Tiled for Rowwise {
    fn domain(&self) -> Domain {
        let columns = if self.function.is_elementwise() { self.columns } else { 1 };
        Domain { streams: 1, rows: self.rows, columns, inner: 1 }
    }

    fn kernel(&self) -> KernelClass {
        match self.function {
            RowFunction::Normalise => KernelClass::Normalise,
            RowFunction::Softmax => KernelClass::Softmax,
            RowFunction::Gelu => KernelClass::Gelu,
            RowFunction::Add => KernelClass::Add,
        }
    }

    fn operands(&self) -> usize {
        if self.function == RowFunction::Add { 2 } else { 1 }
    }

    #[inline]
    fn operand(&self, _operand: usize, part: &Part) -> Rect {
        self.result(part)
    }

    #[inline]
    fn result(&self, part: &Part) -> Rect {
        let columns =
            if self.function.is_elementwise() { part.columns.clone() } else { 0..self.columns };
        Rect { rows: part.rows.clone(), columns }
    }

    #[inline]
    fn result_width(&self) -> u32 {
        if self.function.is_elementwise() { 1 } else { self.columns }
    }

    #[inline]
    fn operand_rows(&self, rows: u32, _columns: u32, _inner: u32) -> u32 {
        self.operands() as u32 * rows
    }

    #[inline]
    fn operand_blocks(&self, rows: u32, columns: u32, inner: u32) -> u32 {
        self.operands() as u32 * rows * columns * inner * self.result_width()
    }

    fn block_cycles(&self) -> u64 {
        let per_block = match self.function {
            RowFunction::Normalise => 40,
            RowFunction::Softmax => 72,
            RowFunction::Gelu => 56,
            RowFunction::Add => 20,
        };
        per_block * u64::from(self.result_width())
    }
}
