//! The compiler: from a computation to a package, phase by phase.

use crate::CompileError;
use crate::config::{AttentionStrategy, CompilerConfig};
use crate::exchange::{
    ExchangePhase, ProvisionalPhase, TileRow, encode_rows, plan_storage, provisional, schedule,
    total_row_words,
};
use crate::graph::{AttentionForm, AttentionShape, Graph, MlpShape};
use crate::kernel::{self, LinkedCode};
use crate::low::{BufferId, LowProgram};
use crate::phase::build_phase;
use crate::plan::{Finalist, search};
use crate::select::{Selection, select};
use crate::storage::{self, StoragePlan};
use crate::tile::{
    CountingSink, RowIndex, Sink, TileCode, TileProgram, Unplaced, build_image, build_program, emit,
};
use ipu_package::Application;
use ipu_target::Tile;
use ipu_target::memory::SRAM_BASE;
use rayon::prelude::*;

/// What to compile.
#[derive(Clone, Copy, Debug)]
pub enum Workload {
    Diagnostic { rows: u32, columns: u32 },
    Attention { shape: AttentionShape, strategy: AttentionStrategy },
    Mlp(MlpShape),
}

impl Workload {
    /// The graphs that compute it; the planner chooses one.
    fn graphs(&self) -> Vec<Graph> {
        match *self {
            Self::Diagnostic { rows, columns } => vec![Graph::diagnostic(rows, columns)],
            Self::Mlp(shape) => vec![Graph::mlp(shape)],
            Self::Attention { shape, strategy } => {
                let forms: &[AttentionForm] = match strategy {
                    AttentionStrategy::Automatic => {
                        &[AttentionForm::Flash, AttentionForm::Materialized]
                    }
                    AttentionStrategy::Flash => &[AttentionForm::Flash],
                    AttentionStrategy::Materialized => &[AttentionForm::Materialized],
                };
                forms.iter().map(|&form| Graph::attention(shape, form)).collect()
            }
        }
    }
}

/// Compiles a workload into a package of the given name.
pub fn build_package(
    name: String,
    workload: &Workload,
    config: &CompilerConfig,
) -> Result<Application, CompileError> {
    let topology = config.topology;
    let finalists = build_phase("lower_mid", || plan_workload(workload, config))?;
    let mut program = build_phase("select_finalist", || select_finalist(finalists, config))?;
    let runtime = build_phase("compile_runtime", || {
        kernel::assemble(include_str!("kernel/runtime.s")).map_err(CompileError::Runtime)
    })?;
    let keys = build_phase("plan_kernels", || Ok(kernel::plan(&program)))?;
    let kernels = build_phase("compile_kernels", || {
        Ok(keys.into_par_iter().map(kernel::build).collect::<Vec<_>>())
    })?;
    let linked = build_phase("link_runtime", || Ok(kernel::link(&runtime, &kernels)))?;
    let phases = build_phase("plan_exchange_storage", || plan_storage(&mut program))?;
    let provisional = build_phase("lower_exchanges_provisional", || {
        Ok(phases.par_iter().map(|phase| provisional(phase, topology)).collect::<Vec<_>>())
    })?;
    let sizes =
        build_phase("size_tile_code", || Ok(size_tiles(&program, &phases, &provisional, config)))?;
    let storage = build_phase("place_storage", || place_storage(&program, &linked, &sizes))?;
    let rows = build_phase("lower_exchanges", || {
        Ok(lower_exchanges(&phases, &provisional, &storage, config))
    })?;
    let programs =
        build_phase("prepare_tile_code", || Ok(prepare_tiles(&program, &phases, config)))?;
    let rows = RowIndex::new(&rows);
    let address = SRAM_BASE + linked.bytes();
    let code = build_phase("emit_tile_code", || {
        let emit = |(program, size): (&TileProgram, &TileSize)| {
            TileCode::emit(program, &linked, &storage.addresses, &rows, address, size.code_words)
        };
        Ok(programs.par_iter().zip(&sizes).map(emit).collect::<Vec<_>>())
    })?;
    let tiles = build_phase("build_tile_images", || {
        Ok(code.par_iter().map(|code| build_image(code, &rows, topology, address)).collect())
    })?;
    Ok(Application { name, common: linked.words, symbols: linked.symbols, tiles })
}

