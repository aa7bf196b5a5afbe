"""`make oracle`: compare what component tests ask the fake API server with the reference.

    python -m tests.oracle record COUNT [TESTS]    record COUNT times; makes the reference of TESTS
    python -m tests.oracle compare [TESTS]         record once and compare; exits 1 if they differ
    python -m tests.oracle diff [WORD]             show where the last comparison's tests differ

The reference has, of each trace, what all recordings have in common from its beginning: a test
ends while the operator still works, so what comes last may be missing. A trace that isn't the same
in all recordings is ``open``: what comes after its common beginning isn't compared. unstable.txt
names tests that aren't compared at all.
"""

from __future__ import annotations

import difflib
import json
import lzma
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.oracle.traces import UNORDERED, Traces, traces_of

HERE = Path(__file__).parent
UNSTABLE = HERE / "unstable.txt"
"""On each line a test, two spaces and the reason."""
BUILD = Path("build/oracle")
TESTS = "tests/component/bundles"
MOST_AGAIN = 60
"""A test that differs may do so by chance; behaviour that changed differs each time."""
Reference = dict[str, dict[str, Any]]
"""Of each trace of a test its lines and whether it is open."""


def main(command: str, *arguments: str) -> int:
    if command == "record":
        return record(int(arguments[0]), arguments[1:] or (TESTS,))
    if command == "compare":
        return compare(arguments or (TESTS,))
    if command == "diff":
        return show(arguments[0] if arguments else "")
    print(__doc__)
    return 2


def run_tests(folder: Path, tests: tuple[str, ...]) -> int:
    shutil.rmtree(folder, ignore_errors=True)
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2"]
    return subprocess.run([*pytest, *tests, "--oracle", str(folder)], check=False).returncode


def record(count: int, tests: tuple[str, ...]) -> int:
    folders = [BUILD / str(i + 1) for i in range(count)]
    failed = [folder for folder in folders if run_tests(folder, tests)]
    write_reference(folders, tests)
    if failed:
        print(f"Tests failed in {len(failed)} recordings: less of theirs is compared.")
    return 1 if failed else 0


def write_reference(folders: list[Path], recorded: tuple[str, ...]) -> None:
    """Make the reference of the tests that were recorded; that of others stays."""
    recordings = [read_recording(folder) for folder in folders]
    tests = {test: traces for test, traces in read_reference().items() if not is_of(test, recorded)}
    for test in sorted(set(recordings[0]).intersection(*recordings[1:])):
        tests[test] = common([one[test] for one in recordings])
        size = max(sum(map(len, one[test].values())) for one in recordings)
        if 2 * sum(len(trace["lines"]) for trace in tests[test].values()) < size:
            print(f"Less than half is the same, name it in unstable.txt: {test}")
    files: dict[Path, dict[str, Reference]] = defaultdict(dict)
    for test in sorted(tests):
        files[reference_file(test)][test] = tests[test]
    for path in HERE.glob("*/*.json.xz"):
        if path not in files:
            path.unlink()
    for path, found in files.items():
        path.parent.mkdir(exist_ok=True)
        content = json.dumps(found, ensure_ascii=False, indent=0, sort_keys=True).encode()
        if not path.exists() or lzma.decompress(path.read_bytes()) != content:
            path.write_bytes(lzma.compress(content, preset=9))
    lines = sum(len(trace["lines"]) for test in tests.values() for trace in test.values())
    print(f"Reference: {len(tests)} tests, {lines} lines.")


def is_of(test: str, tests: tuple[str, ...]) -> bool:
    """Whether a test is one of these folders, files and tests."""
    return any(test == one or test.startswith((f"{one}/", f"{one}::", f"{one}[")) for one in tests)


