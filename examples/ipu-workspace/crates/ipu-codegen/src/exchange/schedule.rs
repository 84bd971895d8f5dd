//! List scheduling: every transfer at the earliest time at which both of its
//! ports are free, in several orders of which the shortest schedule wins.

use super::colour::EdgeColouring;
use super::gap::{Busy, earliest_common};
use super::{ExchangePhase, ProvisionalPhase};
use crate::low::Transfer;
use ipu_target::Topology;
use rayon::prelude::*;
use std::cmp::Reverse;

/// Passes of the improvement; later ones rarely find anything.
const IMPROVEMENT_PASSES: usize = 3;

/// Start cycle of each transfer's first word at its sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Cycles until the last word has arrived.
    pub horizon: u32,
    pub starts: Vec<u32>,
}

/// What an order may look at.
pub struct Loads<'a> {
    transfers: &'a [Transfer],
    colouring: &'a EdgeColouring,
    sent: Vec<u32>,
    received: Vec<u32>,
}

/// In which order transfers are placed.
pub trait Priority: Sync {
    /// The smallest goes first; ties go to the transfer that comes first.
    fn key(loads: &Loads, index: usize) -> (u32, u32);
}

/// Transfers of the busiest ports first.
pub struct BusiestPort;
/// Long transfers first, short ones fill the gaps.
pub struct LongestFirst;
/// Transfers between two busy ports first, busy ones with idle ones last.
pub struct BusiestPair;
/// Short transfers first, long ones follow in one piece.
pub struct ShortestFirst;
/// By the distance around the ring of tiles: at each distance every tile sends
/// to one other.
pub struct Rotating;
/// Colour by colour: transfers of one colour never meet.
pub struct ByColour;

impl Priority for BusiestPort {
    #[inline]
    fn key(loads: &Loads, index: usize) -> (u32, u32) {
        let transfer = &loads.transfers[index];
        let (sent, received) =
            (loads.sent[transfer.source.index()], loads.received[transfer.destination.index()]);
        (u32::MAX - sent.max(received), u32::MAX - sent.min(received))
    }
}

impl Priority for BusiestPair {
    #[inline]
    fn key(loads: &Loads, index: usize) -> (u32, u32) {
        let transfer = &loads.transfers[index];
        let (sent, received) =
            (loads.sent[transfer.source.index()], loads.received[transfer.destination.index()]);
        (u32::MAX - (sent + received), loads.colouring.colours[index])
    }
}

impl Priority for LongestFirst {
    #[inline]
    fn key(loads: &Loads, index: usize) -> (u32, u32) {
        (u32::MAX - u32::from(loads.transfers[index].words), loads.colouring.colours[index])
    }
}

impl Priority for ShortestFirst {
    #[inline]
    fn key(loads: &Loads, index: usize) -> (u32, u32) {
        (u32::from(loads.transfers[index].words), loads.colouring.colours[index])
    }
}

impl Priority for Rotating {
    #[inline]
    fn key(loads: &Loads, index: usize) -> (u32, u32) {
        let transfer = &loads.transfers[index];
        let tiles = loads.sent.len();
        let distance = (transfer.destination.index() + tiles - transfer.source.index()) % tiles;
        (distance as u32, loads.colouring.colours[index])
    }
}

impl Priority for ByColour {
    #[inline]
    fn key(loads: &Loads, index: usize) -> (u32, u32) {
        (loads.colouring.colours[index], u32::MAX - u32::from(loads.transfers[index].words))
    }
}

/// A first schedule, colour by colour.
pub fn provisional_schedule(
    transfers: &[Transfer],
    colouring: &EdgeColouring,
    topology: Topology,
) -> Schedule {
    let loads = Loads::new(transfers, colouring, topology);
    Ports::new(topology).best(transfers, &order::<ByColour>(&loads), loads.bound())
}

/// The shortest of the first schedule and those that the other orders give.
pub fn schedule(
    phase: &ExchangePhase,
    provisional: &ProvisionalPhase,
    topology: Topology,
) -> Schedule {
    let transfers = &phase.transfers;
    let loads = Loads::new(transfers, &provisional.colouring, topology);
    let orders: [fn(&Loads) -> Vec<u32>; 5] = [
        order::<BusiestPort>,
        order::<BusiestPair>,
        order::<LongestFirst>,
        order::<ShortestFirst>,
        order::<Rotating>,
    ];
    let best = orders
        .par_iter()
        .map(|order| Ports::new(topology).best(transfers, &order(&loads), loads.bound()))
        .enumerate()
        .min_by_key(|(index, schedule)| (schedule.horizon, *index));
    match best {
        Some((_, schedule)) if schedule.horizon < provisional.schedule.horizon => schedule,
        _ => provisional.schedule.clone(),
    }
}

impl<'a> Loads<'a> {
    fn new(transfers: &'a [Transfer], colouring: &'a EdgeColouring, topology: Topology) -> Self {
        let ports = vec![0; usize::from(topology.tile_count())];
        let (mut sent, mut received) = (ports.clone(), ports);
        for transfer in transfers {
            sent[transfer.source.index()] += u32::from(transfer.words);
            received[transfer.destination.index()] += u32::from(transfer.words);
        }
        Self { transfers, colouring, sent, received }
    }

