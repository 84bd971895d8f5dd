//! The bytes of a package.
//!
//! All numbers are little-endian; a *string* is a `u32` length and UTF-8.
//!
//! | field | type |
//! |---|---|
//! | magic | `IPUSTND1` |
//! | name of the workload | string |
//! | common words: runtime and kernels, the same on all tiles | `u32` count, words |
//! | symbols: address, name | `u32` count, each `u32` and string |
//! | tiles | `u32` count, each as below |
//! | SHA-256 of all bytes before | 32 bytes |
//!
//! A tile: logical number `u16`, physical number `u16`, address `u32`, words
//! `u32`, SHA-256 of its words, regions (`u32` count, each kind, start and
//! words as `u32`), payload (`u32` length and bytes, see [`crate::compress`]).

use crate::image::{Region, RegionKind, TileImage};
use ipu_target::Tile;
use rayon::prelude::*;
use sha2::{Digest, Sha256};
use std::fmt;
use std::io::{self, Read, Write};

const MAGIC: [u8; 8] = *b"IPUSTND1";
const DIGEST_BYTES: usize = 32;

/// An entry point in the common words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    pub address: u32,
    pub name: String,
}

/// A whole program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Application {
    pub name: String,
    pub common: Vec<u32>,
    pub symbols: Vec<Symbol>,
    pub tiles: Vec<TileImage>,
}

#[derive(Debug)]
pub enum PackageError {
    Io(io::Error),
    BadMagic([u8; 8]),
    Truncated,
    Checksum,
    DamagedTile(Tile),
    UnknownRegion(u32),
}

impl fmt::Display for PackageError {
    fn fmt(&self, output: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(output),
            Self::BadMagic(found) => write!(
                output,
                "not a package: expected {:?}, found {:?}",
                String::from_utf8_lossy(&MAGIC),
                String::from_utf8_lossy(found)
            ),
            Self::Truncated => output.write_str("package ends early"),
            Self::Checksum => output.write_str("package checksum does not match"),
            Self::DamagedTile(tile) => write!(output, "image of tile {} is damaged", tile.0),
            Self::UnknownRegion(kind) => write!(output, "unknown region kind {kind}"),
        }
    }
}

impl std::error::Error for PackageError {}

impl From<io::Error> for PackageError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Application {
    /// Writes the package.
    pub fn write(&self, mut output: impl Write) -> Result<(), PackageError> {
        let mut bytes = Vec::with_capacity(self.payload_bytes() + (1 << 16));
        bytes.extend(MAGIC);
        put_bytes(&mut bytes, self.name.as_bytes());
        put_u32(&mut bytes, self.common.len() as u32);
        self.common.iter().for_each(|&word| put_u32(&mut bytes, word));
        put_u32(&mut bytes, self.symbols.len() as u32);
        for symbol in &self.symbols {
            put_u32(&mut bytes, symbol.address);
            put_bytes(&mut bytes, symbol.name.as_bytes());
        }
        put_u32(&mut bytes, self.tiles.len() as u32);
        self.tiles.iter().for_each(|tile| put_tile(&mut bytes, tile));
        let digest = Sha256::digest(&bytes);
        output.write_all(&bytes)?;
        output.write_all(&digest)?;
        output.flush()?;
        Ok(())
    }

    /// Reads a package and checks its structure and checksum.
    pub fn read(mut input: impl Read) -> Result<Self, PackageError> {
        let mut bytes = Vec::new();
        input.read_to_end(&mut bytes)?;
        let magic = *bytes.first_chunk().ok_or(PackageError::Truncated)?;
        if magic != MAGIC {
            return Err(PackageError::BadMagic(magic));
        }
        let (body, digest) =
            bytes.split_last_chunk::<DIGEST_BYTES>().ok_or(PackageError::Truncated)?;
        if Sha256::digest(body)[..] != digest[..] {
            return Err(PackageError::Checksum);
        }
        let mut cursor = Cursor { bytes: &body[MAGIC.len()..] };
        let application = Self {
            name: cursor.string()?,
            common: cursor.list(Cursor::u32)?,
            symbols: cursor
                .list(|cursor| Ok(Symbol { address: cursor.u32()?, name: cursor.string()? }))?,
            tiles: cursor.list(Cursor::tile)?,
        };
        if cursor.bytes.is_empty() { Ok(application) } else { Err(PackageError::Truncated) }
    }

