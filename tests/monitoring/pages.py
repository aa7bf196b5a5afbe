"""Pages of metrics that a real operator served, and PromQL over them as Prometheus would see it.

`tests/e2e/monitoring/test_record.py` records the pages, and holds them to what is served today.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from localcluster.build import Programs

RECORDED = Path(__file__).parent
GOOD = ("begun", "well")
"""While all is well: after its start, and after some work."""

STEP = 60
"""Seconds between two moments at which Prometheus scrapes and evaluates."""
EACH = 30
"""Moments for which each page of a story is what it scrapes."""
SCRAPED = {"namespace": "ops", "pod": "copyrator-0"}
"""What Prometheus adds to each series."""

Key = tuple[tuple[str, str], ...]
"""The name and labels of a series."""
Series = dict[Key, list[float | None]]
"""What is scraped of each, one after the other; None: nothing."""


def recorded(name: str) -> str:
    """A page as it was served."""
    return (RECORDED / f"{name}.prom").read_text()


def parse(page: str) -> dict[Key, float]:
    """All series of a page that are the operator's own."""
    found: dict[Key, float] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name.startswith("copyrator_"):
                labels = {"__name__": sample.name, **sample.labels, **SCRAPED}
                found[tuple(sorted(labels.items()))] = sample.value
    return found


def shape(page: str) -> dict[str, frozenset[str]]:
    """The names of a page's series, each with its labels."""
    return {
        dict(key)["__name__"]: frozenset(dict(key)) - {"__name__", *SCRAPED} for key in parse(page)
    }


@dataclass(frozen=True)
class Answer:
    """What a query gives; one series where all is well with it, none where nothing fits."""

    error: str
    series: list[dict[str, Any]]

    def longest(self) -> int:
        """For how many moments in a row one series had a value: an alert's condition held."""
        most = 0
        for one in self.series:
            run = 0
            for value in one["values"]:
                run = 0 if value is None else run + 1
                most = max(most, run)
        return most


def played(pages: list[dict[Key, float]]) -> Series:
    """Pages that are scraped one after the other."""
    keys = sorted(set().union(*pages))
    return {key: [page.get(key) for page in pages for _ in range(EACH)] for key in keys}


def evaluate(story: Series, queries: Mapping[str, str]) -> dict[str, Answer]:
    """Ask Prometheus' own engine."""
    series = [{"labels": dict(key), "values": values} for key, values in story.items()]
    asked = {"step": STEP, "series": series, "queries": list(queries.values())}
    program = Programs.default().find(["promql"])["promql"]
    done = subprocess.run(
        [program], input=json.dumps(asked), capture_output=True, text=True, check=True, timeout=60
    )
    answers = json.loads(done.stdout)["results"]
    found = zip(queries, answers, strict=True)
    return {name: Answer(answer["error"], answer["series"]) for name, answer in found}
