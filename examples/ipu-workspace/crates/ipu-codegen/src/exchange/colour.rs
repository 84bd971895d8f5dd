//! Edge colouring of the bipartite graph of send and receive ports.
//!
//! Transfers of one colour share no port and can run at the same time. By
//! Kőnig's theorem the busiest port's transfers are as many as the colours
//! needed; the proof's alternating paths find them.

const NONE: u32 = u32::MAX;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeColouring {
    /// By edge.
    pub colours: Vec<u32>,
    pub count: u32,
}

/// Colours (source, destination) edges between `ports` send ports and as many
/// receive ports.
pub fn colour_edges(edges: &[(u16, u16)], ports: usize) -> EdgeColouring {
    let count = largest_degree(edges, ports);
    let mut colouring = Colouring::new(edges, ports, count);
    for edge in 0..edges.len() as u32 {
        colouring.colour(edge);
    }
    EdgeColouring { colours: colouring.colours, count: count as u32 }
}

fn largest_degree(edges: &[(u16, u16)], ports: usize) -> usize {
    let mut degrees = vec![0; 2 * ports];
    for &(source, destination) in edges {
        degrees[usize::from(source)] += 1;
        degrees[ports + usize::from(destination)] += 1;
    }
    degrees.into_iter().max().unwrap_or(0)
}

struct Colouring<'a> {
    edges: &'a [(u16, u16)],
    ports: usize,
    count: usize,
    colours: Vec<u32>,
    /// The edge of each colour at each port; receive ports follow send ports.
    at: Vec<u32>,
    /// One bit per used colour at each port.
    used: Vec<u64>,
    words: usize,
}

impl<'a> Colouring<'a> {
    fn new(edges: &'a [(u16, u16)], ports: usize, count: usize) -> Self {
        let words = count.div_ceil(64);
        Self {
            edges,
            ports,
            count,
            colours: vec![NONE; edges.len()],
            at: vec![NONE; 2 * ports * count],
            used: vec![0; 2 * ports * words],
            words,
        }
    }

    fn colour(&mut self, edge: u32) {
        let (source, destination) = self.ends(edge);
        let colour = self.common_free(source, destination).unwrap_or_else(|| {
            let wanted = self.first_free(source);
            let other = self.first_free(destination);
            self.swap_path(destination, wanted, other);
            wanted
        });
        self.assign(edge, colour);
    }

    #[inline]
    fn ends(&self, edge: u32) -> (usize, usize) {
        let (source, destination) = self.edges[edge as usize];
        (usize::from(source), self.ports + usize::from(destination))
    }

    #[inline]
    fn mask(&self, port: usize) -> &[u64] {
        &self.used[port * self.words..(port + 1) * self.words]
    }

    /// The first colour that neither port uses.
    #[inline]
    fn common_free(&self, left: usize, right: usize) -> Option<usize> {
        let both = self.mask(left).iter().zip(self.mask(right)).map(|(a, b)| a | b);
        first_zero(both).filter(|&colour| colour < self.count)
    }

    /// A port with an uncoloured edge has a colour left.
    #[inline]
    fn first_free(&self, port: usize) -> usize {
        first_zero(self.mask(port).iter().copied()).expect("the degree bounds the colours")
    }

    /// Swaps two colours along the path that starts at a port with `wanted`, so
    /// that `wanted` becomes free there. In a bipartite graph the path cannot
    /// end at the port that the new edge comes from.
    fn swap_path(&mut self, start: usize, wanted: usize, other: usize) {
        let mut path = Vec::new();
        let (mut port, mut colour) = (start, wanted);
        loop {
            let edge = self.at[port * self.count + colour];
            if edge == NONE {
                break;
            }
            path.push(edge);
            let (source, destination) = self.ends(edge);
            port = if port == source { destination } else { source };
            colour = if colour == wanted { other } else { wanted };
        }
        let swapped: Vec<usize> = path
            .iter()
            .map(|&edge| if self.colours[edge as usize] == wanted as u32 { other } else { wanted })
            .collect();
        path.iter().for_each(|&edge| self.clear(edge));
        path.iter().zip(swapped).for_each(|(&edge, colour)| self.assign(edge, colour));
    }

    #[inline]
    fn assign(&mut self, edge: u32, colour: usize) {
        let (source, destination) = self.ends(edge);
        for port in [source, destination] {
            self.at[port * self.count + colour] = edge;
            self.used[port * self.words + colour / 64] |= 1 << (colour % 64);
        }
        self.colours[edge as usize] = colour as u32;
    }

    #[inline]
    fn clear(&mut self, edge: u32) {
        let colour = self.colours[edge as usize] as usize;
        let (source, destination) = self.ends(edge);
        for port in [source, destination] {
            self.at[port * self.count + colour] = NONE;
            self.used[port * self.words + colour / 64] &= !(1 << (colour % 64));
        }
    }
}

#[inline]
fn first_zero(words: impl Iterator<Item = u64>) -> Option<usize> {
    words
        .enumerate()
        .find(|&(_, word)| word != u64::MAX)
        .map(|(index, word)| index * 64 + word.trailing_ones() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn assert_proper(edges: &[(u16, u16)], colouring: &EdgeColouring) {
        let mut seen = BTreeSet::new();
        for (&(source, destination), &colour) in edges.iter().zip(&colouring.colours) {
            assert!(colour < colouring.count);
            assert!(seen.insert((0, source, colour)), "send port {source}");
            assert!(seen.insert((1, destination, colour)), "receive port {destination}");
        }
    }

    #[test]
    fn a_colouring_needs_as_many_colours_as_the_busiest_port() {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) as u16 % 24
        };
        let edges: Vec<_> = (0..1500).map(|_| (next(), next())).collect();
        let colouring = colour_edges(&edges, 24);
        assert_proper(&edges, &colouring);
        assert_eq!(colouring.count as usize, largest_degree(&edges, 24));
    }

    #[test]
    fn a_full_exchange_is_a_latin_square() {
        let edges: Vec<_> = (0..70u16).flat_map(|a| (0..70).map(move |b| (a, b))).collect();
        let colouring = colour_edges(&edges, 70);
        assert_proper(&edges, &colouring);
        assert_eq!(colouring.count, 70);
    }

    #[test]
    fn nothing_needs_no_colours() {
        assert_eq!(colour_edges(&[], 4), EdgeColouring { colours: vec![], count: 0 });
    }
}
