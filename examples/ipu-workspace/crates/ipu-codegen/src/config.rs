//! What a caller chooses.

use ipu_target::Topology;
use std::fmt;
use std::str::FromStr;

/// Which forms of attention the planner may choose from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttentionStrategy {
    #[default]
    Automatic,
    Flash,
    Materialized,
}

/// How the attention products are spread over tiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttentionProducts {
    #[default]
    Automatic,
    /// Every head has tiles of its own.
    HeadSplit,
    /// Every tile works on rows of all heads.
    RowSplit,
}

/// Settings of one compilation.
#[derive(Clone, Copy, Debug)]
pub struct CompilerConfig {
    pub topology: Topology,
    pub products: AttentionProducts,
    /// Partial plans kept after each operation.
    pub beam_width: usize,
    /// Candidates kept for each operation.
    pub candidate_limit: usize,
    /// Complete plans handed to the exact comparison.
    pub finalists: usize,
}

impl CompilerConfig {
    pub fn new(topology: Topology) -> Self {
        Self {
            topology,
            products: AttentionProducts::default(),
            beam_width: 128,
            candidate_limit: 256,
            finalists: 8,
        }
    }
}

impl FromStr for AttentionStrategy {
    type Err = &'static str;

    fn from_str(value: &str) -> Result<Self, Self::Err> {
        match value {
            "auto" => Ok(Self::Automatic),
            "flash" => Ok(Self::Flash),
            "materialized" => Ok(Self::Materialized),
            _ => Err("expected auto, flash or materialized"),
        }
    }
}

impl FromStr for AttentionProducts {
    type Err = &'static str;

    fn from_str(value: &str) -> Result<Self, Self::Err> {
        match value {
            "auto" => Ok(Self::Automatic),
            "head-split" => Ok(Self::HeadSplit),
            "row-split" => Ok(Self::RowSplit),
            _ => Err("expected auto, head-split or row-split"),
        }
    }
}

impl fmt::Display for AttentionStrategy {
    fn fmt(&self, output: &mut fmt::Formatter<'_>) -> fmt::Result {
        output.write_str(match self {
            Self::Automatic => "auto",
            Self::Flash => "flash",
            Self::Materialized => "materialized",
        })
    }
}
