//! Plans a computation, lowers it to steps, and builds the package.
//!
//! [`build_package`] is the contents page: one line for each phase. Its output
//! is the same for every number of threads: parallel parts keep their order,
//! comparisons have no ties, and all arithmetic is on whole numbers.

mod block;
mod config;
mod cost;
mod error;
mod exchange;
mod graph;
mod kernel;
mod low;
mod operator;
mod package;
mod phase;
mod plan;
mod select;
mod storage;
mod tile;

pub use config::{AttentionProducts, AttentionStrategy, CompilerConfig};
pub use error::CompileError;
pub use graph::{AttentionShape, MlpShape};
pub use package::{Workload, build_package};
