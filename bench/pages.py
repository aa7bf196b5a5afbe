"""The local web page with many rules and namespaces, in a real browser."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from bench.objects import namespace, to_labelled
from bench.process import BenchError, Measured
from bench.rig import Rig, until
from bench.scenario import Figures, Goal, Run, scenario
from demo.chart import ROOT
from images import machine
from images.chromium import NAME

RULES = 50
LABEL = "pages"
LOG = Path("copyrator ui")
"""It has no log; the name stands in messages."""


@scenario(
    "pages",
    "The local web page opens, with {size} namespaces and 50 rules",
    size=1000,
    runs=5,
    goals={
        "open_seconds": Goal("from the command to the loaded overview", "s", 2.0),
        "complete_seconds": Goal("from the command until all copies are counted", "s"),
        "overview_seconds": Goal("the overview is loaded after", "s", 2.0),
        "matrix_seconds": Goal("rules and namespaces are loaded after", "s", 2.0),
        "matrix_kb": Goal("size of that page", "KB"),
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
                for name, path in (("overview", "/"), ("matrix", "/matrix?namespaces=pages-")):
                    began = time.monotonic()
                    page.goto(base + path)
                    figures[f"{name}_seconds"] = time.monotonic() - began
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
        with rig.operator():
            for name in names:
                rig.end_rule(name)


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
