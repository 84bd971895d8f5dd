//! The device, or what stands in for it: any file that can be opened.

use ipu_package::{Application, PackageError};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// Waits, without a limit, until no other process holds the lock file.
///
/// The file is made if it is missing, its folder is not. Nothing is ever
/// written into it. Dropping the returned file gives the lock up.
pub fn lock_device(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    tracing::info!(path = %path.display(), "waiting for hardware ownership");
    file.lock()?;
    tracing::info!(path = %path.display(), "acquired hardware ownership");
    Ok(file)
}

/// An open device.
#[derive(Debug)]
pub struct Device {
    _file: File,
}

impl Device {
    /// Opens a device for reading.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        tracing::info!(
            device = %path.display(),
            "opened stand-in device; the program is checked on the host and not executed"
        );
        Ok(Self { _file: file })
    }

    /// What stands in for an execution: every image is unpacked and its hash
    /// checked, and the device stays occupied for `hold`.
    pub fn execute(&self, application: &Application, hold: Duration) -> Result<(), PackageError> {
        application.validate()?;
        sleep(hold);
        tracing::info!(
            tiles = application.tiles.len(),
            held_ms = hold.as_millis() as u64,
            "stand-in execution finished"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::env::temp_dir;
    use std::fs;
    use std::process;

    #[test]
    fn the_lock_excludes_others_and_writes_nothing() {
        let path = temp_dir().join(format!("ipu-runtime-lock-{}", process::id()));
        fs::write(&path, "holder").unwrap();
        let held = lock_device(&path).unwrap();
        let other = File::open(&path).unwrap();
        assert!(other.try_lock().is_err());
        drop(held);
        other.try_lock().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "holder");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn the_folder_of_the_lock_is_not_made() {
        let path = temp_dir().join(format!("ipu-runtime-none-{}/device.lock", process::id()));
        assert_eq!(lock_device(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_missing_device_is_an_error() {
        let error = Device::open(Path::new("/nonexistent/ipu0")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
