"""Engine: perf.data to pictures. Takes bytes and paths, starts no process, knows nothing of cargo, SDKs or runs."""