fn plan_workload(
    workload: &Workload,
    config: &CompilerConfig,
) -> Result<Vec<Finalist>, CompileError> {
    let searched: Vec<_> =
        workload.graphs().par_iter().map(|graph| search(graph, config)).collect();
    let mut finalists = Vec::new();
    let mut rejection = None;
    for result in searched {
        match result {
            Ok(found) => finalists.extend(found),
            Err(error) => rejection = Some(error),
        }
    }
    if let (true, Some(error)) = (finalists.is_empty(), rejection) {
        return Err(error);
    }
    finalists.sort_by_key(|finalist| (finalist.cost, finalist.peak_words));
    finalists.truncate(config.finalists);
    for (index, finalist) in finalists.iter().enumerate() {
        tracing::info!(
            finalist = index,
            operations = finalist.candidates.len(),
            estimated_cycles = finalist.cost.cycles,
            estimated_exchange_cycles = finalist.cost.exchange_cycles,
            peak_total_bytes = finalist.peak_words * 4,
            "retained operator-plan finalist"
        );
    }
    Ok(finalists)
}

fn select_finalist(
    finalists: Vec<Finalist>,
    config: &CompilerConfig,
) -> Result<LowProgram, CompileError> {
    let Selection { finalist, refined_cycles, program } =
        select(&finalists, config.topology).expect("the planner retains at least one finalist");
    let chosen = &finalists[finalist];
    tracing::info!(
        estimated_cycles = chosen.cost.cycles,
        estimated_exchange_cycles = chosen.cost.exchange_cycles,
        refined_cycles,
        "selected analytical operator plan"
    );
    tracing::info!(
        steps = program.steps.len(),
        buffers = program.buffers.len(),
        transfers = program.transfer_count(),
        "built logical tile schedule"
    );
    for (operation, candidate) in chosen.graph.operations.iter().zip(&chosen.candidates) {
        tracing::debug!(
            result = chosen.graph.values[operation.result.index()].name,
            scheme = ?candidate.scheme,
            cycles = candidate.cost.cycles,
            "selected mid-level operation"
        );
    }
    Ok(program)
}

/// The most words that a tile's code and rows can take.
#[derive(Clone, Copy, Debug)]
struct TileSize {
    code_words: u32,
    row_words: u32,
}

impl TileSize {
    fn bytes(&self) -> u32 {
        (self.code_words + self.row_words) * 4
    }
}

fn size_tiles(
    program: &LowProgram,
    phases: &[ExchangePhase],
    provisional: &[ProvisionalPhase],
    config: &CompilerConfig,
) -> Vec<TileSize> {
    let row_words = total_row_words(provisional, usize::from(config.topology.tile_count()));
    row_words
        .into_par_iter()
        .enumerate()
        .map(|(tile, row_words)| {
            let tile_program = build_program(program, phases, Tile(tile as u16));
            let mut sink = CountingSink::default();
            emit(&tile_program, &Unplaced, &mut sink);
            TileSize { code_words: sink.position(), row_words }
        })
        .collect()
}

fn place_storage(
    program: &LowProgram,
    linked: &LinkedCode,
    sizes: &[TileSize],
) -> Result<StoragePlan, CompileError> {
    let largest = sizes.iter().map(TileSize::bytes).max().unwrap_or(0);
    let plan = storage::place(&program.buffers, linked.bytes() + largest)?;
    tracing::info!(
        buffers = program.buffers.len(),
        trials = plan.trials,
        code_and_row_bytes = linked.bytes() + largest,
        peak_bytes = plan.peak_bytes,
        "placed storage"
    );
    Ok(plan)
}

fn lower_exchanges(
    phases: &[ExchangePhase],
    provisional: &[ProvisionalPhase],
    storage: &StoragePlan,
    config: &CompilerConfig,
) -> Vec<Vec<TileRow>> {
    let address = |buffer: BufferId| storage.addresses[buffer.index()];
    let lowered: Vec<(u32, Vec<TileRow>)> = phases
        .par_iter()
        .zip(provisional)
        .map(|(phase, provisional)| {
            let schedule = schedule(phase, provisional, config.topology);
            (schedule.horizon, encode_rows(phase, &schedule, config.topology, address))
        })
        .collect();
    tracing::info!(
        exchange_phases = lowered.len(),
        transfers = phases.iter().map(|phase| phase.transfers.len()).sum::<usize>(),
        scheduled_exchange_cycles =
            lowered.iter().map(|(horizon, _)| u64::from(*horizon)).sum::<u64>(),
        "scheduled exchanges"
    );
    lowered.into_iter().map(|(_, rows)| rows).collect()
}

fn prepare_tiles(
    program: &LowProgram,
    phases: &[ExchangePhase],
    config: &CompilerConfig,
) -> Vec<TileProgram> {
    let tiles: Vec<Tile> = config.topology.tiles().collect();
    tiles.into_par_iter().map(|tile| build_program(program, phases, tile)).collect()
}
