//! What the compiler knows about the machine: tiles, memory, instructions and
//! exchange rows.
//!
//! The encodings are this stand-in's own. They have the shape of a tile
//! processor's (fixed 32-bit words, small immediates, rows of timed sends and
//! receives) but no real device understands them.

pub mod exchange;
pub mod instruction;
pub mod memory;
pub mod topology;

pub use exchange::{RowOperation, RowSummary};
pub use instruction::{Instruction, Register};
pub use memory::MemoryClass;
pub use topology::{Tile, Topology, TopologyError};
