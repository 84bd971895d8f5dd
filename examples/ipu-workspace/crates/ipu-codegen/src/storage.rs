//! Addresses for buffers.
//!
//! A buffer has one address on all tiles, and two buffers may share memory when
//! they are not alive at the same time: rectangles of bytes by steps are to be
//! packed below the lowest possible ceiling.

use crate::CompileError;
use crate::low::Buffer;
use ipu_target::MemoryClass;
use ipu_target::memory::{ALIGNMENT_BYTES, ELEMENT_BYTES, SRAM_BASE, SRAM_BYTES, align_up};

/// More pairs leave more to be gained by swapping them.
const TRIALS_PER_PAIR: usize = 8;
/// Buffers packed in all trials together, lest many buffers take forever.
const PACKING_BUDGET: usize = 9_000_000;

/// Byte addresses by buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoragePlan {
    pub addresses: Vec<u32>,
    /// Bytes from the start of memory to the highest used one.
    pub peak_bytes: u32,
    pub trials: usize,
}

/// Packs the buffers above `reserved` bytes of code and rows.
///
/// A trial swaps two buffers in the best order so far, so trials cannot run
/// side by side. One is given up as soon as it is no better.
pub fn place(buffers: &[Buffer], reserved: u32) -> Result<StoragePlan, CompileError> {
    let floor = align_up(reserved);
    let mut packer = Packer::new(buffers, floor);
    let mut order = packer.initial_order();
    let mut best = packer.pack(&order, u32::MAX).expect("there is no ceiling yet");
    let bound = packer.live_bound();
    let mut swaps = Swaps::new(order.len());
    let limit = (order.len().pow(2) * TRIALS_PER_PAIR).min(PACKING_BUDGET / order.len().max(1));
    let mut trials = 1;
    while best.peak > bound && trials < limit {
        let (left, right) = swaps.next();
        order.swap(left, right);
        match packer.pack(&order, best.peak) {
            Some(packing) => best = packing,
            None => order.swap(left, right),
        }
        trials += 1;
    }
    if best.peak > SRAM_BYTES {
        return Err(CompileError::OutOfMemory { needed_bytes: best.peak, tile_bytes: SRAM_BYTES });
    }
    let addresses = best.offsets.iter().map(|offset| SRAM_BASE + offset).collect();
    Ok(StoragePlan { addresses, peak_bytes: best.peak, trials })
}

struct Packing {
    peak: u32,
    offsets: Vec<u32>,
}

struct Packer<'a> {
    buffers: &'a [Buffer],
    floor: u32,
    /// Byte ranges of the buffers in the way of the next one.
    blocked: Vec<(u32, u32)>,
    /// Buffers by each step of their life.
    alive: Vec<Vec<usize>>,
    /// The trial in which a buffer was last looked at.
    seen: Vec<usize>,
}

impl<'a> Packer<'a> {
    fn new(buffers: &'a [Buffer], floor: u32) -> Self {
        let steps = buffers.iter().map(|buffer| buffer.last_step + 1).max().unwrap_or(0);
        let mut alive = vec![Vec::new(); steps as usize];
        for (index, buffer) in buffers.iter().enumerate() {
            for step in buffer.first_step..=buffer.last_step {
                alive[step as usize].push(index);
            }
        }
        let seen = vec![usize::MAX; buffers.len()];
        Self { buffers, floor, blocked: Vec::new(), alive, seen }
    }

