# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "invoke>=3.0",
#   "multi-demangle>=2.1",
#   "nox>=2025.2.9",
#   "numpy>=2.0",
#   "platformdirs>=4.3",
#   "pydantic>=2.10",
#   "pyelftools>=0.32",
#   "python-dotenv>=1.0",
#   "requests>=2.32",
#   "rich>=13.9",
#   "symbolic>=13",
#   "tomli>=2.2",
#   "typing-extensions>=4.12",
#   "zstandard>=0.23",
# ]
# ///
"""Nox sessions: one per variant of the profile, and what a developer of ipuenv needs.

The block above lets a nox that was installed alone find what ipuenv imports; it repeats pyproject.toml's dependencies.
"""

import importlib.util
import sys
from pathlib import Path

import nox

sys.path.insert(0, str(Path(__file__).parent))

from ipuenv.front import sessions

nox.options.sessions = ["tests", "lint", "types"]
nox.options.error_on_missing_interpreters = True

# Where the developer's packages are importable already, nothing is installed a second time.
HAS_DEV_PACKAGES = all(importlib.util.find_spec(name) for name in ("ipuenv", "mypy", "pytest"))
developer = nox.session(venv_backend="none" if HAS_DEV_PACKAGES else None)


def prepare(session: nox.Session) -> None:
    """Install ipuenv with its developer's packages where they are missing."""
    if not HAS_DEV_PACKAGES:
        session.install("-e", ".[dev]")


@developer
def tests(session: nox.Session) -> None:
    """Run the tests; arguments go to pytest."""
    prepare(session)
    session.run("python", "-m", "pytest", *session.posargs, external=True)


@developer
def lint(session: nox.Session) -> None:
    """Check style, format and the direction of imports."""
    prepare(session)
    session.run("python", "-m", "ruff", "check", external=True)
    session.run("python", "-m", "ruff", "format", "--check", external=True)
    session.run("lint-imports", external=True)


@developer
def types(session: nox.Session) -> None:
    """Check types, strictly."""
    prepare(session)
    session.run("python", "-m", "mypy", external=True)
    session.run("python", "-m", "mypy", "noxfile.py", "tasks.py", external=True)


@nox.session(venv_backend="none" if HAS_DEV_PACKAGES else None, default=False)
def benchmarks(session: nox.Session) -> None:
    """Measure ours against the peers; arguments go to the benchmark."""
    prepare(session)
    session.run("python", "-m", "benchmarks", *session.posargs, external=True)


@nox.session(venv_backend="none" if HAS_DEV_PACKAGES else None, default=False)
def torture(session: nox.Session) -> None:
    """Read thousands of damaged recordings; IPUENV_TORTURE_CASES and IPUENV_TORTURE_SEED set how many and which."""
    prepare(session)
    session.run("python", "-m", "pytest", "tests/torture", *session.posargs, external=True)


sessions.register()
