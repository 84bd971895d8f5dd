//! The device configuration file.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;

const MAGIC: &[u8; 8] = b"IPUCFG1\0";
const WRITE_BYTES: usize = 8;

/// Register writes that prepare a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// (register address, value)
    pub writes: Vec<(u32, u32)>,
}

impl Configuration {
    /// Reads a file: the magic, then an address and a value for each write.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = fs::read(path).with_context(|| format!("read {}", path.display()))?;
        Self::decode(&bytes).with_context(|| format!("device configuration {}", path.display()))
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let body = bytes.strip_prefix(MAGIC).context("expected the header IPUCFG1")?;
        ensure!(body.len() % WRITE_BYTES == 0, "ends in the middle of a register write");
        let writes = body
            .as_chunks::<WRITE_BYTES>()
            .0
            .iter()
            .map(|&[a, b, c, d, e, f, g, h]| {
                (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]))
            })
            .collect();
        Ok(Self { writes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_follow_the_header() {
        let configuration = Configuration::decode(b"IPUCFG1\0\x04\0\0\0\x01\x02\0\0").unwrap();
        assert_eq!(configuration.writes, [(4, 0x201)]);
    }

    #[test]
    fn other_files_are_refused() {
        let error = |bytes| Configuration::decode(bytes).unwrap_err().to_string();
        assert!(error(b"ELF").contains("IPUCFG1"));
        assert!(error(b"IPUCFG1\0\x04\0").contains("middle"));
    }
}
