//! Lossless compression of instruction words.
//!
//! Three steps. A filter replaces the low 24 bits of each word by their
//! difference to the last word with the same top byte: the addresses of a tile
//! program advance by strides, so the differences repeat. A dictionary coder
//! replaces repeats by (length, distance) pairs. Lengths, distances and the
//! remaining words go through an entropy coder.

use crate::entropy::{ByteModel, Decoder, Encoder};
use std::fmt;

const LOW_BITS: u32 = 24;
const LOW_MASK: u32 = (1 << LOW_BITS) - 1;
const HASH_BITS: u32 = 12;
const MINIMUM_MATCH: usize = 2;
const MAXIMUM_CHAIN: usize = 12;
/// A match this long is taken without looking for a longer one.
const GOOD_MATCH: usize = 96;
const NOWHERE: u32 = u32::MAX;
/// Numbers of this many 7-bit groups hold every length and distance.
const MAXIMUM_GROUPS: usize = 5;

/// The stream refers to words that it does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CorruptStream;

impl fmt::Display for CorruptStream {
    fn fmt(&self, output: &mut fmt::Formatter<'_>) -> fmt::Result {
        output.write_str("compressed image is corrupt")
    }
}

impl std::error::Error for CorruptStream {}

/// Compresses words into bytes.
pub fn compress(words: &[u32]) -> Vec<u8> {
    let filtered = filter(words);
    let mut finder = MatchFinder::new(filtered.len());
    let mut writer = TokenWriter::new(words.len());
    let (mut position, mut literals) = (0, 0);
    while position < filtered.len() {
        match finder.longest(&filtered, position) {
            Some(found) => {
                writer.literals(&filtered[literals..position]);
                writer.number(Number::MatchLength, found.length);
                writer.number(Number::Distance, found.distance);
                (position..position + found.length).for_each(|at| finder.insert(&filtered, at));
                position += found.length;
                literals = position;
            }
            None => {
                finder.insert(&filtered, position);
                position += 1;
            }
        }
    }
    writer.literals(&filtered[literals..]);
    writer.encoder.finish()
}

/// Restores `count` words.
pub fn decompress(bytes: &[u8], count: usize) -> Result<Vec<u32>, CorruptStream> {
    let mut reader = TokenReader::new(bytes);
    let mut words = Vec::with_capacity(count);
    loop {
        let literals = reader.number(Number::Literals)?;
        if literals > count - words.len() {
            return Err(CorruptStream);
        }
        words.extend((0..literals).map(|_| reader.word()));
        if words.len() == count {
            break;
        }
        let length = reader.number(Number::MatchLength)?;
        let distance = reader.number(Number::Distance)?;
        if distance == 0 || distance > words.len() || length == 0 || length > count - words.len() {
            return Err(CorruptStream);
        }
        let start = words.len() - distance;
        // Source and target may overlap: the copy goes word by word.
        (start..start + length).for_each(|at| words.push(words[at]));
    }
    unfilter(&mut words);
    Ok(words)
}

fn filter(words: &[u32]) -> Vec<u32> {
    let mut last = [0u32; 256];
    words
        .iter()
        .map(|&word| {
            let slot = &mut last[(word >> LOW_BITS) as usize];
            let delta = word.wrapping_sub(*slot) & LOW_MASK;
            *slot = word;
            word & !LOW_MASK | delta
        })
        .collect()
}

fn unfilter(words: &mut [u32]) {
    let mut last = [0u32; 256];
    for word in words {
        let slot = &mut last[(*word >> LOW_BITS) as usize];
        *word = *word & !LOW_MASK | slot.wrapping_add(*word) & LOW_MASK;
        *slot = *word;
    }
}

struct Match {
    length: usize,
    distance: usize,
}

/// Hash chains over pairs of words.
struct MatchFinder {
    heads: Vec<u32>,
    previous: Vec<u32>,
}

impl MatchFinder {
    fn new(words: usize) -> Self {
        Self { heads: vec![NOWHERE; 1 << HASH_BITS], previous: vec![NOWHERE; words] }
    }

    #[inline]
    fn bucket(words: &[u32], position: usize) -> Option<usize> {
        let &[first, second] = words.get(position..)?.first_chunk::<MINIMUM_MATCH>()?;
        let mixed = first.wrapping_mul(0x9e37_79b1) ^ second.wrapping_mul(0x85eb_ca77);
        Some((mixed >> (32 - HASH_BITS)) as usize)
    }

    #[inline]
    fn insert(&mut self, words: &[u32], position: usize) {
        if let Some(bucket) = Self::bucket(words, position) {
            self.previous[position] = self.heads[bucket];
            self.heads[bucket] = position as u32;
        }
    }

    fn longest(&self, words: &[u32], position: usize) -> Option<Match> {
        let bucket = Self::bucket(words, position)?;
        let mut best = Match { length: MINIMUM_MATCH - 1, distance: 0 };
        let mut candidate = self.heads[bucket];
        for _ in 0..MAXIMUM_CHAIN {
            if candidate == NOWHERE || best.length >= GOOD_MATCH {
                break;
            }
            let start = candidate as usize;
            let length = common_prefix(&words[start..], &words[position..]);
            if length > best.length {
                best = Match { length, distance: position - start };
            }
            candidate = self.previous[start];
        }
        (best.distance > 0).then_some(best)
    }
}

