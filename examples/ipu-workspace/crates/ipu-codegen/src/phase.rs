//! Times the phases of a build.

use crate::CompileError;
use std::time::{Duration, Instant};
use tracing::Span;

/// Runs one phase inside a span of its name and reports its time.
pub(crate) fn build_phase<T>(
    phase: &'static str,
    build: impl FnOnce() -> Result<T, CompileError>,
) -> Result<T, CompileError> {
    let span = span(phase);
    let _entered = span.enter();
    let started = Instant::now();
    let result = build();
    report(phase, started.elapsed(), result.is_ok());
    result
}

fn span(phase: &'static str) -> Span {
    tracing::info_span!("ipu_codegen.package.phase", phase)
}

fn report(phase: &'static str, elapsed: Duration, success: bool) {
    let elapsed_ms = elapsed.as_millis() as u64;
    tracing::info!(phase, elapsed_ms, success, "package build phase finished");
}
