"""The checks of specs: the operator's parsers and schema check against msgspec and jsonschema."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import yaml

from bench.choices import environment
from bench.choices.checks_child import JSONSCHEMA, SIDES
from bench.choices.child import run_child
from bench.choices.sides import Sides
from bench.rig import Rig
from bench.scenario import Figures, Run, scenario
from demo.chart import ROOT


@scenario(
    "choices-checks",
    "Checks of a rule, {size} times",
    size=5000,
    runs=3,
    goals={},
    warm_up=False,
    group="choices",
)
def checks(rig: Rig, size: int) -> Iterator[Run]:
    """No API server is asked; the control plane stands by."""
    crd = yaml.safe_load((ROOT / "crds" / "copyrators.flant.com.yaml").read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    work = rig.cluster.layout.config / "choices-checks.json"
    work.write_text(json.dumps({"count": size, "schema": schema}))
    others = environment.python()

    def run() -> Figures:
        sides = Sides()
        for side in SIDES:
            python = others if side == JSONSCHEMA else sys.executable
            sides.add(side, run_child(rig, "checks_child", [side, str(work)], python=python))
        return sides.figures

    yield run
