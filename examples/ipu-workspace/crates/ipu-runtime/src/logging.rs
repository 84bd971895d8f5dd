//! The log on standard output.

use std::env;
use std::str::FromStr;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::layer;
use tracing_subscriber::prelude::*;

/// Logs to standard output: `RUST_LOG` selects what (everything of level info
/// and above if it is absent or unreadable), `IPU_LOG_FORMAT=json` how.
///
/// The formatter colours its lines, in a file too, unless `NO_COLOR` is set.
pub fn init_tracing() {
    let filter = env::var("RUST_LOG")
        .ok()
        .and_then(|directives| Targets::from_str(&directives).ok())
        .unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO));
    let json = env::var("IPU_LOG_FORMAT").as_deref() == Ok("json");
    let lines = layer().with_target(false);
    let lines = if json { lines.json().boxed() } else { lines.boxed() };
    // A second call, as in tests, leaves the first subscriber in place.
    tracing_subscriber::registry().with(lines).with(filter).try_init().ok();
}
