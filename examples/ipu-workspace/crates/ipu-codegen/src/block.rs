//! Ranges and rectangles of matrix blocks, and how an axis is cut into parts.

use std::ops::Range;

/// A rectangle of blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rect {
    pub rows: Range<u32>,
    pub columns: Range<u32>,
}

impl Rect {
    #[inline]
    pub fn blocks(&self) -> u32 {
        length(&self.rows) * length(&self.columns)
    }

    /// Each row with its columns.
    #[inline]
    pub fn row_spans(&self) -> impl Iterator<Item = (u32, Range<u32>)> + use<> {
        let columns = self.columns.clone();
        self.rows.clone().map(move |row| (row, columns.clone()))
    }
}

#[inline]
pub fn length(range: &Range<u32>) -> u32 {
    range.end - range.start
}

/// The `index`-th of `parts` nearly equal parts of an axis.
#[inline]
pub fn part(extent: u32, parts: u32, index: u32) -> Range<u32> {
    let cut = |at: u32| (u64::from(extent) * u64::from(at) / u64::from(parts)) as u32;
    cut(index)..cut(index + 1)
}

/// A sub-range, counted from the start of `range` and cut at its end.
#[inline]
pub fn window(range: &Range<u32>, offset: u32, width: u32) -> Range<u32> {
    let start = (range.start + offset).min(range.end);
    start..(start + width).min(range.end)
}

/// Part counts worth trying: the fewest parts for each largest part size.
pub fn useful_parts(extent: u32, most: u32) -> Vec<u32> {
    let mut parts: Vec<u32> =
        (1..=extent).map(|size| extent.div_ceil(size)).filter(|&count| count <= most).collect();
    parts.dedup();
    parts.reverse();
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_an_axis_without_overlap() {
        for (extent, parts) in [(92, 7), (5, 5), (1, 1), (240, 37)] {
            let cuts: Vec<_> = (0..parts).map(|index| part(extent, parts, index)).collect();
            assert_eq!(cuts[0].start, 0);
            assert_eq!(cuts.last().unwrap().end, extent);
            assert!(cuts.windows(2).all(|pair| pair[0].end == pair[1].start));
            assert!(cuts.iter().all(|cut| length(cut) <= extent.div_ceil(parts)));
        }
    }

    #[test]
    fn useful_parts_name_each_size_once() {
        assert_eq!(useful_parts(6, 100), [1, 2, 3, 6]);
        assert_eq!(useful_parts(92, 4), [1, 2, 3, 4]);
    }

    #[test]
    fn windows_stay_inside() {
        assert_eq!(window(&(10..15), 0, 3), 10..13);
        assert_eq!(window(&(10..15), 3, 3), 13..15);
        assert_eq!(window(&(10..15), 9, 3), 15..15);
    }
}
