"""The pusher of test and demo bundles against oras-py."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator

from bench.choices import environment
from bench.choices.child import run_child
from bench.choices.oras_child import ORAS, SIDES
from bench.choices.sides import Sides
from bench.polling import CHART
from bench.rig import Rig
from bench.scenario import Figures, Run, scenario
from localcluster.bundle import build

BIG = 64_000_000
_METHODS = ('"HEAD ', '"GET ', '"POST ', '"PUT ', '"PATCH ')


@scenario(
    "choices-oras",
    "oras, {size} bundles pushed",
    size=100,
    runs=3,
    goals={},
    warm_up=False,
    group="choices",
)
def oras_pusher(rig: Rig, size: int) -> Iterator[Run]:
    """The same bundles, tags and faults for each side."""
    directory = rig.cluster.layout.config / "choices-oras"
    directory.mkdir()
    bundle = build(CHART, "1.0.0")
    (directory / "config.json").write_bytes(bundle.config)
    (directory / "layer.tgz").write_bytes(bundle.layer)
    (directory / "manifest.json").write_bytes(bundle.manifest)
    (directory / "big").write_bytes(os.urandom(BIG))
    work = directory / "work.json"
    asked = {"registry": rig.cluster.registry, "directory": str(directory), "count": size}
    turns = itertools.count()
    log = rig.cluster.layout.logs / "registry.log"
    others = environment.python()

    def run() -> Figures:
        sides, turn = Sides(), next(turns)
        for number, side in enumerate(SIDES):
            work.write_text(json.dumps({**asked, "repo": f"choices/{turn}/{number}"}))
            since = log.stat().st_size
            python = {"python": others} if side == ORAS else {}
            found = run_child(rig, "oras_child", [side, str(work)], **python)
            with log.open() as lines:
                lines.seek(since)
                requests = sum(any(method in line for method in _METHODS) for line in lines)
            sides.add(side, found | {"requests in all": float(requests)})
        return sides.figures

    yield run
