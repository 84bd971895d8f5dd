//! The geometry of a tile's memory.

/// First byte address of tile memory.
pub const SRAM_BASE: u32 = 0x4_c000;
/// Bytes of memory on one tile.
pub const SRAM_BYTES: u32 = 624 * 1024;
/// Two operands in one element cannot be read in the same cycle.
pub const ELEMENT_BYTES: u32 = 16 * 1024;
/// Every allocation starts at a multiple of this.
pub const ALIGNMENT_BYTES: u32 = 32;

/// How a buffer is addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryClass {
    Standard,
    /// Consecutive words alternate between two elements: faster loads.
    Interleaved,
}

#[inline]
pub fn align_up(bytes: u32) -> u32 {
    bytes.next_multiple_of(ALIGNMENT_BYTES)
}

/// The memory element that holds an offset from the start of memory.
#[inline]
pub fn element(offset: u32) -> u32 {
    offset / ELEMENT_BYTES
}
