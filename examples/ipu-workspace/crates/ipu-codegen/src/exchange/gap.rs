//! The busy times of a port.

/// Disjoint busy intervals `start..end` in cycles, sorted, none touching.
#[derive(Clone, Debug, Default)]
pub struct Busy {
    intervals: Vec<(u32, u32)>,
}

impl Busy {
    pub fn clear(&mut self) {
        self.intervals.clear();
    }

    /// The earliest start from `from` on of `length` free cycles.
    #[inline]
    pub fn next_free(&self, from: u32, length: u32) -> u32 {
        let first = self.intervals.partition_point(|&(_, end)| end <= from);
        self.intervals[first..]
            .iter()
            .try_fold(
                from,
                |start, &(busy, end)| {
                    if busy >= start + length { Err(start) } else { Ok(start.max(end)) }
                },
            )
            .unwrap_or_else(|start| start)
    }

    /// Marks free cycles as busy.
    pub fn occupy(&mut self, start: u32, length: u32) {
        let end = start + length;
        let at = self.intervals.partition_point(|&(_, before)| before < start);
        let touches_before = self.intervals.get(at).is_some_and(|&(_, before)| before == start);
        let next = at + usize::from(touches_before);
        let touches_after = self.intervals.get(next).is_some_and(|&(after, _)| after == end);
        match (touches_before, touches_after) {
            (true, true) => {
                self.intervals[at].1 = self.intervals[next].1;
                self.intervals.remove(next);
            }
            (true, false) => self.intervals[at].1 = end,
            (false, true) => self.intervals[next].0 = start,
            (false, false) => self.intervals.insert(at, (start, end)),
        }
    }
}

/// The earliest start from `from` on at which a sender is free, and a receiver
/// `latency` cycles later.
#[inline]
pub fn earliest_common(
    sender: &Busy,
    receiver: &Busy,
    from: u32,
    latency: u32,
    length: u32,
) -> u32 {
    let mut start = from;
    loop {
        let sent = sender.next_free(start, length);
        let received = receiver.next_free(sent + latency, length) - latency;
        if received == sent {
            return sent;
        }
        start = received;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(intervals: &[(u32, u32)]) -> Busy {
        let mut busy = Busy::default();
        intervals.iter().for_each(|&(start, length)| busy.occupy(start, length));
        busy
    }

    #[test]
    fn touching_intervals_merge() {
        let busy = busy(&[(10, 10), (30, 10), (20, 10)]);
        assert_eq!(busy.intervals, [(10, 40)]);
    }

    #[test]
    fn gaps_are_used_when_long_enough() {
        let busy = busy(&[(10, 10), (25, 10)]);
        assert_eq!(busy.next_free(0, 10), 0);
        assert_eq!(busy.next_free(3, 5), 3);
        assert_eq!(busy.next_free(6, 5), 20);
        assert_eq!(busy.next_free(6, 6), 35);
        assert_eq!(busy.next_free(12, 1), 20);
    }

    #[test]
    fn both_ports_must_be_free() {
        let (sender, receiver) = (busy(&[(0, 10)]), busy(&[(20, 10)]));
        assert_eq!(earliest_common(&sender, &receiver, 0, 5, 4), 10);
        assert_eq!(earliest_common(&sender, &receiver, 0, 5, 8), 25);
    }
}
