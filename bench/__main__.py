"""``python -m bench``: run benchmarks on a control plane of their own, and write them down."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console

from bench import (
    commands,
    copying,
    failures,
    fleet,
    growth,
    guard,
    hostile,
    pages,
    plans,
    polling,
    report,
)
from bench.process import BenchError
from bench.rig import REST, Rig, verbs
from bench.scenario import REGISTRY, Result, Scenario, chosen
from demo.chart import ROOT
from localcluster import Cluster, LocalClusterError
from localcluster.cluster import discard
from localcluster.paths import state_root

MODULES = (copying, fleet, polling, growth, hostile, failures, plans, guard, pages, commands)
"""Imported for the scenarios that they define."""


@click.command()
@click.argument("names", nargs=-1, metavar="[SCENARIO]...")
@click.option("--list", "shows", is_flag=True, help="Name the scenarios and end.")
@click.option("--size", type=click.IntRange(1), help="Copies, Secrets, Bundles: see --list.")
@click.option("--runs", type=click.IntRange(1), help="How many are measured.")
@click.option("--against", metavar="COMMIT", help="Measure this commit too, in turns with yours.")
@click.option(
    "--rest",
    type=click.FloatRange(0),
    default=REST,
    help=f"Seconds of rest before each burst of writes ({REST:g}).",
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path),
    default=ROOT / "dist" / "bench.json",
    help="Where the figures go (dist/bench.json).",
)
@click.option("--report", "writes", is_flag=True, help="Write table and plots into docs/.")
def main(  # noqa: PLR0917 - click passes them by name
    names: tuple[str, ...],
    shows: bool,
    size: int | None,
    runs: int | None,
    against: str | None,
    rest: float,
    json_file: Path,
    writes: bool,
) -> None:
    """Measure the operator beside a client that has nothing else to do."""
    # What was started is stopped then, as for Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console(stderr=True)
    if shows:
        for one in REGISTRY.values():
            print(f"{one.name:20} {one.title.format(size=one.size)}; runs: {one.runs}")
        return
    try:
        wanted = chosen(names)
    except KeyError as error:
        raise click.UsageError(f"no such scenario: {error.args[0]}; --list names them") from None
    results: list[Result] = []
    missed: list[str] = []
    try:
        with trees(against) as sources:
            for one in wanted:
                try:
                    results += measure(one, sources, size, runs, console, rest=rest)
                except (BenchError, subprocess.CalledProcessError) as error:
                    missed.append(one.name)
                    console.print(f"[red]{one.name}: {error}[/]")
                report.write_json(results, json_file)
    except LocalClusterError as error:
        raise click.ClickException(str(error)) from error
    print(report.table(results))
    if writes:
        report.write_document(json_file)
    if missed:
        raise click.ClickException(f"not measured: {', '.join(missed)}")


def measure(
    one: Scenario,
    sources: dict[str, Path],
    size: int | None,
    runs: int | None,
    console: Console,
    *,
    rest: float = REST,
) -> list[Result]:
    """All runs of a scenario, the trees in turns, each tree on a control plane of its own."""
    size, runs = size or one.size, runs or one.runs
    title = one.title.format(size=size)
    console.print(f"[bold]{one.name}[/]: {title}")
    today = time.strftime("%Y-%m-%d", time.gmtime())
    results = {
        word: Result(one.name, title, size, word, name_of(tree), today)
        for word, tree in sources.items()
    }

    def tell(text: str) -> None:
        console.print(f"  {time.strftime('%H:%M:%S')} {text}", highlight=False)

    for word, tree in sources.items():
        with started(f"bench-{word}") as cluster:
            rig = Rig(cluster, tell, tree, rest)
            with one.set_up(rig, size) as run:
                if one.warm_up:
                    tell("warming up")
                    run()
                for number in range(runs):
                    since = cluster.audit_offset()
                    figures = run()
                    results[word].add(one.goals, figures, verbs(rig.asked(since)))
                    shown = ", ".join(f"{name} {value:.3g}" for name, value in figures.items())
                    tell(f"{word}, run {number + 1} of {runs}: {shown}")
    return list(results.values())


def name_of(tree: Path) -> str:
    """What is measured, as git names it; an archive of a commit has its name in a file."""
    named = tree / "COMMIT"
    if named.exists():
        return named.read_text()
    command = ["git", "-C", str(tree), "describe", "--always", "--dirty"]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout.strip()


@contextmanager
def started(name: str) -> Iterator[Cluster]:
    """A control plane for one scenario: what it leaves behind is nobody else's load."""
    directory = state_root() / name
    discard(directory)
    try:
        yield Cluster.start(directory)
    finally:
        discard(directory)


@contextmanager
def trees(commit: str | None) -> Iterator[dict[str, Path]]:
    """The source trees to measure: this one, and a commit's where one is named."""
    if commit is None:
        yield {"this": ROOT}
        return
    with tempfile.TemporaryDirectory(prefix="copyrator-bench-") as directory:
        archive = subprocess.run(
            ["git", "-C", str(ROOT), "archive", commit, "operator"],
            check=False,
            capture_output=True,
        )
        if archive.returncode:
            raise click.UsageError(archive.stderr.decode().strip())
        subprocess.run(["tar", "-x", "-C", directory], input=archive.stdout, check=True)
        (Path(directory) / "COMMIT").write_text(commit)
        yield {"that": Path(directory), "this": ROOT}


if __name__ == "__main__":
    sys.exit(main())
