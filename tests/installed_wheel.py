"""The wheel, installed beside what it depends on, without a package index."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]


def installed(wheel: Path, venv: Path) -> Path:
    """The programs of an environment with the wheel, and links to these tests' own dependencies."""
    run(sys.executable, "-m", "venv", "--without-pip", str(venv))
    (site,) = (venv / "lib").glob("python3.*/site-packages")
    for name in needed():
        for top in top_level(name):
            (site / top).symlink_to(Path(sysconfig.get_path("purelib"), top))
    pip(venv / "bin", "install", "--no-deps", "--no-index", "--force-reinstall", str(wheel))
    return venv / "bin"


def top_level(name: str) -> set[str]:
    """The files and folders that a package has in site-packages."""
    files = importlib.metadata.files(name) or ()
    return {path.parts[0] for path in files} - {"..", "__pycache__"}


def needed() -> set[str]:
    """What the project depends on, also indirectly, on this Python."""
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    found: set[str] = set()
    waiting = [Requirement(line) for line in dependencies]
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        if name not in found and (not wanted.marker or wanted.marker.evaluate({"extra": ""})):
            found.add(name)
            waiting += map(Requirement, importlib.metadata.requires(name) or ())
    return found


def pip(bin_folder: Path, *command: str) -> str:
    """Run these tests' pip for another environment."""
    python = str(bin_folder / "python")
    return run(sys.executable, "-m", "pip", "--quiet", "--python", python, *command)


def run(*command: str) -> str:
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout
