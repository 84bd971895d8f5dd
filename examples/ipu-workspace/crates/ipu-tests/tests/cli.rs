//! The program as its users start it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{self, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

const CONFIGURATION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../c600-init.ipucfg");
const WAITING: &str = "waiting for hardware ownership";
const ACQUIRED: &str = "acquired hardware ownership";
const LAST_PHASE: &str = "phase=\"build_tile_images\"";
const OPENED: &str = "opened stand-in device";
const PASSED: &str = "hardwareTest=PASS";

/// A folder of one test with a file that stands in for a device.
struct Folder {
    path: PathBuf,
}

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("ipu-tests-{}-{number}", process::id()));
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("device"), "").unwrap();
        Self { path }
    }

    /// The program in this folder, with nothing inherited that it reads.
    fn program(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ipu-trivial-test"));
        command.current_dir(&self.path).env("NO_COLOR", "1");
        for name in ["POPLAR_SDK_ENABLED", "RUST_LOG", "RUST_BACKTRACE", "IPU_LOG_FORMAT"] {
            command.env_remove(name);
        }
        command
    }

    fn compile(&self) -> Command {
        let mut command = self.program();
        command.args([CONFIGURATION, "--package", "model.ipuexe"]);
        command
    }

    /// The small diagnostic workload.
    fn diagnostic(&self) -> Command {
        let mut command = self.compile();
        command.args(["--tiles", "64"]);
        command
    }

    /// The same on the device of this folder, under its lock.
    fn command(&self) -> Command {
        let mut command = self.diagnostic();
        command.args(["--device", "device", "--device-lock", "device.lock"]);
        command
    }

    fn has(&self, name: &str) -> bool {
        self.path.join(name).exists()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.path).ok();
    }
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn assert_fails(command: &mut Command, message: &str) {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(stderr.contains(message), "{stderr}");
}

#[test]
fn inspection_touches_neither_device_nor_lock() {
    let folder = Folder::new();
    let output = folder.command().args(["--inspect-exchanges"]).output().unwrap();
    let log = stdout(&output);
    assert!(output.status.success());
    assert!(log.contains("exchangeRows="), "{log}");
    assert!(!log.contains("ownership") && !log.contains(OPENED) && !log.contains(PASSED));
    assert!(folder.has("model.ipuexe") && !folder.has("device.lock"));
}

#[test]
fn the_lock_is_taken_between_compiling_and_opening() {
    let folder = Folder::new();
    let output = folder.command().output().unwrap();
    let log = stdout(&output);
    assert!(output.status.success(), "{log}");
    let places: Vec<_> = [LAST_PHASE, "wrote package", WAITING, ACQUIRED, OPENED, PASSED]
        .map(|t| log.find(t))
        .into();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{log}");
    assert!(log.contains("package=model.ipuexe tiles=64 hardwareTest=PASS"));
    assert_eq!(fs::read(folder.path.join("device.lock")).unwrap(), b"");
}

#[test]
fn a_held_lock_is_waited_for() {
    let folder = Folder::new();
    let lock = File::create(folder.path.join("device.lock")).unwrap();
    lock.lock().unwrap();
    let mut child = folder.command().stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains(WAITING)));
    assert_eq!(child.try_wait().unwrap(), None);
    lock.unlock().unwrap();
    let rest: Vec<String> = lines.collect();
    assert!(rest[0].contains(ACQUIRED) && rest.last().unwrap().contains(PASSED), "{rest:?}");
    assert!(child.wait().unwrap().success());
}

#[test]
fn without_a_lock_file_nothing_is_locked() {
    let folder = Folder::new();
    let output = folder.diagnostic().args(["--device", "device"]).output().unwrap();
    assert!(output.status.success());
    assert!(!stdout(&output).contains("ownership"));
}

#[test]
fn a_device_stays_occupied_for_as_long_as_asked() {
    let folder = Folder::new();
    let mut command = folder.command();
    let mut child =
        command.args(["--stand-in-hold-ms", "60000"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains(OPENED)));
    let lock = File::open(folder.path.join("device.lock")).unwrap();
    assert!(lock.try_lock().is_err());
    child.kill().unwrap();
    child.wait().unwrap();
    lock.try_lock().unwrap();
}

#[test]
fn missing_things_are_named() {
    let folder = Folder::new();
    assert_fails(folder.diagnostic().args(["--device", "none"]), "open device none");
    let lock = ["--device-lock", "none/device.lock"];
    assert_fails(folder.diagnostic().args(lock), "lock none/device.lock");
    assert!(folder.has("model.ipuexe") && !folder.has("none"));
    assert_fails(folder.command().args(["--sdk", "none"]), "no bin/popc there");
    fs::write(folder.path.join("bad.ipucfg"), "IPUCFG9").unwrap();
    assert_fails(folder.program().arg("bad.ipucfg"), "expected the header IPUCFG1");
    assert_fails(folder.program().arg("none.ipucfg"), "read none.ipucfg");
}

#[test]
fn wrong_requests_are_refused() {
    let folder = Folder::new();
    assert_fails(folder.compile().args(["--attention-batch", "2"]), "shape options require");
    assert_fails(folder.compile().args(["--attention-strategy", "best"]), "expected auto");
    assert_fails(folder.compile().args(["--tiles", "7"]), "7 tiles: expected a nonzero multiple");
    let attention = ["--workload", "siglip-attention-benchmark", "--tiles", "4"];
    assert_fails(
        folder.compile().args(attention),
        "planner rejected: no candidate fits in 4 tiles",
    );
    assert!(!folder.has("model.ipuexe"));
}

#[test]
fn the_log_can_be_json_or_silent() {
    let folder = Folder::new();
    let json = folder.command().env("IPU_LOG_FORMAT", "json").output().unwrap();
    let log = stdout(&json);
    let phase = log.lines().find(|line| line.contains("phase finished")).unwrap();
    assert!(phase.starts_with('{') && phase.contains("\"success\":true"), "{phase}");
    let quiet = folder.command().env("RUST_LOG", "warn").output().unwrap();
    assert!(!stdout(&quiet).contains("phase") && stdout(&quiet).contains(PASSED));
}

#[test]
fn an_sdk_is_reported() {
    let folder = Folder::new();
    fs::create_dir_all(folder.path.join("poplar/bin")).unwrap();
    fs::write(folder.path.join("poplar/bin/popc"), "").unwrap();
    let output = folder.command().env("POPLAR_SDK_ENABLED", "poplar").output().unwrap();
    assert!(stdout(&output).contains("found Poplar SDK sdk=poplar"));
}
