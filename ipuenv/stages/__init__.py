"""Stages of a run: SDK environment, build, lock, perf, store. Each does one step and knows no other."""
