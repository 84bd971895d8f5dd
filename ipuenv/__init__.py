"""Profile multi-threaded Rust programs beside a scarce device, reproducibly."""

__version__ = "0.1.0"
