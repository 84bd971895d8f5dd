//! Loop bodies as dependence graphs.

use super::{KernelClass, KernelKey};

/// Each unit starts one operation per cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Loads, stores, addresses.
    Main,
    /// Arithmetic.
    Auxiliary,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    Load,
    Store,
    Accumulate,
    Map(u16),
    Advance,
}

impl Work {
    pub fn unit(self) -> Unit {
        match self {
            Self::Load | Self::Store | Self::Advance => Unit::Main,
            Self::Accumulate | Self::Map(_) => Unit::Auxiliary,
        }
    }

    /// Cycles until the result can be used.
    pub fn latency(self) -> u32 {
        match self {
            Self::Load => 6,
            Self::Store | Self::Advance => 1,
            Self::Accumulate => 4,
            Self::Map(_) => 8,
        }
    }
}

/// `to` must start `latency` cycles after `from` of `distance` iterations ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependence {
    pub from: usize,
    pub to: usize,
    pub latency: u32,
    pub distance: u32,
}

#[derive(Clone, Debug, Default)]
pub struct Body {
    pub work: Vec<Work>,
    pub dependences: Vec<Dependence>,
    /// Dependences by their `to`, as indices.
    incoming: Vec<Vec<usize>>,
    outgoing: Vec<Vec<usize>>,
}

const EXPONENTIAL: u16 = 1;
const SQUARE: u16 = 2;
const SCALE: u16 = 3;
const GELU: u16 = 4;
const CONVERT: u16 = 5;

impl Body {
    /// `unroll` iterations of the inner loop of a kernel.
    pub fn new(key: KernelKey, unroll: usize) -> Self {
        let mut body = Self::default();
        let rows = usize::from(key.rows.clamp(1, 16));
        match key.class {
            KernelClass::Product => body.product(rows, unroll),
            KernelClass::Flash => {
                body.product(rows, unroll);
                body.elementwise(rows, unroll, &[Work::Map(EXPONENTIAL), Work::Accumulate]);
            }
            KernelClass::Normalise => body.elementwise(
                rows,
                unroll,
                &[Work::Map(SQUARE), Work::Accumulate, Work::Map(SCALE)],
            ),
            KernelClass::Softmax => body.elementwise(
                rows,
                unroll,
                &[Work::Map(EXPONENTIAL), Work::Accumulate, Work::Map(SCALE)],
            ),
            KernelClass::Gelu => body.elementwise(rows, unroll, &[Work::Map(GELU)]),
            KernelClass::Add | KernelClass::Reduce => {
                body.elementwise(rows, unroll, &[Work::Accumulate]);
            }
            KernelClass::Store => body.elementwise(rows, unroll, &[Work::Map(CONVERT)]),
            KernelClass::Copy => body.elementwise(rows, unroll, &[]),
        }
        if key.accumulates {
            let sums = body.push(Work::Load);
            body.depend(sums, 0, 1);
        }
        body.index();
        body
    }

    pub fn len(&self) -> usize {
        self.work.len()
    }

    pub fn incoming(&self, node: usize) -> impl Iterator<Item = &Dependence> {
        self.incoming[node].iter().map(|&index| &self.dependences[index])
    }

    pub fn outgoing(&self, node: usize) -> impl Iterator<Item = &Dependence> {
        self.outgoing[node].iter().map(|&index| &self.dependences[index])
    }

    /// Each right operand meets every row; each row has a chain of sums.
    fn product(&mut self, rows: usize, unroll: usize) {
        let advance = self.pointer();
        let mut chains: Vec<Vec<usize>> = vec![Vec::with_capacity(unroll); rows];
        for _ in 0..unroll {
            let right = self.push(Work::Load);
            self.depend(advance, right, 0);
            for chain in &mut chains {
                let left = self.push(Work::Load);
                let sum = self.push(Work::Accumulate);
                self.depend(advance, left, 0);
                self.depend(left, sum, 0);
                self.depend(right, sum, 0);
                if let Some(&before) = chain.last() {
                    self.depend(before, sum, 0);
                }
                chain.push(sum);
            }
        }
        for chain in chains {
            let (first, last) = (chain[0], chain[chain.len() - 1]);
            self.depend(last, first, 1);
        }
    }

    /// Load, a chain of functions, store.
    fn elementwise(&mut self, rows: usize, unroll: usize, chain: &[Work]) {
        let advance = self.pointer();
        for _ in 0..unroll * rows.div_ceil(2) {
            let load = self.push(Work::Load);
            self.depend(advance, load, 0);
            let value = chain.iter().fold(load, |before, &work| {
                let node = self.push(work);
                self.depend(before, node, 0);
                if work == Work::Accumulate {
                    self.depend(node, node, 1);
                }
                node
            });
            let store = self.push(Work::Store);
            self.depend(value, store, 0);
        }
    }

    fn pointer(&mut self) -> usize {
        let advance = self.push(Work::Advance);
        self.depend(advance, advance, 1);
        advance
    }

    fn push(&mut self, work: Work) -> usize {
        self.work.push(work);
        self.work.len() - 1
    }

    fn depend(&mut self, from: usize, to: usize, distance: u32) {
        let latency = self.work[from].latency();
        self.dependences.push(Dependence { from, to, latency, distance });
    }

    fn index(&mut self) {
        self.incoming = vec![Vec::new(); self.work.len()];
        self.outgoing = vec![Vec::new(); self.work.len()];
        for (index, dependence) in self.dependences.iter().enumerate() {
            self.incoming[dependence.to].push(index);
            self.outgoing[dependence.from].push(index);
        }
    }
}
