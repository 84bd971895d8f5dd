//! Exchange rows: what one tile sends and receives in one exchange phase.
//!
//! A row is `Sync`, the send stream, `Return`, the receive stream, `Return`. A
//! tile walks both streams at the same time from the common start.

use crate::memory::SRAM_BASE;
use crate::topology::Tile;

/// Longest run of words that one operation moves.
pub const MAX_TRANSFER_WORDS: u32 = 1023;
const MAX_DELAY_CYCLES: u32 = (1 << 28) - 1;

/// A step of a row; addresses are bytes of tile memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOperation {
    Send {
        address: u32,
        words: u32,
    },
    /// Listen to another tile from now on.
    Select {
        source: Tile,
    },
    Receive {
        address: u32,
        words: u32,
    },
    Delay {
        cycles: u32,
    },
    /// The common start of the phase.
    Sync,
    Return,
}

impl RowOperation {
    /// The word: a 4-bit opcode; 18 bits of word address and 10 of length.
    #[inline]
    pub fn encode(self) -> u32 {
        match self {
            Self::Send { address, words } => span(1, address, words),
            Self::Select { source } => 2 << 28 | u32::from(source.0),
            Self::Receive { address, words } => span(3, address, words),
            Self::Delay { cycles } => 4 << 28 | cycles.min(MAX_DELAY_CYCLES),
            Self::Sync => 5 << 28,
            Self::Return => 6 << 28,
        }
    }

    /// The inverse of [`RowOperation::encode`]; `None` for an unknown opcode.
    #[inline]
    pub fn decode(word: u32) -> Option<Self> {
        let words = word & MAX_TRANSFER_WORDS;
        let address = SRAM_BASE + (word >> 10 & 0x3_ffff) * 4;
        Some(match word >> 28 {
            1 => Self::Send { address, words },
            2 => Self::Select { source: Tile(word as u16) },
            3 => Self::Receive { address, words },
            4 => Self::Delay { cycles: word & MAX_DELAY_CYCLES },
            5 => Self::Sync,
            6 => Self::Return,
            _ => return None,
        })
    }

    /// Cycles that the operation keeps the row busy.
    #[inline]
    pub fn cycles(self) -> u32 {
        match self {
            Self::Send { words, .. } | Self::Receive { words, .. } => words,
            Self::Delay { cycles } => cycles,
            _ => 1,
        }
    }
}

#[inline]
fn span(opcode: u32, address: u32, words: u32) -> u32 {
    debug_assert!(words <= MAX_TRANSFER_WORDS && address >= SRAM_BASE);
    (opcode << 28) | ((((address - SRAM_BASE) / 4) & 0x3_ffff) << 10) | words
}

/// How often each kind of operation occurs in encoded rows, and how many cycles
/// the longest stream takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowSummary {
    pub send: u64,
    pub select: u64,
    pub receive: u64,
    pub delay: u64,
    pub unknown: u64,
    pub cycles: u64,
}

impl RowSummary {
    /// Counts one encoded row.
    pub fn of(words: impl IntoIterator<Item = u32>) -> Self {
        let mut summary = Self::default();
        let mut stream_cycles = 0;
        for word in words {
            match RowOperation::decode(word) {
                Some(RowOperation::Return) => {
                    summary.cycles = summary.cycles.max(stream_cycles);
                    stream_cycles = 0;
                }
                Some(operation) => {
                    stream_cycles += u64::from(operation.cycles());
                    summary.count(operation);
                }
                None => summary.unknown += 1,
            }
        }
        summary
    }

    fn count(&mut self, operation: RowOperation) {
        match operation {
            RowOperation::Send { .. } => self.send += 1,
            RowOperation::Select { .. } => self.select += 1,
            RowOperation::Receive { .. } => self.receive += 1,
            RowOperation::Delay { .. } => self.delay += 1,
            RowOperation::Sync | RowOperation::Return => {}
        }
    }

    /// Sums the counts; the longer row decides the cycles.
    pub fn merge(self, other: Self) -> Self {
        Self {
            send: self.send + other.send,
            select: self.select + other.select,
            receive: self.receive + other.receive,
            delay: self.delay + other.delay,
            unknown: self.unknown + other.unknown,
            cycles: self.cycles.max(other.cycles),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::SRAM_BYTES;

    #[test]
    fn every_operation_survives_encoding() {
        for operation in [
            RowOperation::Sync,
            RowOperation::Send { address: SRAM_BASE + SRAM_BYTES - 4, words: 1023 },
            RowOperation::Select { source: Tile(1471) },
            RowOperation::Receive { address: SRAM_BASE, words: 1 },
            RowOperation::Delay { cycles: 70_000 },
            RowOperation::Return,
        ] {
            assert_eq!(RowOperation::decode(operation.encode()), Some(operation));
        }
    }

    #[test]
    fn a_summary_counts_kinds_and_the_longer_stream() {
        let row = [
            RowOperation::Sync.encode(),
            RowOperation::Send { address: SRAM_BASE, words: 10 }.encode(),
            RowOperation::Return.encode(),
            RowOperation::Delay { cycles: 25 }.encode(),
            RowOperation::Receive { address: SRAM_BASE, words: 4 }.encode(),
            RowOperation::Return.encode(),
            0xf000_0000,
        ];
        let summary = RowSummary::of(row);
        assert_eq!((summary.send, summary.delay, summary.unknown), (1, 1, 1));
        assert_eq!(summary.cycles, 25 + 4);
    }
}
