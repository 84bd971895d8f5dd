//! The command line of the program.

use crate::options::{OptionSpec, Options, Request, help};
use anyhow::{Context, Result, bail};
use ipu_codegen::{AttentionProducts, AttentionShape, AttentionStrategy, MlpShape, Workload};
use lexopt::Parser;
use std::env;
use std::path::PathBuf;
use std::time::Duration;

const SIGLIP_TOKENS: u32 = 729;
const SIGLIP_HEAD_WIDTH: u32 = 72;
const SIGLIP_WIDTH: u32 = 1152;
const SIGLIP_HIDDEN: u32 = 4304;
const DIAGNOSTIC_COLUMNS: u32 = 64;
/// Beyond this a compilation takes hours, to no use.
const LARGEST_EXTENT: u32 = 64;
const SDK_VARIABLE: &str = "POPLAR_SDK_ENABLED";

const ATTENTION: &str = "siglip-attention-benchmark";
const MLP: &str = "siglip-mlp-benchmark";
const DIAGNOSTIC: &str = "diagnostic";

/// Shape options and the one workload that they belong to.
const SHAPE_OPTIONS: [(&str, &str); 4] = [
    ("attention-batch", ATTENTION),
    ("attention-heads", ATTENTION),
    ("attention-blocks", ATTENTION),
    ("mlp-batch", MLP),
];

const OPTIONS: [OptionSpec; 14] = [
    option("sdk", "DIR", "Poplar component of the SDK [env: POPLAR_SDK_ENABLED]"),
    with_default("device", "PATH", "/dev/ipu0", "Device to open"),
    option("device-lock", "PATH", "Serialize device access after compilation"),
    with_default("package", "PATH", "/tmp/ipu-trivial.ipuexe", "Package to write"),
    OptionSpec {
        name: "inspect-exchanges",
        value: None,
        default: None,
        help: "Summarize packaged exchange rows and exit before opening the device",
    },
    with_default("tiles", "COUNT", "1472", "Tiles to plan for"),
    with_default(
        "workload",
        "NAME",
        DIAGNOSTIC,
        "diagnostic, siglip-mlp-benchmark or siglip-attention-benchmark",
    ),
    with_default("attention-batch", "COUNT", "1", "Independent attention batches"),
    with_default("attention-heads", "COUNT", "16", "Attention heads"),
    with_default("attention-blocks", "COUNT", "1", "Sequential attention blocks"),
    with_default("attention-strategy", "NAME", "auto", "auto, flash or materialized"),
    with_default("attention-products", "NAME", "auto", "auto, head-split or row-split"),
    with_default("mlp-batch", "COUNT", "4", "Independent perceptron batches"),
    with_default("stand-in-hold-ms", "MS", "0", "Keep the stand-in device open for this long"),
];

const fn option(name: &'static str, value: &'static str, help: &'static str) -> OptionSpec {
    OptionSpec { name, value: Some(value), default: None, help }
}

const fn with_default(
    name: &'static str,
    value: &'static str,
    default: &'static str,
    help: &'static str,
) -> OptionSpec {
    OptionSpec { name, value: Some(value), default: Some(default), help }
}

/// What the program was asked to do.
#[derive(Clone, Debug)]
pub struct Arguments {
    pub configuration: PathBuf,
    pub sdk: Option<PathBuf>,
    pub device: PathBuf,
    pub device_lock: Option<PathBuf>,
    pub package: PathBuf,
    pub inspect_exchanges: bool,
    pub tiles: u32,
    pub products: AttentionProducts,
    pub name: String,
    pub workload: Workload,
    pub hold: Duration,
}

/// What to do, or what to print instead.
#[derive(Clone, Debug)]
pub enum Command {
    Run(Box<Arguments>),
    Print(String),
}

impl Command {
    /// Reads the process's command line.
    pub fn from_env() -> Result<Self> {
        Self::parse(Parser::from_env())
    }

    fn parse(parser: Parser) -> Result<Self> {
        Ok(match Options::parse(&OPTIONS, parser)? {
            Request::Run(options) => Self::Run(Box::new(Arguments::new(&options)?)),
            Request::Version => {
                Self::Print(concat!("ipu-trivial-test ", env!("CARGO_PKG_VERSION"), "\n").into())
            }
            Request::Help => Self::Print(format!(
                "Compile a workload for IPU tiles (a stand-in: nothing runs on a device)\n\n\
                 Usage: ipu-trivial-test [OPTIONS] <CONFIGURATION>\n\n\
                 Arguments:\n  <CONFIGURATION>  IPUCFG1 device configuration\n\n{}",
                help(&OPTIONS)
            )),
        })
    }
}

