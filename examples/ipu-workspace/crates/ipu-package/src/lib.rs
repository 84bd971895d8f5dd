//! The `.ipuexe` package: one program image for every tile.
//!
//! The format is this stand-in's own (see [`format`]); its bytes depend on the
//! program alone, never on threads, time or machine.

pub mod compress;
mod entropy;
pub mod format;
pub mod image;

pub use compress::{CorruptStream, compress, decompress};
pub use format::{Application, PackageError, Symbol};
pub use image::{Region, RegionKind, TileImage};
