//! Matrix products.

use super::{Domain, PRODUCT_CYCLES, Part, Tiled, doubled};
use crate::block::Rect;
use crate::kernel::KernelClass;

/// `left × right`.
#[derive(Clone, Copy, Debug)]
pub struct Gemm {
    pub rows: u32,
    pub columns: u32,
    pub inner: u32,
}

impl Tiled for Gemm {
    fn domain(&self) -> Domain {
        Domain { streams: 1, rows: self.rows, columns: self.columns, inner: self.inner }
    }

    fn kernel(&self) -> KernelClass {
        KernelClass::Product
    }

    fn operands(&self) -> usize {
        2
    }

    #[inline]
    fn operand(&self, operand: usize, part: &Part) -> Rect {
        match operand {
            0 => Rect { rows: part.rows.clone(), columns: part.inner.clone() },
            _ => Rect { rows: doubled(&part.inner, u32::MAX), columns: part.columns.clone() },
        }
    }

    #[inline]
    fn result(&self, part: &Part) -> Rect {
        Rect { rows: part.rows.clone(), columns: part.columns.clone() }
    }

    fn result_width(&self) -> u32 {
        1
    }

    #[inline]
    fn operand_rows(&self, rows: u32, _columns: u32, inner: u32) -> u32 {
        rows + 2 * inner
    }

    #[inline]
    fn operand_blocks(&self, rows: u32, columns: u32, inner: u32) -> u32 {
        (rows + 2 * columns) * inner
    }

    fn block_cycles(&self) -> u64 {
        PRODUCT_CYCLES
    }
}