def compare(tests: tuple[str, ...]) -> int:
    failed = run_tests(BUILD / "now", tests)
    reference, recorded = read_reference(), read_recording(BUILD / "now")
    differing = [test for test in sorted(recorded) if differences(reference, recorded, test)]
    if differing and (again := differing[:MOST_AGAIN]):
        print(f"{len(differing)} tests differ; {len(again)} of them run once more.")
        run_tests(BUILD / "again", tuple(again))
        second = read_recording(BUILD / "again")
        chance = {test for test in second if not differences(reference, second, test)}
        differing = [test for test in differing if test not in chance]
    gone = sorted(test for test in set(reference) - set(recorded) if is_of(test, tests))
    new = sorted(set(recorded) - set(reference))
    for about, found in (("DIFFERS", differing), ("GONE", gone), ("NEW", new)):
        for test in found:
            print(f"{about:8} {test}")
    print(f"{len(recorded)} tests: {len(differing)} differ, {len(gone)} gone, {len(new)} new.")
    if differing:
        print("See how: hack/run python -m tests.oracle diff WORD (of a test's name)")
    if differing or gone or new:
        print("If it is meant: make oracle RECORD=3 ORACLE=FILES; the commit names the difference.")
    return 1 if failed or differing or gone else 0


def show(word: str) -> int:
    reference, recorded = read_reference(), read_recording(BUILD / "now")
    for test in sorted(recorded):
        if word in test and (found := differences(reference, recorded, test)):
            print(f"\n=== {test}")
            for name in found:
                print(f"--- {name}")
                before = reference[test].get(name, {"lines": []})["lines"]
                for line in readable_diff(before, recorded[test].get(name, [])):
                    print(line)
    return 0


def differences(
    reference: dict[str, Reference], recorded: dict[str, Traces], test: str
) -> list[str]:
    """The names of the traces of a test that differ from the reference."""
    before, now = reference.get(test), recorded[test]
    if before is None:
        return []
    names = sorted({*before, *now})
    return [name for name in names if not agrees(name, before.get(name), now.get(name, []))]


def agrees(name: str, before: dict[str, Any] | None, now: list[str]) -> bool:
    if before is None:
        return False
    if not before["open"]:
        return bool(before["lines"] == now)
    if name.startswith(UNORDERED):
        return set(before["lines"]) <= set(now)
    return bool(before["lines"] == now[: len(before["lines"])])


def common(recordings: list[Traces]) -> Reference:
    """What all recordings of a test have in common."""
    found: Reference = {}
    for name in sorted(set().union(*recordings)):
        traces = [one.get(name, []) for one in recordings]
        if name.startswith(UNORDERED):
            lines = sorted(set(traces[0]).intersection(*traces))
        else:
            same = [len(set(lines)) == 1 for lines in zip(*traces, strict=False)]
            lines = traces[0][: same.index(False) if False in same else len(same)]
        is_open = any(trace != traces[0] for trace in traces)
        found[name] = {"lines": lines, "open": is_open}
    return found


def read_recording(folder: Path) -> dict[str, Traces]:
    found = {}
    unstable = [line.partition("  ")[0] for line in UNSTABLE.read_text().splitlines()]
    for path in sorted(folder.glob("*.jsonl")):
        with path.open() as file:
            for line in file:
                test, requests = json.loads(line)
                if test not in unstable:
                    found[test] = traces_of(requests)
    return found


def read_reference() -> dict[str, Reference]:
    found: dict[str, Reference] = {}
    for path in HERE.glob("*/*.json.xz"):
        found |= json.loads(lzma.decompress(path.read_bytes()))
    return found


def reference_file(test: str) -> Path:
    file = Path(test.partition("::")[0])
    return HERE / file.parent.name / f"{file.stem}.json.xz"


def readable_diff(before: list[str], now: list[str]) -> list[str]:
    old = [part for line in before for part in unfolded(line)]
    new = [part for line in now for part in unfolded(line)]
    return list(difflib.unified_diff(old, new, "reference", "now", lineterm="", n=6))


def unfolded(line: str) -> list[str]:
    """A request, and below it each field of its body."""
    head, space, body = line.partition(" {")
    if not space:
        return [line]
    try:
        fields = json.loads("{" + body)
    except ValueError:
        return [line]
    return [head, *(f"    {part}" for part in json.dumps(fields, indent=1).splitlines()[1:-1])]


if __name__ == "__main__":
    sys.exit(main(*(sys.argv[1:] or [""])))
