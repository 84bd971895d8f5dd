//! Joins the runtime and the kernels into the words that all tiles share.

use super::{Kernel, KernelKey};
use ipu_package::Symbol;
use ipu_target::memory::SRAM_BASE;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
pub struct LinkedCode {
    pub words: Vec<u32>,
    pub symbols: Vec<Symbol>,
    entries: BTreeMap<KernelKey, u32>,
}

impl LinkedCode {
    /// The word address of a kernel.
    #[inline]
    pub fn entry(&self, key: KernelKey) -> u32 {
        self.entries[&key]
    }

    pub fn bytes(&self) -> u32 {
        self.words.len() as u32 * 4
    }
}

/// Lays the kernels out behind the runtime. Kernels with the same words share
/// them, so each one's place depends on all before it.
pub fn link(runtime: &(Vec<u32>, BTreeMap<String, u32>), kernels: &[Kernel]) -> LinkedCode {
    let mut linked = LinkedCode { words: runtime.0.clone(), ..LinkedCode::default() };
    for (label, offset) in &runtime.1 {
        linked.symbols.push(Symbol { address: SRAM_BASE + offset * 4, name: label.clone() });
    }
    let mut known: BTreeMap<&[u32], u32> = BTreeMap::new();
    for kernel in kernels {
        let offset = *known.entry(&kernel.words).or_insert_with(|| {
            let offset = linked.words.len() as u32;
            linked.words.extend(&kernel.words);
            offset
        });
        let address = SRAM_BASE + offset * 4;
        linked.entries.insert(kernel.key, address / 4);
        linked.symbols.push(Symbol { address, name: kernel.key.to_string() });
    }
    linked
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::KernelClass;

    #[test]
    fn equal_kernels_share_their_words() {
        let kernel = |rows, words: &[u32]| Kernel {
            key: KernelKey { class: KernelClass::Add, rows, accumulates: false },
            words: words.to_vec(),
            cycles: 0,
        };
        let kernels = [kernel(1, &[7, 8]), kernel(2, &[9]), kernel(3, &[7, 8])];
        let linked = link(&(vec![1], BTreeMap::new()), &kernels);
        assert_eq!(linked.words, [1, 7, 8, 9]);
        assert_eq!(linked.entry(kernels[0].key), linked.entry(kernels[2].key));
        assert_eq!(linked.symbols.len(), 3);
    }
}
