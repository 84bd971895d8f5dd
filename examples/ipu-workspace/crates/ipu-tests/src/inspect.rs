//! The summary of a package's exchange rows.

use anyhow::Result;
use ipu_package::{Application, RegionKind, TileImage};
use ipu_target::RowSummary;
use rayon::prelude::*;
use std::cmp::Reverse;

/// How many of the longest rows are listed.
const LONGEST: usize = 16;

struct Row {
    words: u32,
    tile: u16,
    summary: RowSummary,
}

/// Decodes every exchange row: counts by kind, and the longest rows as
/// (words, cycles, tile).
pub fn inspect_exchange_rows(application: &Application) -> Result<String> {
    let rows: Vec<Vec<Row>> = application.tiles.par_iter().map(tile_rows).collect::<Result<_>>()?;
    let mut rows: Vec<Row> = rows.into_iter().flatten().collect();
    let total = rows.iter().fold(RowSummary::default(), |sum, row| sum.merge(row.summary));
    rows.sort_by_key(|row| (Reverse((row.words, row.summary.cycles)), row.tile));
    let longest: Vec<_> =
        rows.iter().take(LONGEST).map(|row| (row.words, row.summary.cycles, row.tile)).collect();
    Ok(format!(
        "exchangeRows={} counts=[send, select, receive, delay, unknown]={:?} longest={longest:?}",
        rows.len(),
        [total.send, total.select, total.receive, total.delay, total.unknown],
    ))
}

fn tile_rows(image: &TileImage) -> Result<Vec<Row>> {
    let words = image.unpack()?;
    Ok(image
        .regions
        .iter()
        .filter(|region| region.kind == RegionKind::ExchangeRow)
        .map(|region| {
            let (start, end) = (region.start as usize, (region.start + region.words) as usize);
            let row = words.get(start..end).unwrap_or_default();
            Row {
                words: region.words,
                tile: image.physical,
                summary: RowSummary::of(row.iter().copied()),
            }
        })
        .collect())
}
