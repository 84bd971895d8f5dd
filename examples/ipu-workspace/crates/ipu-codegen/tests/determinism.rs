//! The bytes of a package depend on the program, and on nothing else.

use ipu_codegen::{
    AttentionShape, AttentionStrategy, CompilerConfig, MlpShape, Workload, build_package,
};
use ipu_target::Topology;
use rayon::ThreadPoolBuilder;

const ATTENTION: AttentionShape =
    AttentionShape { batch: 1, heads: 2, tokens: 50, head_width: 24, blocks: 1 };

fn attention(shape: AttentionShape) -> Workload {
    Workload::Attention { shape, strategy: AttentionStrategy::Automatic }
}

fn package(workload: Workload, threads: usize) -> Vec<u8> {
    let mut config = CompilerConfig::new(Topology::new(24).unwrap());
    (config.beam_width, config.candidate_limit) = (16, 48);
    let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let application = pool.install(|| build_package("test".into(), &workload, &config)).unwrap();
    application.validate().unwrap();
    let mut bytes = Vec::new();
    application.write(&mut bytes).unwrap();
    bytes
}

#[test]
fn threads_do_not_change_the_package() {
    let alone = package(attention(ATTENTION), 1);
    for threads in [2, 3, 16] {
        assert!(package(attention(ATTENTION), threads) == alone, "{threads} threads");
    }
}

#[test]
fn shapes_do() {
    let base = package(attention(ATTENTION), 2);
    let batch = AttentionShape { batch: 2, ..ATTENTION };
    let blocks = AttentionShape { blocks: 2, ..ATTENTION };
    let mlp = MlpShape { batch: 1, tokens: 40, width: 64, hidden: 160 };
    for other in [attention(batch), attention(blocks), Workload::Mlp(mlp)] {
        assert!(package(other, 2) != base, "{other:?}");
    }
}
