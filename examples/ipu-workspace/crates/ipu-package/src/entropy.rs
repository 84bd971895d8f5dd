//! A binary range coder with adaptive models.
//!
//! Each binary decision is coded with the probability that its model has
//! learnt so far; coder and decoder learn the same, so no table is stored.

const PROBABILITY_BITS: u32 = 11;
const EVEN: u16 = 1 << (PROBABILITY_BITS - 1);
/// How much of the error a probability moves by.
const ADAPTATION_SHIFT: u32 = 5;
/// The range is widened when it gets shorter than this.
const SHORTEST_RANGE: u32 = 1 << 24;

/// The probabilities of the eight decisions that make up a byte.
#[derive(Clone, Debug)]
pub struct ByteModel {
    zero: [u16; 256],
}

impl Default for ByteModel {
    fn default() -> Self {
        Self { zero: [EVEN; 256] }
    }
}

#[inline]
fn learn(probability: &mut u16, bit: bool) {
    if bit {
        *probability -= *probability >> ADAPTATION_SHIFT;
    } else {
        *probability += ((1 << PROBABILITY_BITS) - *probability) >> ADAPTATION_SHIFT;
    }
}

#[derive(Debug)]
pub struct Encoder {
    low: u64,
    range: u32,
    /// The last byte and the all-ones bytes behind it wait for a carry.
    pending: u8,
    pending_ones: usize,
    started: bool,
    output: Vec<u8>,
}

impl Encoder {
    pub fn with_capacity(bytes: usize) -> Self {
        Self {
            low: 0,
            range: u32::MAX,
            pending: 0,
            pending_ones: 0,
            started: false,
            output: Vec::with_capacity(bytes),
        }
    }

    pub fn byte(&mut self, model: &mut ByteModel, byte: u8) {
        let mut node = 1;
        for shift in (0..8).rev() {
            let bit = byte >> shift & 1 == 1;
            self.bit(&mut model.zero[node], bit);
            node = node << 1 | usize::from(bit);
        }
    }

    #[inline]
    fn bit(&mut self, probability: &mut u16, bit: bool) {
        let split = (self.range >> PROBABILITY_BITS) * u32::from(*probability);
        if bit {
            self.low += u64::from(split);
            self.range -= split;
        } else {
            self.range = split;
        }
        learn(probability, bit);
        while self.range < SHORTEST_RANGE {
            self.range <<= 8;
            self.shift();
        }
    }

    /// Moves the top byte of `low` to the output, once no carry can reach it.
    fn shift(&mut self) {
        let carry = (self.low >> 32) as u8;
        let top = (self.low >> 24) as u8;
        if top != u8::MAX || carry == 1 {
            if self.started {
                self.output.push(self.pending.wrapping_add(carry));
            }
            let ones = std::mem::take(&mut self.pending_ones);
            self.output.extend(std::iter::repeat_n(u8::MAX.wrapping_add(carry), ones));
            self.pending = top;
            self.started = true;
        } else {
            self.pending_ones += 1;
        }
        self.low = (self.low & 0x00ff_ffff) << 8;
    }

    pub fn finish(mut self) -> Vec<u8> {
        (0..5).for_each(|_| self.shift());
        self.output
    }
}

#[derive(Debug)]
pub struct Decoder<'a> {
    code: u32,
    range: u32,
    input: &'a [u8],
}

impl<'a> Decoder<'a> {
    pub fn new(input: &'a [u8]) -> Self {
        let mut decoder = Self { code: 0, range: u32::MAX, input };
        (0..4).for_each(|_| decoder.code = decoder.code << 8 | decoder.next());
        decoder
    }

    /// Past the end there are zeros; a damaged stream decodes to nonsense that
    /// the hash of the words gives away.
    #[inline]
    fn next(&mut self) -> u32 {
        let Some((&byte, rest)) = self.input.split_first() else { return 0 };
        self.input = rest;
        u32::from(byte)
    }

    pub fn byte(&mut self, model: &mut ByteModel) -> u8 {
        let mut node = 1;
        for _ in 0..8 {
            let bit = self.bit(&mut model.zero[node]);
            node = node << 1 | usize::from(bit);
        }
        node as u8
    }

    #[inline]
    fn bit(&mut self, probability: &mut u16) -> bool {
        let split = (self.range >> PROBABILITY_BITS) * u32::from(*probability);
        let bit = self.code >= split;
        if bit {
            self.code -= split;
            self.range -= split;
        } else {
            self.range = split;
        }
        learn(probability, bit);
        while self.range < SHORTEST_RANGE {
            self.range <<= 8;
            self.code = self.code << 8 | self.next();
        }
        bit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(bytes: &[u8]) -> usize {
        let (mut encoder, mut model) = (Encoder::with_capacity(16), ByteModel::default());
        bytes.iter().for_each(|&byte| encoder.byte(&mut model, byte));
        let coded = encoder.finish();
        let (mut decoder, mut model) = (Decoder::new(&coded), ByteModel::default());
        let decoded: Vec<u8> = bytes.iter().map(|_| decoder.byte(&mut model)).collect();
        assert_eq!(decoded, bytes);
        coded.len()
    }

    #[test]
    fn bytes_survive() {
        round_trip(b"");
        round_trip(&[0xff; 300]);
        let mixed: Vec<u8> = (0..9000u32).map(|n| (n.wrapping_mul(n) >> 5) as u8).collect();
        round_trip(&mixed);
    }

    #[test]
    fn frequent_bytes_become_short() {
        let skewed: Vec<u8> = (0..4000).map(|n| u8::from(n % 50 == 0) * 7).collect();
        assert!(round_trip(&skewed) < 400);
    }
}
