"""How long help and task list take, against a bare Invoke; and which modules ours imports for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.paired import Command, compare

HEAVY = ("numpy", "pydantic", "symbolic", "rich", "requests", "zstandard", "elftools", "nox")


def run(folder: Path, runs: int) -> None:
    bare = folder / "bare"
    bare.mkdir(exist_ok=True)
    (bare / "tasks.py").write_text("from invoke import task\n\n\n@task\ndef hello(c):\n    '''Say hello.'''\n")
    peer = Command("bare invoke --list", (sys.executable, "-m", "invoke", "--list"))
    for words in (("--help",), ("--list",)):
        ours = Command(f"ipuenv {' '.join(words)}", (sys.executable, "-m", "ipuenv", *words))
        compare(ours, peer, runs=runs, cwd=bare)
    script = "import sys; from ipuenv.front.cli import program; program.run(['ipuenv', '--list'], exit=False)"
    listed = subprocess.run(
        [sys.executable, "-c", f"{script}; print('\\n'.join(sys.modules), file=sys.stderr)"],
        cwd=bare,
        check=True,
        capture_output=True,
        text=True,
    ).stderr.split()
    own = sorted(name for name in listed if name.split(".")[0] == "ipuenv")
    print(f"{len(listed)} modules are loaded for --list; of ipuenv: {', '.join(own)}")
    print(f"of the heavy ones: {', '.join(name for name in HEAVY if name in listed) or 'none'}")
