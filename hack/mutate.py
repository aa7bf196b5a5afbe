"""Mutation tests of what decides, with mutmut: `make mutate PACKAGE=api ONLY='globs.*'`.

mutmut changes one place of the code at a time and runs the unit tests that reach it: a mutant that
no test notices has survived. One module is mutated at a time, and only tests that import it are
run: with all modules mutated at once, the tests take ten times as long before the first mutant.
mutmut knows modules by their paths, so it works in a directory where `copyrator` lies at the top.
Survivors that stay have their reason in tests/mutation/survivors.yaml.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path

import yaml
from mutmut.mutation.diff_apply import get_diff_for_mutant

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "mutation"
SURVIVORS = ROOT / "tests" / "mutation" / "survivors.yaml"
PACKAGES = ("api", "bundles", "copies", "signatures")
LINKS = {"copyrator": "operator/copyrator"} | {
    name: name for name in ("tests", "hack", "crds", "docs", "examples")
}
KILLED = ("killed", "timeout")
WANTED = 90
"""Percent of a package's mutants that tests have to kill."""


def main() -> int:
    """Mutate, say what survived; 1 where a package has too few killed or unexplained survivors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help=", ".join(PACKAGES))
    parser.add_argument("--only", metavar="GLOBS", help="functions: 'module.function other.*'")
    parser.add_argument("--again", action="store_true", help="only those not killed last time")
    chosen = parser.parse_args()
    packages = chosen.packages or list(PACKAGES)
    if unknown := set(packages) - set(PACKAGES):
        parser.error(f"{', '.join(sorted(unknown))}: choose from {', '.join(PACKAGES)}")
    if chosen.only and len(packages) != 1:
        parser.error("--only needs one package, of which it selects functions")
    prepare()
    only = chosen.only or "*"
    for package in packages:
        for path in modules(package, only):
            run(path, patterns(package, only), again=chosen.again)
    return max([report(package, only) for package in packages])


def prepare() -> None:
    """Go to the directory where mutmut works, which has links to all that it needs."""
    WORK.mkdir(parents=True, exist_ok=True)
    for name, target in LINKS.items():
        if not (WORK / name).is_symlink():
            (WORK / name).symlink_to(ROOT / target)
    os.chdir(WORK)
    os.environ.pop("PYTHONPATH", None)  # it leads to the code as it is


def configure(**changed: list[str]) -> None:
    """Write mutmut's settings: pyproject.toml with other values for these keys."""
    text = (ROOT / "pyproject.toml").read_text()
    for key, value in changed.items():
        before, found, after = text.partition(f"\n{key} = [")
        assert found, key
        text = f"{before}\n{key} = {json.dumps(value)}" + after.partition("\n]")[2]
    settings = WORK / "pyproject.toml"
    settings.unlink(missing_ok=True)
    settings.write_text(text)


def settings() -> dict[str, list[str]]:
    """Return mutmut's table of pyproject.toml."""
    found: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"][
        "mutmut"
    ]
    return found


def modules(package: str, only: str) -> list[str]:
    """Paths of a package's modules that are mutated and have functions that fit these globs."""
    chosen = [glob.rpartition(".")[0] for glob in only.split()]
    found = []
    for pattern in settings()["only_mutate"]:
        for path in sorted(Path().glob(pattern)):
            name = ".".join(path.with_suffix("").parts[1:])
            inside = name.removeprefix(f"{package}.")
            fits = only == "*" or any(
                fnmatchcase(inside, glob) or fnmatchcase(inside, glob.rpartition(".")[0])
                for glob in chosen
            )
            if name.startswith(f"{package}.") and path.suffix == ".py" and fits:
                found.append(str(path))
    return list(dict.fromkeys(found))


def tests_of(path: str) -> list[str]:
    """Choose from the tests those that import a module, themselves or through a helper of tests."""
    selection = settings()["pytest_add_cli_args_test_selection"]
    places = [Path(one) for one in selection if one.startswith("tests/")]
    files = [
        file for place in places for file in ([place] if place.is_file() else place.rglob("*.py"))
    ]
    imports = {file: _imported(file) for file in files}
    wanted, reached = {".".join(Path(path).with_suffix("").parts)}, set[Path]()
    while more := {file for file in files if imports[file] & wanted} - reached:
        reached |= more
        wanted |= {file.stem for file in more if not file.stem.startswith("test_")}
    found = sorted(str(file) for file in reached if file.stem.startswith("test_"))
    return [*(found or map(str, places)), *selection[selection.index("-m") :]]