    /// Unpacks and hashes every tile's image.
    pub fn validate(&self) -> Result<(), PackageError> {
        self.tiles.par_iter().try_for_each(|image| {
            image.is_intact().then_some(()).ok_or(PackageError::DamagedTile(image.tile))
        })
    }

    pub fn payload_bytes(&self) -> usize {
        self.tiles.iter().map(|tile| tile.payload.len()).sum()
    }
}

fn put_tile(bytes: &mut Vec<u8>, image: &TileImage) {
    bytes.extend(image.tile.0.to_le_bytes());
    bytes.extend(image.physical.to_le_bytes());
    put_u32(bytes, image.address);
    put_u32(bytes, image.words);
    bytes.extend(image.digest);
    put_u32(bytes, image.regions.len() as u32);
    for region in &image.regions {
        put_u32(
            bytes,
            match region.kind {
                RegionKind::TileCode => 0,
                RegionKind::ExchangeRow => 1,
            },
        );
        put_u32(bytes, region.start);
        put_u32(bytes, region.words);
    }
    put_bytes(bytes, &image.payload);
}

#[inline]
fn put_u32(bytes: &mut Vec<u8>, value: u32) {
    bytes.extend(value.to_le_bytes());
}

fn put_bytes(bytes: &mut Vec<u8>, value: &[u8]) {
    put_u32(bytes, value.len() as u32);
    bytes.extend(value);
}

struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], PackageError> {
        let (head, tail) = self.bytes.split_at_checked(count).ok_or(PackageError::Truncated)?;
        self.bytes = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], PackageError> {
        let (head, tail) = self.bytes.split_first_chunk().ok_or(PackageError::Truncated)?;
        self.bytes = tail;
        Ok(*head)
    }

    fn u16(&mut self) -> Result<u16, PackageError> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, PackageError> {
        self.array().map(u32::from_le_bytes)
    }

    fn string(&mut self) -> Result<String, PackageError> {
        let length = self.u32()? as usize;
        Ok(String::from_utf8_lossy(self.take(length)?).into_owned())
    }

    /// A count and that many entries.
    fn list<T>(
        &mut self,
        mut entry: impl FnMut(&mut Self) -> Result<T, PackageError>,
    ) -> Result<Vec<T>, PackageError> {
        (0..self.u32()?).map(|_| entry(self)).collect()
    }

    fn region(&mut self) -> Result<Region, PackageError> {
        let kind = match self.u32()? {
            0 => RegionKind::TileCode,
            1 => RegionKind::ExchangeRow,
            other => return Err(PackageError::UnknownRegion(other)),
        };
        Ok(Region { kind, start: self.u32()?, words: self.u32()? })
    }

    fn tile(&mut self) -> Result<TileImage, PackageError> {
        Ok(TileImage {
            tile: Tile(self.u16()?),
            physical: self.u16()?,
            address: self.u32()?,
            words: self.u32()?,
            digest: self.array()?,
            regions: self.list(Self::region)?,
            payload: {
                let length = self.u32()? as usize;
                self.take(length)?.to_vec()
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Application {
        let words: Vec<u32> = (0..64).map(|n| 0x0100_0000 + n).collect();
        let regions = vec![Region { kind: RegionKind::ExchangeRow, start: 8, words: 4 }];
        Application {
            name: "sample".into(),
            common: vec![1, 2, 3],
            symbols: vec![Symbol { address: 0x4_c000, name: "run".into() }],
            tiles: vec![TileImage::build(Tile(1), 23, 0x5_0000, regions, &words)],
        }
    }

    fn bytes_of(application: &Application) -> Vec<u8> {
        let mut bytes = Vec::new();
        application.write(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_package_survives_writing_and_reading() {
        let application = sample();
        let read = Application::read(&bytes_of(&application)[..]).unwrap();
        assert_eq!(read, application);
        read.validate().unwrap();
    }

    #[test]
    fn damage_is_named() {
        let bytes = bytes_of(&sample());
        let mut flipped = bytes.clone();
        flipped[40] ^= 1;
        assert!(matches!(Application::read(&flipped[..]), Err(PackageError::Checksum)));
        assert!(matches!(Application::read(&b"PK"[..]), Err(PackageError::Truncated)));
        let error = Application::read(&b"not-a-package"[..]).unwrap_err();
        assert!(error.to_string().contains("IPUSTND1"), "{error}");
    }
}