impl Arguments {
    fn new(options: &Options) -> Result<Self> {
        let workload: String = options.value("workload")?;
        check_shape_options(options, &workload)?;
        let (name, workload) = workload_of(options, &workload)?;
        let path = |name| options.path(name).with_context(|| format!("'--{name}' has a default"));
        Ok(Self {
            configuration: options
                .positional
                .as_ref()
                .map(PathBuf::from)
                .context("the argument <CONFIGURATION> is missing")?,
            sdk: options.path("sdk").or_else(|| env::var_os(SDK_VARIABLE).map(PathBuf::from)),
            device: path("device")?,
            device_lock: options.path("device-lock"),
            package: path("package")?,
            inspect_exchanges: options.flag("inspect-exchanges"),
            tiles: options.value("tiles")?,
            products: options.value("attention-products")?,
            name,
            workload,
            hold: Duration::from_millis(options.value("stand-in-hold-ms")?),
        })
    }
}

/// Shape options of workloads that were not selected must keep their defaults.
fn check_shape_options(options: &Options, selected: &str) -> Result<()> {
    for (name, workload) in SHAPE_OPTIONS {
        if workload != selected && !options.is_default(name) {
            let family = name.split('-').next().unwrap_or_default();
            bail!("--{family}-* shape options require --workload {workload}");
        }
    }
    Ok(())
}

/// The workload and the name under which results are printed.
fn workload_of(options: &Options, workload: &str) -> Result<(String, Workload)> {
    let number = |name| options.number(name, 1..=LARGEST_EXTENT);
    // Read in any case, so that a misspelt value is never passed over.
    let strategy: AttentionStrategy = options.value("attention-strategy")?;
    Ok(match workload {
        ATTENTION => {
            let shape = AttentionShape {
                batch: number("attention-batch")?,
                heads: number("attention-heads")?,
                tokens: SIGLIP_TOKENS,
                head_width: SIGLIP_HEAD_WIDTH,
                blocks: number("attention-blocks")?,
            };
            let name = format!(
                "siglip-attention-f16-b{}-h{}-t{SIGLIP_TOKENS}-d{SIGLIP_HEAD_WIDTH}-n{}",
                shape.batch, shape.heads, shape.blocks
            );
            (name, Workload::Attention { shape, strategy })
        }
        MLP => {
            let shape = MlpShape {
                batch: number("mlp-batch")?,
                tokens: SIGLIP_TOKENS,
                width: SIGLIP_WIDTH,
                hidden: SIGLIP_HIDDEN,
            };
            let name = format!(
                "siglip-mlp-f16-b{}-t{SIGLIP_TOKENS}-d{SIGLIP_WIDTH}-h{SIGLIP_HIDDEN}",
                shape.batch
            );
            (name, Workload::Mlp(shape))
        }
        DIAGNOSTIC => {
            let (rows, columns) = (options.value("tiles")?, DIAGNOSTIC_COLUMNS);
            (DIAGNOSTIC.to_owned(), Workload::Diagnostic { rows, columns })
        }
        other => bail!(
            "invalid value '{other}' for '--workload': expected {DIAGNOSTIC}, {MLP} or {ATTENTION}"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(words: &[&str]) -> Result<Arguments> {
        match Command::parse(Parser::from_args(words))? {
            Command::Run(arguments) => Ok(*arguments),
            Command::Print(text) => bail!(text),
        }
    }

    fn message(words: &[&str]) -> String {
        arguments(words).unwrap_err().to_string()
    }

    #[test]
    fn the_benchmark_command_line_is_understood() {
        let line = "c600-init.ipucfg --device-lock artifacts/layout-sweep/device.lock \
                    --package artifacts/compiler-perf/flamegraph/model.ipuexe \
                    --workload siglip-attention-benchmark --attention-strategy auto \
                    --attention-batch 1 --attention-products auto --inspect-exchanges";
        let words: Vec<&str> = line.split_whitespace().collect();
        let arguments = arguments(&words).unwrap();
        assert!(arguments.inspect_exchanges);
        assert_eq!(arguments.name, "siglip-attention-f16-b1-h16-t729-d72-n1");
        assert_eq!(arguments.device, PathBuf::from("/dev/ipu0"));
    }

    #[test]
    fn shape_options_need_their_workload() {
        let with_batch =
            |option, workload| arguments(&["c.ipucfg", option, "2", "--workload", workload]);
        assert!(with_batch("--attention-batch", ATTENTION).is_ok());
        assert!(with_batch("--mlp-batch", MLP).is_ok());
        let error = with_batch("--attention-batch", MLP).unwrap_err().to_string();
        assert_eq!(
            error,
            "--attention-* shape options require --workload siglip-attention-benchmark"
        );
        assert!(with_batch("--mlp-batch", ATTENTION).is_err());
    }

    #[test]
    fn unknown_values_are_explained() {
        let best = message(&["c.ipucfg", "--attention-strategy", "best"]);
        assert!(best.ends_with("expected auto, flash or materialized"), "{best}");
        assert!(message(&["c.ipucfg", "--workload", "nothing"]).contains("expected diagnostic"));
        assert!(message(&[]).contains("<CONFIGURATION>"));
    }

    #[test]
    fn help_names_every_option() {
        let text = message(&["--help"]);
        assert!(OPTIONS.iter().all(|spec| text.contains(&format!("--{}", spec.name))));
        assert!(message(&["-V"]).starts_with("ipu-trivial-test 0"));
    }
}
