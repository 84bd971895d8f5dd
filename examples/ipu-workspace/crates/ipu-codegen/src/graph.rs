//! The computation to compile: tensors of matrix blocks and operations on them.

use crate::operator::{Gemm, HeadProduct, HeadView, Operator, Product, RowFunction, Rowwise};

/// Rows of one matrix block.
pub const BLOCK_ROWS: u32 = 8;
/// Columns of one matrix block.
pub const BLOCK_COLUMNS: u32 = 16;
/// Words of one block of half-precision numbers.
pub const BLOCK_WORDS: u32 = BLOCK_ROWS * BLOCK_COLUMNS / 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub u16);

impl ValueId {
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A two-dimensional tensor, its extents in blocks.
#[derive(Clone, Debug)]
pub struct Value {
    pub name: &'static str,
    pub rows: u32,
    pub columns: u32,
}

impl Value {
    pub fn blocks(&self) -> u32 {
        self.rows * self.columns
    }
}

#[derive(Clone, Debug)]
pub struct Operation {
    pub operator: Operator,
    pub inputs: Vec<ValueId>,
    pub result: ValueId,
}

/// Operations in execution order; every value has at most one producer.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    pub values: Vec<Value>,
    pub operations: Vec<Operation>,
}

/// How attention is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttentionForm {
    /// One fused operation that never stores the scores.
    Flash,
    /// Scores, softmax and context as operations of their own.
    Materialized,
}

/// The shape of the attention workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionShape {
    pub batch: u32,
    pub heads: u32,
    pub tokens: u32,
    pub head_width: u32,
    pub blocks: u32,
}

/// The shape of the multi-layer perceptron workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MlpShape {
    pub batch: u32,
    pub tokens: u32,
    pub width: u32,
    pub hidden: u32,
}

impl Graph {
    /// One addition of two host tensors: the smallest whole program.
    pub fn diagnostic(rows: u32, columns: u32) -> Self {
        let mut graph = Self::default();
        let (rows, columns) = (rows.div_ceil(BLOCK_ROWS), columns.div_ceil(BLOCK_COLUMNS));
        let left = graph.value("left", rows, columns);
        let right = graph.value("right", rows, columns);
        graph.rowwise(RowFunction::Add, &[left, right], "output");
        graph
    }

    /// Normalise, project to queries, keys and values, attend, project, add.
    pub fn attention(shape: AttentionShape, form: AttentionForm) -> Self {
        let mut graph = Self::default();
        let view = HeadView {
            batch: shape.batch,
            heads: shape.heads,
            rows: shape.tokens.div_ceil(BLOCK_ROWS),
            columns: shape.head_width.div_ceil(BLOCK_COLUMNS),
        };
        let width = view.heads * view.columns;
        let mut stream = graph.value("tokens", view.batch * view.rows, width);
        for _ in 0..shape.blocks {
            let weights = graph.value("projection.weights", 2 * width, 3 * width);
            let output_weights = graph.value("output.weights", 2 * width, width);
            let normalised = graph.rowwise(RowFunction::Normalise, &[stream], "normalised");
            let heads = graph.gemm(normalised, weights, "queries.keys.values");
            let context = graph.attend(view, form, heads);
            let projected = graph.gemm(context, output_weights, "projected");
            stream = graph.rowwise(RowFunction::Add, &[stream, projected], "stream");
        }
        graph
    }

    /// Dense, GeLU, dense, add.
    pub fn mlp(shape: MlpShape) -> Self {
        let mut graph = Self::default();
        let rows = shape.batch * shape.tokens.div_ceil(BLOCK_ROWS);
        let width = shape.width.div_ceil(BLOCK_COLUMNS);
        let hidden = shape.hidden.div_ceil(BLOCK_COLUMNS);
        let stream = graph.value("tokens", rows, width);
        let expand = graph.value("expand.weights", 2 * width, hidden);
        let contract = graph.value("contract.weights", 2 * hidden, width);
        let wide = graph.gemm(stream, expand, "hidden");
        let active = graph.rowwise(RowFunction::Gelu, &[wide], "active");
        let narrow = graph.gemm(active, contract, "contracted");
        graph.rowwise(RowFunction::Add, &[stream, narrow], "output");
        graph
    }

    /// The operation that makes a value; host tensors have none.
    pub fn producer(&self, value: ValueId) -> Option<usize> {
        self.operations.iter().position(|operation| operation.result == value)
    }

    /// The last operation that reads a value; an unread result lives on.
    pub fn last_use(&self, value: ValueId) -> usize {
        self.operations
            .iter()
            .rposition(|operation| operation.inputs.contains(&value))
            .unwrap_or(self.operations.len())
    }

    fn value(&mut self, name: &'static str, rows: u32, columns: u32) -> ValueId {
        self.values.push(Value { name, rows, columns });
        ValueId((self.values.len() - 1) as u16)
    }

    fn apply(
        &mut self,
        operator: impl Into<Operator>,
        inputs: &[ValueId],
        name: &'static str,
        (rows, columns): (u32, u32),
    ) -> ValueId {
        let result = self.value(name, rows, columns);
        self.operations.push(Operation {
            operator: operator.into(),
            inputs: inputs.to_vec(),
            result,
        });
        result
    }

    fn extents(&self, value: ValueId) -> (u32, u32) {
        let value = &self.values[value.index()];
        (value.rows, value.columns)
    }

    fn rowwise(
        &mut self,
        function: RowFunction,
        inputs: &[ValueId],
        name: &'static str,
    ) -> ValueId {
        let (rows, columns) = self.extents(inputs[0]);
        self.apply(Rowwise { function, rows, columns }, inputs, name, (rows, columns))
    }

    fn gemm(&mut self, left: ValueId, right: ValueId, name: &'static str) -> ValueId {
        let ((rows, inner), (_, columns)) = (self.extents(left), self.extents(right));
        self.apply(Gemm { rows, columns, inner }, &[left, right], name, (rows, columns))
    }

    fn attend(&mut self, view: HeadView, form: AttentionForm, heads: ValueId) -> ValueId {
        let result = (view.batch * view.rows, view.heads * view.columns);
        let product = |product| HeadProduct { product, view };
        match form {
            AttentionForm::Flash => {
                self.apply(product(Product::Flash), &[heads, heads, heads], "context", result)
            }
            AttentionForm::Materialized => {
                let extents = (view.streams() * view.rows, view.key_columns());
                let scores =
                    self.apply(product(Product::Scores), &[heads, heads], "scores", extents);
                let weights = self.rowwise(RowFunction::Softmax, &[scores], "weights");
                self.apply(product(Product::Context), &[weights, heads], "context", result)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: AttentionShape =
        AttentionShape { batch: 2, heads: 3, tokens: 50, head_width: 24, blocks: 2 };

    #[test]
    fn forms_differ_only_in_the_middle() {
        let flash = Graph::attention(SHAPE, AttentionForm::Flash);
        let stored = Graph::attention(SHAPE, AttentionForm::Materialized);
        assert_eq!((flash.operations.len(), stored.operations.len()), (10, 14));
        let last = |graph: &Graph| graph.values.last().map(|value| (value.rows, value.columns));
        assert_eq!(last(&flash), last(&stored));
    }

    #[test]
    fn lifetimes_follow_the_residual_stream() {
        let graph = Graph::attention(SHAPE, AttentionForm::Flash);
        let tokens = ValueId(0);
        assert_eq!(graph.producer(tokens), None);
        assert_eq!(graph.last_use(tokens), 4);
        let output = graph.operations[9].result;
        assert_eq!((graph.producer(output), graph.last_use(output)), (Some(9), 10));
    }
}
