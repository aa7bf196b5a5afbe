"""The operator's Kubernetes client against the libraries: four verbs, lists, watches, faults."""

from __future__ import annotations

import itertools
import json
import sys
from collections import Counter
from collections.abc import Iterator

from tests.e2e.faults.proxy import Chosen, FaultProxy, answers, delays

from bench.choices import environment
from bench.choices.child import run_child
from bench.choices.client_child import OWN_ENVIRONMENT, SIDES
from bench.choices.sides import Sides
from bench.rig import Rig
from bench.scenario import Figures, Run, scenario


@scenario(
    "choices-client",
    "Kubernetes clients, {size} Secrets of 2 KB",
    size=1000,
    runs=3,
    goals={},
    warm_up=False,
    group="choices",
)
def clients(rig: Rig, size: int) -> Iterator[Run]:
    """The same requests by each side, in turns."""
    others = environment.python()
    turns = itertools.count()
    config = rig.cluster.layout.config

    def run() -> Figures:
        sides, turn = Sides(), next(turns)
        with (
            FaultProxy(rig.cluster) as broken,
            broken.fault(answers(429, "TooManyRequests", retry_after=1), _of("busy")),
            broken.fault(delays(30), _of("slow")),
        ):
            kubeconfig = broken.kubeconfig(rig.bare_kubeconfig, config / "choices-broken")
            for number, side in enumerate(SIDES):
                space = f"clients-{turn}-{number}"
                rig.namespaces(space)
                work = config / "choices-client.json"
                asked = {"kubeconfig": str(rig.bare_kubeconfig), "broken": str(kubeconfig)}
                work.write_text(json.dumps(asked | {"namespace": space, "count": size}))
                python = sys.executable if side in OWN_ENVIRONMENT else others
                rig.rest()
                since, at = rig.cluster.audit_offset(), len(broken.log)
                found = run_child(rig, "client_child", [side, str(work)], python=python)
                busy = sum(one.path.endswith("/busy") for one in broken.log[at:])
                sides.add(side, found | _asked(rig, since) | {"requests for a 429": float(busy)})
        return sides.figures

    yield run


def _of(name: str) -> Chosen:
    """The requests for a Secret of this name."""
    return lambda seen: seen.path.endswith(f"/{name}")


def _asked(rig: Rig, since: int) -> dict[str, float]:
    """What the API server saw of one side."""
    seen = rig.seen(since, rig.bare_user)
    verbs = Counter(event.verb for event in seen)
    watches = [event.uri for event in seen if event.verb == "watch"]
    return {
        "lists": float(verbs["list"]),
        "requests in all": float(len(seen)),
        "bookmarks are asked for": float(all("allowWatchBookmarks" in uri for uri in watches)),
    }
