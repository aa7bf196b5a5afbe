"""Makes the project's virtual environment where it is missing and prints its path.

Standard library only, for any Python from 3.11 on. The environment holds the locked dependencies,
never the project itself, so that clones with the same lock share it: it lives in the user's cache
under the hash of the lock, the interpreter and the machine. An interrupted build leaves no stamp
and starts afresh; a lock file keeps two builders apart.

The only argument names another lock than the developers'. Where their environment is complete, it
serves that one too, having the same versions.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements-dev.lock"
TELL_EVERY_SECONDS = 5


def main(lock: Path = LOCK) -> int:
    """Print the environment's path; messages go to stderr."""
    venv = location(lock)
    if lock != LOCK and usable(location()):
        venv = location()
    if not usable(venv):
        try:
            with held(venv.with_suffix(".building")):
                if not usable(venv):  # another builder may have finished while we waited
                    build(venv, lock)
        except (OSError, subprocess.CalledProcessError) as error:
            tell(f"The environment {venv} couldn't be made: {error}")
            tell(
                "The lines above say why. The same command starts again; nothing is left half done."
            )
            return 1
        except KeyboardInterrupt:
            tell("Interrupted. The same command starts again.")
            return 130
    print(venv)
    return 0


def location(lock: Path = LOCK) -> Path:
    """Return where the environment of this lock, interpreter and machine is."""
    chosen = os.environ.get("COPYRATOR_CACHE")
    user = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(chosen) if chosen else Path(user) / "copyrator"
    version = platform.python_version()
    key = hashlib.sha256(lock.read_bytes())
    key.update(f"{version} {sys.base_prefix} {platform.machine()} {platform.libc_ver()}".encode())
    return cache.absolute() / f"venv-{version}-{key.hexdigest()[:16]}"


def stamp(venv: Path) -> Path:
    """Return the file that is written when everything else is there."""
    return venv / "complete"


def usable(venv: Path) -> bool:
    """Tell whether it is complete; an interpreter that was removed since makes it useless."""
    return stamp(venv).is_file() and (venv / "bin" / "python").exists()


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the lock file while the block runs; the system lets go of it if we are killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell(f"Another process makes {path.stem}; waiting for it ...")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def build(venv: Path, lock: Path) -> None:
    """Make the environment from the lock, hashes checked."""
    started = time.monotonic()
    tell(f"Setting up Python {platform.python_version()} in {venv} (once for each lock file) ...")
    shutil.rmtree(venv, ignore_errors=True)
    command = [sys.executable, "-m", "venv", str(venv)]
    created = subprocess.run(command, check=False, capture_output=True, text=True)
    if created.returncode != 0:
        shutil.rmtree(venv, ignore_errors=True)
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        tell((created.stdout + created.stderr).strip())
        tell(f"{sys.executable} can't make environments. Debian, Ubuntu: apt-get install {package}")
        raise subprocess.CalledProcessError(created.returncode, command)
    pip = [str(venv / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--no-input"]
    # The lock is complete. With dependencies, older pips take the newest version of what a package
    # asks for with an extra (pydantic[email]), and refuse it, since the lock has another.
    # Modules are compiled when they are imported: most of them, as kubernetes' models, never are.
    options = ["--no-compile", "--no-deps", "--require-hashes", "--requirement", str(lock)]
    run_pip([*pip, "install", *options], lock.read_text().count("=="))
    run_pip([*pip, "check"])
    stamp(venv).touch()
    tell(f"Set up in {time.monotonic() - started:.0f} s.")


def run_pip(command: list[str], packages: int = 0) -> None:
    """Run pip; say now and then how many packages it has, and what it printed only if it fails."""
    printed: list[str] = []
    started = last = time.monotonic()
    pipe, merged = subprocess.PIPE, subprocess.STDOUT
    with subprocess.Popen(command, stdout=pipe, stderr=merged, text=True) as pip:
        for line in pip.stdout or ():
            printed.append(line)
            if packages and (now := time.monotonic()) - last > TELL_EVERY_SECONDS:
                last = now
                collected = sum(each.startswith("Collecting ") for each in printed)
                tell(f"[{now - started:.0f} s] {collected} of {packages} packages")
    if pip.returncode != 0:
        tell("".join(printed).rstrip())
        raise subprocess.CalledProcessError(pip.returncode, command)


def tell(text: str) -> None:
    """Say something to the person who waits."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main(*(ROOT / name for name in sys.argv[1:])))
