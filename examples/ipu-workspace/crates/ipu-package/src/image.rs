//! The private memory of one tile: its code and its exchange rows.

use crate::compress::{CorruptStream, compress, decompress};
use ipu_target::Tile;
use sha2::{Digest, Sha256};

/// What a region of an image holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionKind {
    TileCode,
    ExchangeRow,
}

/// A range of an image, in words from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    pub kind: RegionKind,
    pub start: u32,
    pub words: u32,
}

/// One tile's image, compressed, with the hash of its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileImage {
    pub tile: Tile,
    pub physical: u16,
    /// Byte address of the first word.
    pub address: u32,
    /// Uncompressed length.
    pub words: u32,
    pub digest: [u8; 32],
    pub regions: Vec<Region>,
    pub payload: Vec<u8>,
}

impl TileImage {
    /// Compresses and hashes the words of a tile.
    pub fn build(
        tile: Tile,
        physical: u16,
        address: u32,
        regions: Vec<Region>,
        words: &[u32],
    ) -> Self {
        Self {
            tile,
            physical,
            address,
            words: words.len() as u32,
            digest: digest(words),
            regions,
            payload: compress(words),
        }
    }

    /// The words, unpacked; their hash is not checked.
    pub fn unpack(&self) -> Result<Vec<u32>, CorruptStream> {
        decompress(&self.payload, self.words as usize)
    }

    /// Whether the payload unpacks to words of the recorded hash, with every
    /// region inside them.
    pub fn is_intact(&self) -> bool {
        let inside = |region: &Region| {
            region.start.checked_add(region.words).is_some_and(|end| end <= self.words)
        };
        self.regions.iter().all(inside)
            && self.unpack().is_ok_and(|words| digest(&words) == self.digest)
    }
}

fn digest(words: &[u32]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    let mut block = [0u8; 4096];
    for chunk in words.chunks(block.len() / 4) {
        for (bytes, word) in block.as_chunks_mut().0.iter_mut().zip(chunk) {
            *bytes = word.to_le_bytes();
        }
        hasher.update(&block[..chunk.len() * 4]);
    }
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_found() {
        let words: Vec<u32> = (0..3000).collect();
        let region = Region { kind: RegionKind::TileCode, start: 0, words: 3000 };
        let image = TileImage::build(Tile(4), 4, 0x4_c000, vec![region], &words);
        assert!(image.is_intact());
        assert_eq!(image.unpack().unwrap(), words);

        let mut damaged = image.clone();
        damaged.digest[0] ^= 1;
        assert!(!damaged.is_intact());
        let mut misplaced = image;
        misplaced.regions[0].words = 3001;
        assert!(!misplaced.is_intact());
    }
}