    /// No schedule is shorter than its busiest port is busy.
    fn bound(&self) -> u32 {
        self.sent.iter().chain(&self.received).copied().max().unwrap_or(0)
    }
}

fn order<P: Priority>(loads: &Loads) -> Vec<u32> {
    let mut keyed: Vec<((u32, u32), u32)> =
        (0..loads.transfers.len()).map(|index| (P::key(loads, index), index as u32)).collect();
    keyed.sort_unstable();
    keyed.into_iter().map(|(_, index)| index).collect()
}

/// The ports of all tiles, kept from pass to pass for their memory.
struct Ports {
    senders: Vec<Busy>,
    receivers: Vec<Busy>,
    topology: Topology,
}

impl Ports {
    fn new(topology: Topology) -> Self {
        let ports = vec![Busy::default(); usize::from(topology.tile_count())];
        Self { senders: ports.clone(), receivers: ports, topology }
    }

    /// The best schedule that starts from an order.
    fn best(&mut self, transfers: &[Transfer], order: &[u32], bound: u32) -> Schedule {
        let mut best = self.list_schedule(transfers, order);
        for _ in 0..IMPROVEMENT_PASSES {
            if best.horizon <= bound {
                break;
            }
            let candidate = self.mirrored_twice(transfers, &best);
            if candidate.horizon >= best.horizon {
                break;
            }
            best = candidate;
        }
        best
    }

    /// Places the transfers in the given order.
    fn list_schedule(&mut self, transfers: &[Transfer], order: &[u32]) -> Schedule {
        self.senders.iter_mut().chain(&mut self.receivers).for_each(Busy::clear);
        let mut schedule = Schedule { horizon: 0, starts: vec![0; transfers.len()] };
        for &index in order {
            let transfer = &transfers[index as usize];
            let sender = &mut self.senders[transfer.source.index()];
            let receiver = &mut self.receivers[transfer.destination.index()];
            let latency = self.topology.latency(transfer.source, transfer.destination);
            let words = u32::from(transfer.words);
            let start = earliest_common(sender, receiver, 0, latency, words);
            sender.occupy(start, words);
            receiver.occupy(start + latency, words);
            schedule.starts[index as usize] = start;
            schedule.horizon = schedule.horizon.max(start + latency + words);
        }
        schedule
    }

    /// Forward-backward improvement: schedules the mirror image, latest
    /// transfers first, then the mirror image of that.
    fn mirrored_twice(&mut self, transfers: &[Transfer], schedule: &Schedule) -> Schedule {
        let mut order: Vec<u32> = (0..transfers.len() as u32).collect();
        let end = |index: u32| {
            schedule.starts[index as usize] + u32::from(transfers[index as usize].words)
        };
        order.sort_unstable_by_key(|&index| (Reverse(end(index)), index));
        let mirrored = self.list_schedule(transfers, &order);
        order.sort_unstable_by_key(|&index| (Reverse(mirrored.starts[index as usize]), index));
        self.list_schedule(transfers, &order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::low::BufferId;
    use ipu_target::Tile;

    fn phase(tiles: u16, count: u32) -> ExchangePhase {
        let mut state = 7u32;
        let mut next = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % below
        };
        let transfers = (0..count)
            .map(|index| Transfer {
                destination: Tile(next(u32::from(tiles)) as u16),
                to: BufferId(0),
                to_word: index * 64,
                source: Tile(next(u32::from(tiles)) as u16),
                from: BufferId(1),
                from_word: 0,
                words: (1 + next(200)) as u16,
            })
            .collect();
        ExchangePhase { step: 0, transfers }
    }

    fn assert_no_conflict(transfers: &[Transfer], schedule: &Schedule, topology: Topology) {
        let mut uses: Vec<(u8, Tile, u32, u32)> = transfers
            .iter()
            .zip(&schedule.starts)
            .flat_map(|(t, &start)| {
                let arrival = start + topology.latency(t.source, t.destination);
                let words = u32::from(t.words);
                assert!(arrival + words <= schedule.horizon);
                [(0, t.source, start, start + words), (1, t.destination, arrival, arrival + words)]
            })
            .collect();
        uses.sort_unstable();
        for pair in uses.windows(2) {
            let same_port = (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1);
            assert!(!same_port || pair[0].3 <= pair[1].2, "{pair:?}");
        }
    }

    #[test]
    fn ports_carry_one_word_at_a_time() {
        let topology = Topology::new(32).unwrap();
        let phase = phase(32, 900);
        let provisional = crate::exchange::provisional(&phase, topology);
        let schedule = schedule(&phase, &provisional, topology);
        assert_no_conflict(&phase.transfers, &provisional.schedule, topology);
        assert_no_conflict(&phase.transfers, &schedule, topology);
        let bound = Loads::new(&phase.transfers, &provisional.colouring, topology).bound();
        assert!(schedule.horizon < bound * 3 / 2, "{} against {bound}", schedule.horizon);
        assert!(schedule.horizon <= provisional.schedule.horizon);
    }
}
