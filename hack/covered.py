"""Which lines and branches of each package the unit and component tests run: `make coverage`.

Child processes of tests count where they inherit the environment; tests of time and memory are
left out, since measuring takes both. The report by line is build/coverage/html/index.html.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "coverage"
CONFIGURATION = """\
[run]
branch = true
source_pkgs = copyrator
data_file = {work}/data
parallel = true
patch = subprocess
disable_warnings = module-not-imported, no-data-collected
[html]
directory = {work}/html
[json]
output = {work}/report.json
"""
TESTS = ["pytest", "-n", "4", "--dist", "loadfile", "-m", "not measures", "-q"]
FIGURES = ("num_statements", "covered_lines", "num_branches", "covered_branches")


def main() -> int:
    """Run the tests, print the figures; the exit code is that of the tests."""
    WORK.mkdir(parents=True, exist_ok=True)
    for old in WORK.glob("data*"):
        old.unlink()
    file = WORK / "coveragerc"
    file.write_text(CONFIGURATION.format(work=WORK))
    os.environ["COVERAGE_RCFILE"] = str(file)
    coverage = [sys.executable, "-m", "coverage"]
    tests = [*coverage, "run", "-m", *TESTS, *(sys.argv[1:] or ["tests/unit", "tests/component"])]
    failed = subprocess.run(tests, cwd=ROOT, check=False).returncode
    for step in ("combine", "json", "html"):
        subprocess.run([*coverage, step, "-q"], cwd=ROOT, check=True)
    report(json.loads((WORK / "report.json").read_text())["files"])
    return failed


def report(files: dict[str, dict[str, dict[str, int]]]) -> None:
    """Print a line for each package, and one for all."""
    packages: dict[str, Counter[str]] = {}
    for path, found in files.items():
        name = path.partition("copyrator/")[2].partition("/")[0]
        for package in (name, "all"):
            counts = packages.setdefault(package, Counter())
            counts.update({figure: found["summary"][figure] for figure in FIGURES})
    print(f"\n{'package':<16}{'lines':>8}{'covered':>10}{'branches':>10}{'covered':>10}")
    for package, counts in sorted(packages.items(), key=lambda one: (one[0] == "all", one[0])):
        lines, covered, branches, taken = (counts[figure] for figure in FIGURES)
        print(
            f"{package:<16}{lines:>8}{share(covered, lines)}{branches:>10}{share(taken, branches)}"
        )


def share(part: int, whole: int) -> str:
    """In percent."""
    return f"{100 * part / max(1, whole):>8.1f} %"


if __name__ == "__main__":
    sys.exit(main())