#[inline]
fn common_prefix(left: &[u32], right: &[u32]) -> usize {
    left.iter().zip(right).take_while(|(a, b)| a == b).count()
}

#[derive(Clone, Copy)]
enum Number {
    Literals,
    MatchLength,
    Distance,
}

/// What the coder has learnt about each kind of byte.
struct Models {
    /// By kind of number and group.
    numbers: Vec<ByteModel>,
    /// The top byte of a word, by the opcode of the word before.
    tops: Vec<ByteModel>,
    /// The other bytes, by place and opcode.
    rests: Vec<ByteModel>,
    opcode: usize,
}

impl Models {
    fn new() -> Self {
        Self {
            numbers: vec![ByteModel::default(); 3 * MAXIMUM_GROUPS],
            tops: vec![ByteModel::default(); 16],
            rests: vec![ByteModel::default(); 3 * 16],
            opcode: 0,
        }
    }

    #[inline]
    fn number(&mut self, kind: Number, group: usize) -> &mut ByteModel {
        &mut self.numbers[kind as usize * MAXIMUM_GROUPS + group]
    }

    #[inline]
    fn top(&mut self) -> &mut ByteModel {
        &mut self.tops[self.opcode]
    }

    #[inline]
    fn rest(&mut self, place: usize) -> &mut ByteModel {
        &mut self.rests[place * 16 + self.opcode]
    }

    /// Rows keep their opcode in the top four bits, code in the top eight.
    #[inline]
    fn learn_top(&mut self, top: u8) {
        self.opcode = usize::from(if top < 16 { top & 0x7 } else { top >> 4 | 8 });
    }
}

struct TokenWriter {
    encoder: Encoder,
    models: Models,
}

impl TokenWriter {
    fn new(words: usize) -> Self {
        Self { encoder: Encoder::with_capacity(words), models: Models::new() }
    }

    fn literals(&mut self, words: &[u32]) {
        self.number(Number::Literals, words.len());
        words.iter().for_each(|&word| self.word(word));
    }

    fn word(&mut self, word: u32) {
        let [top, rest @ ..] = word.to_be_bytes();
        self.encoder.byte(self.models.top(), top);
        self.models.learn_top(top);
        for (place, byte) in rest.into_iter().enumerate() {
            self.encoder.byte(self.models.rest(place), byte);
        }
    }

    fn number(&mut self, kind: Number, value: usize) {
        let mut rest = value;
        for group in 0..MAXIMUM_GROUPS {
            let more = rest >= 0x80;
            let byte = (rest & 0x7f) as u8 | u8::from(more) << 7;
            self.encoder.byte(self.models.number(kind, group), byte);
            rest >>= 7;
            if !more {
                break;
            }
        }
    }
}

struct TokenReader<'a> {
    decoder: Decoder<'a>,
    models: Models,
}

impl<'a> TokenReader<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { decoder: Decoder::new(bytes), models: Models::new() }
    }

    fn word(&mut self) -> u32 {
        let top = self.decoder.byte(self.models.top());
        self.models.learn_top(top);
        (0..3).fold(u32::from(top), |word, place| {
            word << 8 | u32::from(self.decoder.byte(self.models.rest(place)))
        })
    }

    fn number(&mut self, kind: Number) -> Result<usize, CorruptStream> {
        let mut value = 0;
        for group in 0..MAXIMUM_GROUPS {
            let byte = self.decoder.byte(self.models.number(kind, group));
            value |= usize::from(byte & 0x7f) << (7 * group);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(CorruptStream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(words: &[u32]) -> usize {
        let packed = compress(words);
        assert_eq!(decompress(&packed, words.len()).as_deref(), Ok(words));
        packed.len()
    }

    #[test]
    fn words_survive() {
        round_trip(&[]);
        round_trip(&[7]);
        round_trip(&[1, 1, 1, 1, 1, 1]);
        let mixed: Vec<u32> = (0..5000u32).map(|n| n.wrapping_mul(0x0801_0203) ^ n >> 3).collect();
        round_trip(&mixed);
    }

    #[test]
    fn strides_are_cheap() {
        let strided: Vec<u32> = (0..4096).map(|n| 0x0400_0000 + n * 24).collect();
        assert!(round_trip(&strided) < 64);
    }

    #[test]
    fn damaged_streams_never_give_the_words() {
        let words: Vec<u32> = (0..500u32).map(|n| 0x1000_0000 + n * n).collect();
        let mut packed = compress(&words);
        let middle = packed.len() / 2;
        packed[middle] ^= 0x55;
        assert_ne!(decompress(&packed, words.len()).as_deref(), Ok(words.as_slice()));
        assert_ne!(decompress(&[], words.len()).as_deref(), Ok(words.as_slice()));
    }
}
