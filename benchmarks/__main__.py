"""``python -m benchmarks [render|startup]... [--runs N]``: ours against the peers, on this machine, now."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from benchmarks import render, startup

BENCHMARKS = {"startup": startup.run, "render": render.run}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which of {', '.join(BENCHMARKS)}; default: all")
    parser.add_argument("--runs", type=int, default=5, help="counted pairs (default 5)")
    parser.add_argument("--folder", type=Path, default=Path("target/benchmarks"), help="where recordings are kept")
    options = parser.parse_args()
    folder = options.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    for name in options.names or BENCHMARKS:
        if name not in BENCHMARKS:
            parser.error(f"there is no benchmark '{name}': choose from {', '.join(BENCHMARKS)}")
        print(f"--- {name}, {os.cpu_count()} CPUs")
        BENCHMARKS[name](folder, options.runs)


if __name__ == "__main__":
    main()
