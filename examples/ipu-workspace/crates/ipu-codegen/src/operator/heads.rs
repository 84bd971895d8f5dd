//! The products of attention.

use super::{Domain, PRODUCT_CYCLES, Part, Tiled, doubled};
use crate::block::Rect;
use crate::graph::{BLOCK_COLUMNS, BLOCK_ROWS};
use crate::kernel::KernelClass;
use std::ops::Range;

/// Queries, keys and values of all heads, side by side in one tensor.
#[derive(Clone, Copy, Debug)]
pub struct HeadView {
    pub batch: u32,
    pub heads: u32,
    /// Token blocks of one batch element.
    pub rows: u32,
    /// Column blocks of one head.
    pub columns: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    /// Queries by transposed keys.
    Scores,
    /// Attention weights by values.
    Context,
    /// Both, with a running softmax in between.
    Flash,
}

/// An attention product; every head of every batch element is a stream.
#[derive(Clone, Copy, Debug)]
pub struct HeadProduct {
    pub product: Product,
    pub view: HeadView,
}

impl HeadView {
    pub fn streams(&self) -> u32 {
        self.batch * self.heads
    }

    /// Column blocks of one head's scores: one column for each token.
    pub fn key_columns(&self) -> u32 {
        (self.rows * BLOCK_ROWS).div_ceil(BLOCK_COLUMNS)
    }

    /// Blocks of one head in a tensor that holds `section` others before it.
    #[inline]
    fn head(&self, section: u32, stream: u32, rows: Range<u32>, columns: Range<u32>) -> Rect {
        let (batch, head) = (stream / self.heads, stream % self.heads);
        let column = (section * self.heads + head) * self.columns;
        Rect { rows: shifted(rows, batch * self.rows), columns: shifted(columns, column) }
    }

    /// Blocks of one head's scores; heads lie below each other.
    #[inline]
    fn scores(&self, stream: u32, rows: Range<u32>, columns: Range<u32>) -> Rect {
        Rect { rows: shifted(rows, stream * self.rows), columns }
    }
}

impl Tiled for HeadProduct {
    fn domain(&self) -> Domain {
        let (streams, rows) = (self.view.streams(), self.view.rows);
        let (keys, width) = (self.view.key_columns(), self.view.columns);
        match self.product {
            Product::Scores => Domain { streams, rows, columns: keys, inner: width },
            Product::Context => Domain { streams, rows, columns: width, inner: keys },
            Product::Flash => Domain { streams, rows, columns: 1, inner: keys },
        }
    }

    fn kernel(&self) -> KernelClass {
        match self.product {
            Product::Scores | Product::Context => KernelClass::Product,
            Product::Flash => KernelClass::Flash,
        }
    }

    fn operands(&self) -> usize {
        if self.product == Product::Flash { 3 } else { 2 }
    }

    #[inline]
    fn operand(&self, operand: usize, part: &Part) -> Rect {
        let (view, width) = (&self.view, 0..self.view.columns);
        match (self.product, operand) {
            (Product::Scores, 0) => {
                view.head(0, part.stream, part.rows.clone(), part.inner.clone())
            }
            (Product::Scores, _) => {
                let keys = doubled(&part.columns, view.rows);
                view.head(1, part.stream, keys, part.inner.clone())
            }
            (Product::Context, 0) => {
                view.scores(part.stream, part.rows.clone(), part.inner.clone())
            }
            (Product::Context, _) => {
                let values = doubled(&part.inner, view.rows);
                view.head(2, part.stream, values, part.columns.clone())
            }
            // Queries stay on the tile once the first keys have met them.
            (Product::Flash, 0) if part.continues => Rect::default(),
            (Product::Flash, 0) => view.head(0, part.stream, part.rows.clone(), width),
            (Product::Flash, section) => {
                let keys = doubled(&part.inner, view.rows);
                view.head(section as u32, part.stream, keys, width)
            }
        }
    }

    #[inline]
    fn result(&self, part: &Part) -> Rect {
        match self.product {
            Product::Scores => {
                self.view.scores(part.stream, part.rows.clone(), part.columns.clone())
            }
            Product::Context => {
                self.view.head(0, part.stream, part.rows.clone(), part.columns.clone())
            }
            Product::Flash => {
                self.view.head(0, part.stream, part.rows.clone(), 0..self.view.columns)
            }
        }
    }

    fn result_width(&self) -> u32 {
        if self.product == Product::Flash { self.view.columns } else { 1 }
    }

    #[inline]
    fn operand_rows(&self, rows: u32, columns: u32, inner: u32) -> u32 {
        match self.product {
            Product::Scores => rows + 2 * columns,
            Product::Context => rows + 2 * inner,
            Product::Flash => rows + 4 * inner,
        }
    }

    #[inline]
    fn operand_blocks(&self, rows: u32, columns: u32, inner: u32) -> u32 {
        match self.product {
            Product::Scores | Product::Context => (rows + 2 * columns) * inner,
            Product::Flash => (rows + 4 * inner) * self.view.columns,
        }
    }

    fn block_cycles(&self) -> u64 {
        match self.product {
            Product::Scores | Product::Context => PRODUCT_CYCLES,
            Product::Flash => 2 * PRODUCT_CYCLES * u64::from(self.view.columns) + 72,
        }
    }

    fn keeps_first_operand(&self) -> bool {
        self.product == Product::Flash
    }
}

#[inline]
fn shifted(range: Range<u32>, by: u32) -> Range<u32> {
    range.start + by..range.end + by
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIEW: HeadView = HeadView { batch: 2, heads: 3, rows: 7, columns: 2 };

    fn whole(domain: Domain, stream: u32) -> Part {
        Part {
            stream,
            rows: 0..domain.rows,
            columns: 0..domain.columns,
            inner: 0..domain.inner,
            continues: false,
        }
    }

    #[test]
    fn heads_are_cut_out_of_one_tensor() {
        let scores = HeadProduct { product: Product::Scores, view: VIEW };
        let part = whole(scores.domain(), 4);
        // Stream 4 is head 1 of batch element 1.
        assert_eq!(scores.operand(0, &part), Rect { rows: 7..14, columns: 2..4 });
        assert_eq!(scores.operand(1, &part), Rect { rows: 7..14, columns: 8..10 });
        assert_eq!(scores.result(&part), Rect { rows: 28..35, columns: 0..4 });
    }

    #[test]
    fn results_tile_the_whole_tensor() {
        let context = HeadProduct { product: Product::Context, view: VIEW };
        let domain = context.domain();
        let blocks: u32 =
            (0..domain.streams).map(|s| context.result(&whole(domain, s)).blocks()).sum();
        assert_eq!(blocks, VIEW.batch * VIEW.rows * VIEW.heads * VIEW.columns);
    }
}
