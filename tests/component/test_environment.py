"""hack/run: the one door to the project's environment, on machines of all kinds."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import make_venv

ROOT = Path(__file__).resolve().parents[2]


class Clone:
    """A clone of the project with empty locks and a demo, and a user with an empty cache."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "clone of it"  # paths with blanks have to work
        (self.root / "hack").mkdir(parents=True)
        for name in ("run", "make_venv.py"):
            shutil.copy(ROOT / "hack" / name, self.root / "hack" / name)
        self.lock = self.root / "requirements-dev.lock"
        self.lock.write_text("# nothing\n")
        self.operators_lock = self.root / "requirements.lock"
        self.operators_lock.write_text("# even less\n")
        (self.root / "hack" / "demo.py").write_text("import sys; print(sys.prefix)\n")
        self.cache = directory / "cache"

    def run(self, *command: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.root / "hack" / "run"), *command],
            env={
                "PATH": os.environ["PATH"],
                "PYTHON": sys.executable,
                "COPYRATOR_CACHE": str(self.cache),
                **environ,
            },
            capture_output=True,
            text=True,
            check=False,
        )

    def place(self, lock: Path | None = None) -> Path:
        """Where the environment of its developers' lock, or of another one, belongs."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("COPYRATOR_CACHE", str(self.cache))
            return make_venv.location(lock or self.lock)

    @property
    def environments(self) -> list[Path]:
        return [path.parent for path in self.cache.glob("venv-*/complete")]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Clone, str]:
    """A clone whose environment is there, and what was said while it was made.

    It was begun before, and interrupted.
    """
    clone = Clone(tmp_path_factory.mktemp("built"))
    interrupted = clone.place()
    interrupted.mkdir(parents=True)
    (interrupted / "rest of the interrupted one").touch()
    first = clone.run("true")
    assert first.returncode == 0, first.stderr
    return clone, first.stderr


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


def test_it_makes_the_environment_once_afresh_and_runs_in_it(built: tuple[Clone, str]) -> None:
    clone, said = built
    assert clone.environments == [clone.place()]
    assert not (clone.place() / "rest of the interrupted one").exists()
    first, last = said.splitlines()  # nothing of pip's
    assert first.startswith("Setting up Python ")
    assert re.fullmatch(r"Set up in \d+ s\.", last)
    again = clone.run("python", "-c", "import sys; print(sys.prefix)")
    assert [Path(again.stdout.strip())] == clone.environments
    assert again.stderr == ""
    assert clone.run("sh", "-c", "exit 42").returncode == 42
    assert clone.run("pwd").stdout.strip() == str(Path.cwd())


@pytest.mark.parametrize(
    ("command", "lock"),
    [
        ("copyrator", "requirements.lock"),
        ("copyrator get rules -A", "requirements.lock"),
        ("python -m copyrator ui", "requirements.lock"),
        ("python -c from copyrator import cli", "requirements.lock"),
        ("python -m localcluster push chart", "requirements.lock"),
        ("python -m bench burst", "requirements-dev.lock"),
        ("pytest -m demo", "requirements-dev.lock"),
        ("", "requirements-dev.lock"),
    ],
)
def test_what_runs_the_operator_alone_asks_for_its_lock(
    clone: Clone, command: str, lock: str
) -> None:
    (clone.root / "hack" / "make_venv.py").write_text("import sys; sys.exit(str(sys.argv[1:]))\n")
    assert clone.run(*command.split()).stderr == f"['{lock}']\n"


def test_without_a_suitable_python_it_says_what_to_install(clone: Clone, tmp_path: Path) -> None:
    path = tmp_path / "bin"
    path.mkdir()
    for name in ("sh", "dirname", "cat", "cksum"):
        (path / name).symlink_to(shutil.which(name) or name)
    dead = path / "python3.12"  # as pyenv leaves them: there, but it doesn't run
    dead.write_text("#!/bin/sh\nexit 127\n")
    dead.chmod(0o755)
    result = clone.run("true", PATH=str(path), PYTHON="")
    assert result.returncode == 1
    assert "No Python 3.11 to 3.14" in result.stderr
    assert "apt-get install python3 python3-venv" in result.stderr
    named = clone.run("true", PYTHON=str(dead))
    assert named.returncode == 1
    assert f"PYTHON={dead} is not a Python 3.11 to 3.14" in named.stderr
