"""The command line: what its commands take, and how many requests they send."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator

from bench.objects import to_labelled
from bench.process import BenchError
from bench.rig import HOME, Rig, until
from bench.scenario import Figures, Goal, Run, scenario

NAMESPACES = 20
LABEL = "commands"
RULE = f"rule {HOME}/commands-30"
LIMIT = 0.6

COMMANDS = {
    "help": "get --help",
    "get": "get rules -A",
    "get_bundles": "get bundles -A",
    "get_copies": "get copies -A",
    "why": "why commands-space-01/commands-30",
    "why_bundle": "why bundle bundles/commands",
    "describe": f"describe {RULE}",
    "top": "top --once",
    "plan": f"plan {RULE}",
}
GOALS = {"help": 0.2, "get": LIMIT, "get_bundles": LIMIT, "why": LIMIT, "why_bundle": LIMIT}


def _goals() -> dict[str, Goal]:
    goals = {}
    for name, command in COMMANDS.items():
        goals[f"{name}_seconds"] = Goal(f"`{command}` takes", "s", GOALS.get(name))
        goals[f"{name}_cpu_seconds"] = Goal("of it processor time", "s", detail=True)
        if name != "help":
            goals[f"{name}_requests"] = Goal("its requests")
    return goals


@scenario(
    "commands",
    "Commands with {size} rules, of each 20 copies, and one Bundle",
    size=50,
    runs=5,
    goals=_goals(),
)
def commands(rig: Rig, size: int) -> Iterator[Run]:
    """Half of the rules are for ConfigMaps, half for Secrets; no operator runs meanwhile."""
    rig.namespaces("commands-source")
    rig.namespaces(
        *(f"commands-space-{number:02}" for number in range(NAMESPACES)), labels={LABEL: "yes"}
    )
    names = [f"commands-{number}" for number in range(size)]
    for number, name in enumerate(names):
        kind = "ConfigMap" if number % 2 else "Secret"
        path = f"/api/v1/namespaces/commands-source/{kind.lower()}s"
        rig.api.create(path, {"metadata": {"name": name}})
        source = {"kind": kind, "namespace": "commands-source", "name": name}
        rig.rule(name, {"source": source, "targets": to_labelled(LABEL)})
    rig.bundle("commands", "commands/none", "1.*", suspend=True)
    with rig.operator():
        copies = size * NAMESPACES
        until(lambda: sum(map(rig.copies, names)) == copies, f"{copies} copies")

    def run() -> Figures:
        figures: dict[str, float] = {}
        for name, command in COMMANDS.items():
            since = rig.cluster.audit_offset()
            seconds, processor = _run(rig, command)
            figures[f"{name}_seconds"], figures[f"{name}_cpu_seconds"] = seconds, processor
            if name != "help":
                events = rig.cluster.audit_events(since)
                ours = [e for e in events if e.user == rig.user or not e.user.startswith("system:")]
                figures[f"{name}_requests"] = len(ours)
        return figures

    try:
        yield run
    finally:
        rig.end(names, ("commands",))


def _run(rig: Rig, command: str) -> tuple[float, float]:
    """Seconds, and seconds of processor time."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "copyrator", *command.split()],
        env=os.environ
        | {
            "KUBECONFIG": str(rig.cluster.admin_kubeconfig),
            "PYTHONPATH": str(rig.tree / "operator"),
        },
        check=False,
        capture_output=True,
        text=True,
    )
    seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise BenchError(f"copyrator {command}: {done.stderr.strip()}")
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
