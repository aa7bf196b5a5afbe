"""The local web page with many rules, namespaces and Bundles, in a real browser."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from bench.objects import namespace, to_labelled
from bench.process import BenchError, Measured
from bench.rig import BUNDLES, HOME, Rig, until
from bench.scenario import Figures, Goal, Run, scenario
from copyrator.api.text import format_time
from demo.chart import ROOT
from images import machine
from images.chromium import NAME

RULES = 50
BUNDLES_SHOWN = 500
CHAIN = 3
"""Bundles of which each but the first is promoted from the one before."""
PAINT = 1.0
"""Seconds within which a page is to show its first content."""
LABEL = "pages"
PAGES = {
    "overview": ("the overview", "/"),
    "bundle": ("a Bundle's page", f"/bundles/bundles/pages-{CHAIN - 1:03}"),
    "plan": ("the page of its plan", f"/bundles/bundles/pages-{CHAIN - 1:03}/plan"),
    "rule": ("a rule's page", f"/rules/{HOME}/source-00"),
    "rules": ("all rules", "/rules"),
    "bundles": ("all Bundles", "/bundles"),
    "search": ("a search", "/search?q=pages-001"),
    "matrix": ("rules and namespaces", "/matrix?namespaces=pages-"),
}
LOG = Path("copyrator ui")
"""It has no log; the name stands in messages."""


@scenario(
    "pages",
    "The local web page opens, with {size} namespaces, 50 rules and 500 Bundles",
    size=1000,
    runs=5,
    goals={
        "open_seconds": Goal("from the command to the loaded overview", "s", 2.0),
        "complete_seconds": Goal("from the command until all copies are counted", "s"),
        **{
            f"{name}_paint_seconds": Goal(f"first paint of {text}", "s", PAINT)
            for name, (text, _) in PAGES.items()
        },
        "matrix_kb": Goal("size of the page of rules and namespaces", "KB"),
        "rss_mb": Goal("memory of copyrator ui", "MB"),
    },
)
def pages(rig: Rig, size: int) -> Iterator[Run]:
    """Each rule has a copy in each namespace."""
    browser = machine.find(NAME)
    if browser is None:
        raise BenchError("Chromium isn't installed; make test-ui installs it")
    rig.tell(f"{size * RULES} copies are made")
    rig.namespaces("pages-source")
    names = [f"source-{number:02}" for number in range(RULES)]
    path = "/api/v1/namespaces/pages-source/configmaps"
    rig.bare("POST", [(path, {"metadata": {"name": name}, "data": {"a": "b"}}) for name in names])
    spaces = [f"pages-{number:05}" for number in range(size)]
    rig.bare("POST", [namespace(space, {LABEL: "yes"}) for space in spaces])
    for name in names:
        source = {"kind": "ConfigMap", "namespace": "pages-source", "name": name}
        rig.rule(name, {"source": source, "targets": to_labelled(LABEL)})
    with rig.operator():
        copies = size * RULES
        until(lambda: sum(map(rig.copies, names)) == copies, f"{copies} copies", 60 + copies / 50)
    # The operator doesn't run while they are there: it would replace their statuses.
    rig.bare("POST", [(BUNDLES, bundle(number)) for number in range(BUNDLES_SHOWN)])
    rig.bare(
        "PATCH",
        [
            (f"{BUNDLES}/pages-{number:03}/status", {"status": status(number)})
            for number in range(BUNDLES_SHOWN)
        ],
    )

    def run() -> Figures:
        figures: dict[str, float] = {}
        with sync_playwright() as playwright:
            chromium = playwright.chromium.launch(
                executable_path=browser, args=["--no-sandbox", "--disable-gpu"]
            )
            page = chromium.new_page()
            start = time.monotonic()
            with _serving(rig) as (process, url):
                page.goto(url)
                figures["open_seconds"] = time.monotonic() - start
                base = url.partition("/?")[0]
                page.wait_for_url(f"{base}/")
                until(lambda: _is_complete(page, base), "all copies are listed", 120)
                figures["complete_seconds"] = time.monotonic() - start
                for name, (_, path) in PAGES.items():
                    figures[f"{name}_paint_seconds"] = first_paint(page, base + path)
                cells = page.locator(".grid td.good").count()
                if cells != min(size, 100) * RULES:
                    raise BenchError(f"the page shows {cells} cells with copies")
                figures["matrix_kb"] = len(page.content()) / 1000
                figures["rss_mb"] = Measured(process, LOG).rss
            chromium.close()
        return figures

    try:
        yield run
    finally:
        paths = [f"{BUNDLES}/pages-{number:03}" for number in range(BUNDLES_SHOWN)]
        rig.bare("DELETE", [(path, {}) for path in paths])
        rig.end(names)


def bundle(number: int) -> dict[str, Any]:
    """A Bundle that is promoted from the one before."""
    spec: dict[str, Any] = {"registry": "registry.example", "repo": "app", "suspend": True}
    if number % CHAIN:
        spec["promoteFrom"] = {"bundles": [{"name": f"pages-{number - 1:03}"}], "soak": "2h"}
    metadata = {
        "name": f"pages-{number:03}",
        "annotations": {"operator.werf.dev/promote-to": "bundles"},
    }
    return {
        "apiVersion": "operator.werf.dev/v1",
        "kind": "Bundle",
        "metadata": metadata,
        "spec": spec,
    }


def status(number: int) -> dict[str, Any]:
    """A status of about the largest size, with a plan of 5,000 operations."""
    now = datetime.now(UTC)
    hours = [format_time(now - timedelta(hours=one)) for one in range(12)]
    risky = [f"delete prod:apps:StatefulSet:{'n' * 60}-{one}" for one in range(20)]
    waits = {"status": "True", "reason": "AwaitingApproval", "message": "w" * 300}
    ready = {"status": "False", "reason": "DeployFailed", "message": "m" * 900}
    return {
        "conditions": [
            {"type": kind, "lastTransitionTime": hours[1], **one}
            for kind, one in (("Ready", ready), ("UpdatePending", waits))
        ],
        "gates": [
            {"name": name, "state": "Waiting", "reason": "TooYoung", "message": "g" * 200}
            for name in ("minAge", "promotion", "dependsOn", "window", "approval")
        ],
        "available": {"version": "1.9.0", "digest": f"sha256:{number:064x}", "time": hours[0]},
        "deployed": {"version": "1.8.0", "digest": f"sha256:{'a' * 64}", "time": hours[2]},
        "history": [
            {"version": f"1.{one}.0", "outcome": "Succeeded", "approvedBy": "ann", "time": hour}
            for one, hour in enumerate(hours[2:])
        ],
        "soak": [{"version": "1.8.0", "digest": f"sha256:{'a' * 64}", "since": hours[2]}],
        "drift": {"verdict": "Drifted", "objects": risky, "count": 400, "since": hours[1]},
        "lastError": {"reason": "DeployFailed", "message": "m" * 900, "logTail": "line\n" * 400},
        "plan": {
            "outcome": "Planned",
            "id": f"{number:032x}",
            "job": f"pages-{number}-plan-1",
            "version": "1.9.0",
            "operations": 5_000,
            "counts": {"create": 4_000, "delete": 1_000},
            "risky": risky,
            "riskyOperations": 1_000,
            "bound": False,
            "unbound": ["u" * 150] * 20,
            "changed": [f"spec.env.{'C' * 60}"] * 20,
            "expiresAt": format_time(now + timedelta(hours=9)),
        },
    }


PAINTED = """() => new Promise(resolve => new PerformanceObserver(list => {
  for (const one of list.getEntriesByName("first-contentful-paint")) resolve(one.startTime);
}).observe({ type: "paint", buffered: true }))"""
"""Milliseconds until the first paint, once it happened."""


def first_paint(page: Page, url: str) -> float:
    """Open a page; seconds from the request until its first content is painted."""
    page.goto(url)
    return float(page.evaluate(PAINTED)) / 1000


def _is_complete(page: Page, base: str) -> bool:
    page.goto(f"{base}/matrix?rules=none")
    return page.get_by_text("Still being listed").count() == 0


@contextmanager
def _serving(rig: Rig) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "copyrator", "ui"],
        env=os.environ
        | {"KUBECONFIG": str(rig.cluster.admin_kubeconfig), "PYTHONPATH": str(ROOT / "operator")},
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        found = re.search(r"http://\S+", process.stdout.readline().decode())
        if found is None:
            raise BenchError("copyrator ui printed no URL")
        yield process, found[0]
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()