    /// Those that block most memory for longest first.
    fn initial_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.buffers.len()).collect();
        order.sort_by_key(|&index| {
            let buffer = &self.buffers[index];
            let steps = u64::from(buffer.last_step - buffer.first_step + 1);
            (std::cmp::Reverse(steps * u64::from(buffer.words)), index)
        });
        order
    }

    /// No packing is lower than the bytes alive in one step.
    fn live_bound(&self) -> u32 {
        let bytes = |&index: &usize| align_up(self.buffers[index].words * 4);
        let live = |alive: &Vec<usize>| alive.iter().map(bytes).sum::<u32>();
        self.floor + self.alive.iter().map(live).max().unwrap_or(0)
    }

    /// Lowest fit in the given order; `None` once the ceiling is reached.
    fn pack(&mut self, order: &[usize], ceiling: u32) -> Option<Packing> {
        let mut offsets = vec![u32::MAX; self.buffers.len()];
        let mut peak = self.floor;
        self.seen.fill(usize::MAX);
        for &index in order {
            self.collect_blocked(index, &offsets);
            let buffer = &self.buffers[index];
            let offset = lowest_gap(&self.blocked, self.floor, buffer);
            offsets[index] = offset;
            peak = peak.max(offset + align_up(buffer.words * 4));
            if peak >= ceiling {
                return None;
            }
        }
        Some(Packing { peak, offsets })
    }

    /// The placed buffers that are alive together with one, by address.
    fn collect_blocked(&mut self, index: usize, offsets: &[u32]) {
        let buffer = &self.buffers[index];
        self.blocked.clear();
        for step in buffer.first_step..=buffer.last_step {
            for &other in &self.alive[step as usize] {
                if offsets[other] != u32::MAX && self.seen[other] != index {
                    self.seen[other] = index;
                    let end = offsets[other] + align_up(self.buffers[other].words * 4);
                    self.blocked.push((offsets[other], end));
                }
            }
        }
        self.blocked.sort_unstable();
    }
}

/// The lowest offset between sorted ranges where a buffer fits.
#[inline]
fn lowest_gap(blocked: &[(u32, u32)], floor: u32, buffer: &Buffer) -> u32 {
    let alignment = match buffer.class {
        MemoryClass::Standard => ALIGNMENT_BYTES,
        MemoryClass::Interleaved => ELEMENT_BYTES,
    };
    let bytes = align_up(buffer.words * 4);
    let start = floor.next_multiple_of(alignment);
    blocked
        .iter()
        .try_fold(start, |offset, &(first, end)| {
            if offset + bytes <= first {
                Err(offset)
            } else {
                Ok(offset.max(end.next_multiple_of(alignment)))
            }
        })
        .unwrap_or_else(|offset| offset)
}

/// A fixed sequence of pairs of positions that looks random.
struct Swaps {
    state: u64,
    count: u64,
}

impl Swaps {
    fn new(count: usize) -> Self {
        Self { state: 0x9e37_79b9_7f4a_7c15, count: count.max(1) as u64 }
    }

    fn next(&mut self) -> (usize, usize) {
        (self.position(), self.position())
    }

    fn position(&mut self) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state % self.count) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(words: u32, first_step: u32, last_step: u32) -> Buffer {
        Buffer { words, first_step, last_step, class: MemoryClass::Standard }
    }

    fn assert_disjoint(buffers: &[Buffer], plan: &StoragePlan) {
        for (i, left) in buffers.iter().enumerate() {
            for (j, right) in buffers.iter().enumerate().skip(i + 1) {
                let together =
                    left.first_step <= right.last_step && right.first_step <= left.last_step;
                let (a, b) = (plan.addresses[i], plan.addresses[j]);
                assert!(!together || a + left.words * 4 <= b || b + right.words * 4 <= a);
            }
        }
    }

    #[test]
    fn buffers_that_never_meet_share_memory() {
        let buffers = [buffer(800, 0, 1), buffer(800, 2, 3), buffer(800, 4, 9)];
        let plan = place(&buffers, 100).unwrap();
        assert_eq!(plan.peak_bytes, align_up(100) + 3200);
        assert_disjoint(&buffers, &plan);
    }

    #[test]
    fn a_crowd_is_packed_without_overlap() {
        let mut buffers: Vec<Buffer> =
            (0..40u32).map(|n| buffer(100 + n * 37 % 900, n / 4, n / 4 + n % 5)).collect();
        buffers[7].class = MemoryClass::Interleaved;
        let plan = place(&buffers, 5000).unwrap();
        assert_disjoint(&buffers, &plan);
        assert_eq!((plan.addresses[7] - SRAM_BASE) % ELEMENT_BYTES, 0);
    }

    #[test]
    fn too_much_is_refused() {
        let error = place(&[buffer(200_000, 0, 0)], 0).unwrap_err();
        assert!(error.to_string().contains("storage placement failed"), "{error}");
    }
}
