//! Iterative modulo scheduling: overlaps the iterations of a loop so that a new
//! one starts every *interval* cycles (B. R. Rau, 1994).

use super::body::{Body, Dependence, Unit};

/// How often, on average, an operation may be placed before an interval is
/// given up.
const ATTEMPTS_PER_NODE: usize = 6;

/// Which of the ready operations is placed first.
pub trait Preference: Sync {
    /// The larger, the sooner; ties go to the operation that comes first.
    fn rank(body: &Body, heights: &[u32], node: usize) -> u32;
}

/// The longest way to the end of the iteration.
pub struct ByHeight;
/// Most users first.
pub struct ByUsers;

/// Slow operations first.
pub struct ByLatency;
/// As the body names them.
pub struct InOrder;

impl Preference for ByLatency {
    #[inline]
    fn rank(body: &Body, heights: &[u32], node: usize) -> u32 {
        body.work[node].latency() * 256 + heights[node]
    }
}

impl Preference for InOrder {
    #[inline]
    fn rank(body: &Body, _heights: &[u32], node: usize) -> u32 {
        (body.len() - node) as u32
    }
}

impl Preference for ByHeight {
    #[inline]
    fn rank(_body: &Body, heights: &[u32], node: usize) -> u32 {
        heights[node]
    }
}

impl Preference for ByUsers {
    #[inline]
    fn rank(body: &Body, heights: &[u32], node: usize) -> u32 {
        body.outgoing(node).count() as u32 * 64 + heights[node]
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopSchedule {
    pub interval: u32,
    /// Start cycle of each operation of the first iteration.
    pub starts: Vec<u32>,
}

impl LoopSchedule {
    /// Iterations in flight at a time.
    pub fn stages(&self) -> u32 {
        self.starts.iter().max().map_or(1, |last| last / self.interval + 1)
    }

    /// Values alive at once: each lives from its start to its last use.
    pub fn registers(&self, body: &Body) -> u32 {
        let cycles: u32 = (0..body.len())
            .filter_map(|node| {
                let last = body.outgoing(node).map(|d| self.use_cycle(d)).max()?;
                Some(last.saturating_sub(self.starts[node]))
            })
            .sum();
        cycles.div_ceil(self.interval)
    }

    fn use_cycle(&self, dependence: &Dependence) -> u32 {
        self.starts[dependence.to] + dependence.distance * self.interval
    }

    #[cfg(test)]
    /// Whether all dependences hold and no unit starts two operations at once.
    pub fn is_valid(&self, body: &Body) -> bool {
        let ready = |d: &Dependence| self.starts[d.from] + d.latency <= self.use_cycle(d);
        let mut slots: Vec<_> = (0..body.len())
            .map(|node| (body.work[node].unit() as u32, self.starts[node] % self.interval))
            .collect();
        slots.sort_unstable();
        body.dependences.iter().all(ready) && slots.windows(2).all(|pair| pair[0] != pair[1])
    }
}

/// The smallest interval that the units and the loop-carried sums allow.
pub fn minimum_interval(body: &Body) -> u32 {
    let uses = |unit| body.work.iter().filter(|work| work.unit() == unit).count() as u32;
    let carried = body
        .dependences
        .iter()
        .filter(|d| d.distance > 0)
        .map(|d| (longest_path(body, d.to, d.from) + d.latency).div_ceil(d.distance))
        .max()
        .unwrap_or(1);
    uses(Unit::Main).max(uses(Unit::Auxiliary)).max(carried)
}

/// Schedules for `interval`; `None` if the attempts run out.
pub fn schedule<P: Preference>(body: &Body, interval: u32) -> Option<LoopSchedule> {
    let heights = heights(body);
    let mut order: Vec<usize> = (0..body.len()).collect();
    order.sort_by_key(|&node| (std::cmp::Reverse(P::rank(body, &heights, node)), node));
    let mut table = ReservationTable::new(body, interval);
    for _ in 0..body.len() * ATTEMPTS_PER_NODE {
        let Some(&node) = order.iter().find(|&&node| table.starts[node].is_none()) else {
            let starts = table.starts.into_iter().flatten().collect();
            return Some(LoopSchedule { interval, starts });
        };
        table.place(node);
    }
    None
}

/// Longest latency from each operation to the end of its iteration.
fn heights(body: &Body) -> Vec<u32> {
    fn height(body: &Body, node: usize, known: &mut [Option<u32>]) -> u32 {
        if let Some(height) = known[node] {
            return height;
        }
        let height = body
            .outgoing(node)
            .filter(|d| d.distance == 0)
            .map(|d| d.latency + height(body, d.to, known))
            .max()
            .unwrap_or(0);
        known[node] = Some(height);
        height
    }
    let mut known = vec![None; body.len()];
    (0..body.len()).map(|node| height(body, node, &mut known)).collect()
}

/// Longest latency within an iteration; zero if there is no path.
fn longest_path(body: &Body, from: usize, to: usize) -> u32 {
    let mut distances = vec![None; body.len()];
    distances[from] = Some(0);
    // Within an iteration operations depend on earlier ones only.
    for node in from..=to {
        let Some(distance) = distances[node] else { continue };
        for d in body.outgoing(node).filter(|d| d.distance == 0) {
            let through = distance + d.latency;
            distances[d.to] = distances[d.to].max(Some(through));
        }
    }
    distances[to].unwrap_or(0)
}

struct ReservationTable<'a> {
    body: &'a Body,
    interval: u32,
    starts: Vec<Option<u32>>,
    /// Where an operation was when it was last placed.
    previous: Vec<Option<u32>>,
    /// The operation in each slot of both units.
    slots: Vec<Option<usize>>,
}

impl<'a> ReservationTable<'a> {
    fn new(body: &'a Body, interval: u32) -> Self {
        Self {
            body,
            interval,
            starts: vec![None; body.len()],
            previous: vec![None; body.len()],
            slots: vec![None; 2 * interval as usize],
        }
    }

