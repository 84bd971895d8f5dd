//! Compiles a workload, writes and re-reads its package, and then either
//! summarizes it or hands it to the device.

mod arguments;
mod configuration;
mod inspect;
mod options;

use anyhow::{Context, Result, ensure};
use arguments::{Arguments, Command};
use configuration::Configuration;
use inspect::inspect_exchange_rows;
use ipu_codegen::{CompilerConfig, build_package};
use ipu_package::Application;
use ipu_runtime::{Device, init_tracing, lock_device};
use ipu_target::Topology;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::Path;
use std::process::ExitCode;

/// Exit status of a command line that cannot be understood.
const USAGE: u8 = 2;

fn main() -> Result<ExitCode> {
    init_tracing();
    match Command::from_env() {
        Ok(Command::Run(arguments)) => run(&arguments)?,
        Ok(Command::Print(text)) => print!("{text}"),
        Err(error) => {
            eprintln!("Error: {error}\n\nFor more information, try '--help'.");
            return Ok(ExitCode::from(USAGE));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn run(arguments: &Arguments) -> Result<()> {
    let configuration = Configuration::read(&arguments.configuration)?;
    check_sdk(arguments.sdk.as_deref())?;
    let mut config = CompilerConfig::new(Topology::new(arguments.tiles)?);
    config.products = arguments.products;
    tracing::info!(
        workload = arguments.name,
        tiles = arguments.tiles,
        threads = rayon::current_num_threads(),
        configuration_writes = configuration.writes.len(),
        "building package with the stand-in compiler"
    );
    let built = build_package(arguments.name.clone(), &arguments.workload, &config)?;
    write_package(&built, &arguments.package)?;
    drop(built);
    let application = read_package(&arguments.package)?;
    if arguments.inspect_exchanges {
        println!("{}", inspect_exchange_rows(&application)?);
        return Ok(());
    }
    execute(arguments, &application)?;
    println!(
        "package={} tiles={} hardwareTest=PASS",
        arguments.package.display(),
        application.tiles.len()
    );
    Ok(())
}

/// Code generation needs nothing of an SDK, but a wrong path is better found
/// here than by the next program that trusts it.
fn check_sdk(sdk: Option<&Path>) -> Result<()> {
    match sdk {
        Some(sdk) => {
            let compiler = sdk.join("bin/popc");
            ensure!(compiler.is_file(), "--sdk {}: no bin/popc there", sdk.display());
            tracing::info!(sdk = %sdk.display(), "found Poplar SDK");
        }
        None => tracing::warn!("no Poplar SDK: POPLAR_SDK_ENABLED is not set"),
    }
    Ok(())
}

fn write_package(application: &Application, path: &Path) -> Result<()> {
    let file = File::create(path).with_context(|| format!("create {}", path.display()))?;
    application.write(BufWriter::new(file)).with_context(|| format!("write {}", path.display()))?;
    tracing::info!(
        package = %path.display(),
        payload_bytes = application.payload_bytes(),
        "wrote package"
    );
    Ok(())
}

fn read_package(path: &Path) -> Result<Application> {
    let file = File::open(path).with_context(|| format!("open {}", path.display()))?;
    Application::read(BufReader::new(file)).with_context(|| format!("read {}", path.display()))
}

/// Occupies the device, if asked to under its lock, for as long as it is used.
fn execute(arguments: &Arguments, application: &Application) -> Result<()> {
    let _lock = arguments
        .device_lock
        .as_deref()
        .map(|path| lock_device(path).with_context(|| format!("lock {}", path.display())))
        .transpose()?;
    let device = Device::open(&arguments.device)
        .with_context(|| format!("open device {}", arguments.device.display()))?;
    device.execute(application, arguments.hold)?;
    println!(
        "workload={} tiles={} payloadBytes={} standIn=true",
        application.name,
        application.tiles.len(),
        application.payload_bytes()
    );
    Ok(())
}
