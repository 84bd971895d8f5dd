//! Logging, and the device with its lock.

mod device;
mod logging;

pub use device::{Device, lock_device};
pub use logging::init_tracing;