    /// Places an operation at its earliest free cycle, or by force.
    fn place(&mut self, node: usize) {
        let earliest = self.earliest(node);
        let start = (earliest..earliest + self.interval)
            .find(|&start| self.slots[self.slot(node, start)].is_none())
            .unwrap_or_else(|| match self.previous[node] {
                Some(previous) => earliest.max(previous + 1),
                None => earliest,
            });
        let slot = self.slot(node, start);
        if let Some(evicted) = self.slots[slot].replace(node) {
            self.starts[evicted] = None;
        }
        self.starts[node] = Some(start);
        self.previous[node] = Some(start);
        self.evict_violated(node, start);
    }

    fn earliest(&self, node: usize) -> u32 {
        self.body
            .incoming(node)
            .filter_map(|d| {
                let ready = self.starts[d.from]? + d.latency;
                Some(ready.saturating_sub(d.distance * self.interval))
            })
            .max()
            .unwrap_or(0)
    }

    /// Removes the users that now start too early.
    fn evict_violated(&mut self, node: usize, start: u32) {
        let body = self.body;
        for d in body.outgoing(node).filter(|d| d.to != node) {
            if let Some(user) = self.starts[d.to]
                && start + d.latency > user + d.distance * self.interval
            {
                let slot = self.slot(d.to, user);
                self.slots[slot] = None;
                self.starts[d.to] = None;
            }
        }
    }

    #[inline]
    fn slot(&self, node: usize, start: u32) -> usize {
        let unit = match self.body.work[node].unit() {
            Unit::Main => 0,
            Unit::Auxiliary => self.interval,
        };
        (unit + start % self.interval) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{KernelClass, KernelKey};

    fn first_schedule<P: Preference>(body: &Body) -> LoopSchedule {
        let minimum = minimum_interval(body);
        (minimum..).find_map(|interval| schedule::<P>(body, interval)).unwrap()
    }

    #[test]
    fn schedules_are_valid_for_every_class() {
        for class in [
            KernelClass::Product,
            KernelClass::Flash,
            KernelClass::Softmax,
            KernelClass::Store,
            KernelClass::Copy,
        ] {
            let body = Body::new(KernelKey { class, rows: 3, accumulates: true }, 2);
            for schedule in [first_schedule::<ByHeight>(&body), first_schedule::<ByUsers>(&body)] {
                assert!(schedule.is_valid(&body), "{class:?}: {schedule:?}");
                assert!(schedule.interval >= minimum_interval(&body));
            }
        }
    }

    #[test]
    fn a_chain_of_sums_bounds_the_interval() {
        let key = KernelKey { class: KernelClass::Product, rows: 1, accumulates: false };
        let body = Body::new(key, 4);
        // Four additions of four cycles each, carried to the next iteration.
        assert_eq!(minimum_interval(&body), 16);
    }

    #[test]
    fn overlapped_iterations_need_registers() {
        let key = KernelKey { class: KernelClass::Gelu, rows: 2, accumulates: false };
        let body = Body::new(key, 1);
        let schedule = first_schedule::<ByHeight>(&body);
        assert!(schedule.stages() > 1);
        assert!(schedule.registers(&body) > 1);
    }
}