def _imported(file: Path) -> set[str]:
    """Names of what a file imports, and the last part of each, as helpers of tests are found."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
        elif isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
    return found | {name.rpartition(".")[2] for name in found if not name.startswith("copyrator")}


def run(path: str, names: list[str], *, again: bool) -> None:
    """Try a module's mutants that fit these patterns; with `again` those that weren't killed."""
    name = ".".join(Path(path).with_suffix("").parts)
    configure(only_mutate=[path], pytest_add_cli_args_test_selection=tests_of(path))
    if again:
        # A timeout counts as killed, but on a busy machine it may hide a survivor.
        names = [one for one, how in results(names).items() if how != "killed"]
        if not names:
            return
    log = WORK / f"{name.removeprefix('copyrator.')}.log"
    # Which tests reach which function is recorded anew: a table's tests are known by their place.
    (WORK / "mutants" / "mutmut-stats.json").unlink(missing_ok=True)
    mutated = WORK / "mutants" / path
    mutated.unlink(missing_ok=True)  # the last run copied it as it is
    _forget_what_is_gone()
    print(f"Mutating {name}; mutmut's output goes to {log.relative_to(ROOT)}", flush=True)
    with log.open("w") as file:
        command = ["mutmut", "run", "--max-children", "2", *names]
        done = subprocess.run(command, check=False, stdout=file, stderr=subprocess.STDOUT)
    if done.returncode:
        sys.exit(f"mutmut failed; see {log.relative_to(ROOT)}.")
    kept = WORK / "mutated" / path  # the report reads the mutants there
    kept.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(mutated, kept)


def _forget_what_is_gone() -> None:
    """Delete copies of modules that were renamed or removed since the last run."""
    copies = WORK / "mutants"
    for copy in copies.rglob("*.py"):
        if not (WORK / copy.relative_to(copies)).exists():
            copy.unlink()


def patterns(package: str, only: str) -> list[str]:
    """Patterns of mutants' names, of the package's functions that fit one of these globs."""
    module = f"copyrator.{package}"
    if only == "*":
        return [f"{module}.*"]
    found = []
    for glob in only.split():
        place, _, function = glob.rpartition(".")
        outer, _, owner = f".{place}".rpartition(".")  # where the function is a method
        found += [
            f"{module}.{place}.x[_ǁ]{function}__mutmut_*",
            f"{module}{outer}.xǁ{owner}ǁ{function}__mutmut_*",
        ]
    return found


def results(chosen: list[str]) -> dict[str, str]:
    """What became of each mutant that fits one of these patterns, by its name."""
    said = subprocess.run(["mutmut", "results", "--all", "1"], check=True, stdout=subprocess.PIPE)
    rows = (line.strip().rpartition(": ") for line in said.stdout.decode().splitlines())
    return {name: how for name, _, how in rows if any(fnmatchcase(name, one) for one in chosen)}


def report(package: str, only: str) -> int:
    """Print a package's figures and survivors; 1 where there are too many, or without a reason."""
    configure()
    shutil.copytree(WORK / "mutated", WORK / "mutants", dirs_exist_ok=True)
    found = results(patterns(package, only))
    counts = Counter(found.values())
    entries = yaml.safe_load(SURVIVORS.read_text()) or []
    unexplained = 0
    for name, how in found.items():
        if how in KILLED:
            continue
        place, changes = described(name)
        fitting = (
            one["reason"]
            for one in entries
            if fnmatchcase(place, one["function"]) and re.search(f"(?m){one['change']}", changes)
        )
        reason = next(fitting, None)
        unexplained += reason is None
        print(f"{place} ({name.rpartition('_')[2]}, {how}): {reason or 'NO REASON'}\n{changes}\n")
    share = 100 * sum(counts[how] for how in KILLED) / max(1, len(found))
    sorts = ", ".join(f"{number} {how}" for how, number in sorted(counts.items()))
    print(f"{package}: {len(found)} mutants, {share:.1f} % killed; {sorts};")
    print(f"  {unexplained} survivors without a reason in {SURVIVORS.relative_to(ROOT)}\n")
    return int(share < WANTED or unexplained > 0)


def described(name: str) -> tuple[str, str]:
    """Return a mutant's function (``module.Class.method``), and its lines before and after."""
    path, _, function = name.partition("__mutmut_")[0].rpartition(".")
    place = f"{path}.{re.sub('^x_|^xǁ', '', function).replace('ǁ', '.')}"
    file = Path(path.replace(".", "/"))
    file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
    diff = get_diff_for_mutant(name, path=file).splitlines()
    lines = (line for line in diff if re.match(r"[-+](?!--|\+\+)", line))
    return place.removeprefix("copyrator."), "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
