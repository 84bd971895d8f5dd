//! Planning: candidates for every operation, then a beam search for the best
//! combination.

mod beam;
mod candidate;
mod cuts;
mod scheme;

pub use beam::{Finalist, search};
pub use candidate::{Candidate, Planned};
pub use scheme::{Place, Round, Scheme};

#[cfg(test)]
pub use scheme::{Grid, Order, Tiling};
