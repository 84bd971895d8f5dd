//! Tile instructions and their 32-bit encoding.

/// One of sixteen registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Register(pub u8);

impl Register {
    pub const COUNT: u8 = 16;
}

/// An instruction; code addresses are in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// `register = value`
    SetImmediate {
        register: Register,
        value: u16,
    },
    /// `register |= value << 16`
    OrUpper {
        register: Register,
        value: u16,
    },
    /// `destination = source + value`
    AddImmediate {
        destination: Register,
        source: Register,
        value: i16,
    },
    /// Start the six workers of the tile on a kernel.
    Run {
        entry: u32,
    },
    /// Walk an exchange row.
    Exchange {
        row: u32,
    },
    /// Wait for every active tile.
    Sync {
        zone: u8,
    },
    /// Decrement and branch back while not zero.
    LoopEnd {
        counter: Register,
        words: u16,
    },
    Load {
        destination: Register,
        base: Register,
        offset: u16,
    },
    Store {
        source: Register,
        base: Register,
        offset: u16,
    },
    /// Multiply a 16-wide block row into the accumulators.
    Accumulate {
        left: Register,
        right: Register,
        accumulator: u16,
    },
    /// An element-wise function, selected by `function`.
    Map {
        destination: Register,
        source: Register,
        function: u16,
    },
    Nop,
    Halt,
}

const ADDRESS_BITS: u32 = 24;
const ADDRESS_MASK: u32 = (1 << ADDRESS_BITS) - 1;

impl Instruction {
    /// The word: opcode in the top byte, two registers, a 16-bit immediate.
    #[inline]
    pub fn encode(self) -> u32 {
        match self {
            Self::Nop => 0,
            Self::SetImmediate { register, value } => word(0x01, register.0, 0, value),
            Self::OrUpper { register, value } => word(0x02, register.0, 0, value),
            Self::AddImmediate { destination, source, value } => {
                word(0x03, destination.0, source.0, value as u16)
            }
            Self::Run { entry } => 0x04 << ADDRESS_BITS | entry & ADDRESS_MASK,
            Self::Exchange { row } => 0x05 << ADDRESS_BITS | row & ADDRESS_MASK,
            Self::Sync { zone } => word(0x06, 0, 0, u16::from(zone)),
            Self::LoopEnd { counter, words } => word(0x07, counter.0, 0, words),
            Self::Load { destination, base, offset } => word(0x08, destination.0, base.0, offset),
            Self::Store { source, base, offset } => word(0x09, source.0, base.0, offset),
            Self::Accumulate { left, right, accumulator } => {
                word(0x0a, left.0, right.0, accumulator)
            }
            Self::Map { destination, source, function } => {
                word(0x0b, destination.0, source.0, function)
            }
            Self::Halt => word(0x0c, 0, 0, 0),
        }
    }

    /// The inverse of [`Instruction::encode`]; `None` for an unknown opcode.
    pub fn decode(word: u32) -> Option<Self> {
        let first = Register((word >> 20 & 0xf) as u8);
        let second = Register((word >> 16 & 0xf) as u8);
        let value = word as u16;
        Some(match word >> ADDRESS_BITS {
            0x00 => Self::Nop,
            0x01 => Self::SetImmediate { register: first, value },
            0x02 => Self::OrUpper { register: first, value },
            0x03 => Self::AddImmediate { destination: first, source: second, value: value as i16 },
            0x04 => Self::Run { entry: word & ADDRESS_MASK },
            0x05 => Self::Exchange { row: word & ADDRESS_MASK },
            0x06 => Self::Sync { zone: value as u8 },
            0x07 => Self::LoopEnd { counter: first, words: value },
            0x08 => Self::Load { destination: first, base: second, offset: value },
            0x09 => Self::Store { source: first, base: second, offset: value },
            0x0a => Self::Accumulate { left: first, right: second, accumulator: value },
            0x0b => Self::Map { destination: first, source: second, function: value },
            0x0c => Self::Halt,
            _ => return None,
        })
    }
}

#[inline]
fn word(opcode: u32, first: u8, second: u8, immediate: u16) -> u32 {
    opcode << ADDRESS_BITS
        | u32::from(first & 0xf) << 20
        | u32::from(second & 0xf) << 16
        | u32::from(immediate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instruction_survives_encoding() {
        let (a, b) = (Register(3), Register(12));
        for instruction in [
            Instruction::Nop,
            Instruction::SetImmediate { register: a, value: 0xbeef },
            Instruction::OrUpper { register: b, value: 4 },
            Instruction::AddImmediate { destination: a, source: b, value: -7 },
            Instruction::Run { entry: 0x13_0001 },
            Instruction::Exchange { row: 0x1_3fff },
            Instruction::Sync { zone: 1 },
            Instruction::LoopEnd { counter: a, words: 99 },
            Instruction::Load { destination: a, base: b, offset: 8 },
            Instruction::Store { source: a, base: b, offset: 8 },
            Instruction::Accumulate { left: a, right: b, accumulator: 5 },
            Instruction::Map { destination: a, source: b, function: 2 },
            Instruction::Halt,
        ] {
            assert_eq!(Instruction::decode(instruction.encode()), Some(instruction));
        }
        assert_eq!(Instruction::decode(0xff00_0000), None);
    }
}
