"""Runs the tests while the machine is busy with something else: `make test-busy`.

On each core a process only counts. Beside that it runs `make test` in a new clone of what is
committed here, then the unit and component tests, files and tests within a file in random order.
Output goes to a log, whose name, with each run's result and seed, is printed.
"""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "build" / "busy"
COUNT = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(10**6))"
"""What a core does; it ends with this process."""


def main() -> int:
    """Run what is asked for; 1 where a run failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--whole", type=int, default=1, help="runs of `make test`")
    parser.add_argument("--shuffled", type=int, default=5, help="runs in random order")
    parser.add_argument("--seed", type=int, help="of the first of these; each has the next one")
    parser.add_argument("--workers", type=int, default=4, help="of a run in random order")
    chosen = parser.parse_args()
    seed = secrets.randbelow(10**6) if chosen.seed is None else chosen.seed
    shuffled = [
        f"hack/run pytest -n {chosen.workers} --dist loadfile --no-loadscope-reorder "
        f"--shuffle {number} tests/unit tests/component"
        for number in range(seed, seed + chosen.shuffled)
    ]
    commands = ["make test"] * chosen.whole + shuffled
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / time.strftime("%Y%m%d-%H%M%S.log", time.gmtime())
    print(f"The log is {log.relative_to(ROOT)}", flush=True)
    if git("status", "--porcelain"):
        print("What isn't committed isn't tested: the runs are those of a clone.", flush=True)
    with busy_cores(), tempfile.TemporaryDirectory(prefix="copyrator-busy-") as directory:
        results = [
            run(command, Path(directory) / f"{n}", log) for n, command in enumerate(commands)
        ]
    return int(not all(results))


@contextmanager
def busy_cores() -> Iterator[None]:
    """Let all cores work."""
    cores = [subprocess.Popen([sys.executable, "-c", COUNT]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for core in cores:
            core.kill()
            core.wait()


def run(command: str, clone: Path, log: Path) -> bool:
    """Run a command in a new clone; whether it succeeded."""
    git("clone", "--quiet", str(ROOT), str(clone))
    # As from a person's shell, not from this make.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    begun = time.monotonic()
    with log.open("a") as output:
        output.write(f"\n$ {command}  # {git('rev-parse', 'HEAD')}\n")
        output.flush()
        done = subprocess.run(
            command.split(), cwd=clone, env=environment, stdout=output, stderr=output, check=False
        )
        result = "passed" if done.returncode == 0 else f"FAILED ({done.returncode})"
        text = f"{result} after {time.monotonic() - begun:.0f} s: {command}"
        output.write(f"{text}\n")
    print(text, flush=True)
    return done.returncode == 0


def git(*arguments: str) -> str:
    """What git says."""
    said = subprocess.run(["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE)
    return said.stdout.decode().strip()


if __name__ == "__main__":
    sys.exit(main())
