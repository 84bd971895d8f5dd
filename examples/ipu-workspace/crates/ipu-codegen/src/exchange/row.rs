//! Encodes a schedule as one row for each tile that takes part.

use super::ExchangePhase;
use super::schedule::Schedule;
use crate::low::{BufferId, Transfer};
use ipu_target::{RowOperation, Tile, Topology};

/// Sync and the ends of both streams.
const FRAME_WORDS: u32 = 3;
/// A delay and the send itself.
const SEND_WORDS: u32 = 2;
/// A delay, the choice of the sender and the receive itself.
const RECEIVE_WORDS: u32 = 3;

/// What one tile walks in one phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileRow {
    pub tile: Tile,
    pub words: Vec<u32>,
}

/// Row words of each tile, if no two operations can share a word.
pub fn bound(transfers: &[Transfer], tiles: usize) -> Vec<u32> {
    let mut words = vec![0; tiles];
    for transfer in transfers {
        words[transfer.source.index()] += SEND_WORDS;
        words[transfer.destination.index()] += RECEIVE_WORDS;
    }
    words.iter_mut().filter(|words| **words > 0).for_each(|words| *words += FRAME_WORDS);
    words
}

/// An operation of a stream, in the order of its time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    tile: Tile,
    start: u32,
    transfer: u32,
}

/// The rows of all tiles of a phase, by tile.
pub fn encode_rows(
    phase: &ExchangePhase,
    schedule: &Schedule,
    topology: Topology,
    address: impl Fn(BufferId) -> u32,
) -> Vec<TileRow> {
    let transfers = &phase.transfers;
    let sends = events(transfers, |t, index| (t.source, schedule.starts[index]));
    let receives = events(transfers, |t, index| {
        let latency = topology.latency(t.source, t.destination);
        (t.destination, schedule.starts[index] + latency)
    });
    topology
        .tiles()
        .filter_map(|tile| {
            let (sends, receives) = (of_tile(&sends, tile), of_tile(&receives, tile));
            let takes_part = !(sends.is_empty() && receives.is_empty());
            takes_part.then(|| {
                let mut row = RowWriter::default();
                sends.iter().for_each(|event| row.send(transfers, event, &address));
                row.end_stream();
                receives.iter().for_each(|event| row.receive(transfers, event, &address));
                row.end_stream();
                TileRow { tile, words: row.words }
            })
        })
        .collect()
}

fn events(transfers: &[Transfer], time: impl Fn(&Transfer, usize) -> (Tile, u32)) -> Vec<Event> {
    let mut events: Vec<Event> = transfers
        .iter()
        .enumerate()
        .map(|(index, transfer)| {
            let (tile, start) = time(transfer, index);
            Event { tile, start, transfer: index as u32 }
        })
        .collect();
    events.sort_unstable();
    events
}

/// The events of one tile in a sorted list.
fn of_tile(events: &[Event], tile: Tile) -> &[Event] {
    let first = events.partition_point(|event| event.tile < tile);
    let count = events[first..].partition_point(|event| event.tile == tile);
    &events[first..first + count]
}

struct RowWriter {
    words: Vec<u32>,
    time: u32,
    selected: Option<Tile>,
}

impl Default for RowWriter {
    fn default() -> Self {
        Self { words: vec![RowOperation::Sync.encode()], time: 0, selected: None }
    }
}

impl RowWriter {
    #[inline]
    fn put(&mut self, operation: RowOperation) {
        self.words.push(operation.encode());
    }

    #[inline]
    fn wait(&mut self, until: u32) {
        if until > self.time {
            self.put(RowOperation::Delay { cycles: until - self.time });
        }
        self.time = until;
    }

    #[inline]
    fn send(&mut self, transfers: &[Transfer], event: &Event, address: impl Fn(BufferId) -> u32) {
        let transfer = &transfers[event.transfer as usize];
        let words = u32::from(transfer.words);
        self.wait(event.start);
        self.put(RowOperation::Send {
            address: address(transfer.from) + transfer.from_word * 4,
            words,
        });
        self.time += words;
    }

    #[inline]
    fn receive(
        &mut self,
        transfers: &[Transfer],
        event: &Event,
        address: impl Fn(BufferId) -> u32,
    ) {
        let transfer = &transfers[event.transfer as usize];
        let words = u32::from(transfer.words);
        self.wait(event.start);
        if self.selected != Some(transfer.source) {
            self.selected = Some(transfer.source);
            self.put(RowOperation::Select { source: transfer.source });
        }
        self.put(RowOperation::Receive {
            address: address(transfer.to) + transfer.to_word * 4,
            words,
        });
        self.time += words;
    }

    fn end_stream(&mut self) {
        self.put(RowOperation::Return);
        (self.time, self.selected) = (0, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipu_target::RowSummary;
    use ipu_target::memory::SRAM_BASE;

    #[test]
    fn rows_keep_the_times_of_the_schedule() {
        let topology = Topology::new(4).unwrap();
        let transfer = Transfer {
            destination: Tile(2),
            to: BufferId(0),
            to_word: 8,
            source: Tile(1),
            from: BufferId(0),
            from_word: 4,
            words: 20,
        };
        let phase = ExchangePhase { step: 0, transfers: vec![transfer] };
        let schedule = Schedule { horizon: 50, starts: vec![7] };
        let rows = encode_rows(&phase, &schedule, topology, |_| SRAM_BASE);
        assert_eq!(rows.iter().map(|row| row.tile.0).collect::<Vec<_>>(), [1, 2]);
        let decoded: Vec<_> = rows[0].words.iter().map(|&w| RowOperation::decode(w)).collect();
        assert_eq!(decoded[1], Some(RowOperation::Delay { cycles: 7 }));
        assert_eq!(decoded[2], Some(RowOperation::Send { address: SRAM_BASE + 16, words: 20 }));
        let summary = RowSummary::of(rows[1].words.iter().copied());
        assert_eq!((summary.select, summary.receive, summary.send), (1, 1, 0));
        let bounds = bound(&phase.transfers, 4);
        assert!(rows.iter().all(|row| row.words.len() as u32 <= bounds[row.tile.index()]));
    }
}
