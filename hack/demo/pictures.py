"""Pictures for the documents: what the commands show on a terminal of 80 columns, on this cluster.

Not all is well there, on purpose: one namespace has no room, and in another somebody else's Secret
stands in the way.
"""

import io
import os
import re
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import yaml
from rich.console import Console
from rich.text import Text

from demo import bundles, rules
from demo.chart import ROOT
from demo.objects import Manifest, describe
from demo.screen import WIDTH, recording
from demo.stage import APPS, HOME, Stage, example, example_of
from demo.waiting import NotYet, until

FULL, TAKEN = "team-full", "team-taken"
PLANNED = "rule.yaml"

PICTURES = {
    "demo": (
        "get copies -A",
        f"why {FULL}/registry-creds",
        "get bundles -A",
        f"history bundle -n {APPS} {bundles.NAME}",
    ),
    "get": ("get rules -A", "get bundles -A", "get copies -A"),
    "plan": (f"plan -f {PLANNED}",),
    "why": (f"why {FULL}/registry-creds", f"why {APPS}/registry-creds", f"why {APPS}/hello"),
    "describe": (f"describe rule {HOME}/registry-creds",),
    "doctor": ("doctor",),
    "approval": (
        f"plan bundle -n {APPS} {bundles.NAME}",
        f"approve bundle -n {APPS} {bundles.NAME} --yes",
        f"history bundle -n {APPS} {bundles.NAME}",
    ),
}
"""The commands in each picture, by its file's name; "demo" is the README's."""


def take(stage: Stage, directory: Path) -> None:
    """Set the scene, type the commands, and save a picture of each group of them.

    Raises:
        StepFailed: the scene can't be set.
    """
    _set_the_scene(stage)
    with tempfile.TemporaryDirectory() as name:
        _write_planned_rule(Path(name) / PLANNED)
        for picture, commands in PICTURES.items():
            console = recording(io.StringIO()).console
            if picture == "approval":
                bundles.let_wait(stage, "1.0.6")
            for command in commands:
                console.print(Text(f"$ copyrator {command}", style="bold"))
                console.print(Text.from_ansi(_output(stage, command, Path(name))))
            save(console, directory / f"{picture}.svg", "copyrator")


def save(console: Console, path: Path, title: str) -> None:
    """Save what a console has recorded, without the fonts that rich would load from the web."""
    picture = console.export_svg(title=title, clear=False)
    path.write_text(
        re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL), encoding="utf-8"
    )


def _set_the_scene(stage: Stage) -> None:
    objects = stage.objects
    objects.create_namespaces(FULL, TAKEN)
    quota = {"metadata": {"name": "none", "namespace": FULL}, "spec": {"hard": {"secrets": "0"}}}
    theirs = {"metadata": {"name": "registry-creds", "namespace": TAKEN}}
    objects.apply(
        [
            {"apiVersion": "v1", "kind": "ResourceQuota", **quota},
            {"apiVersion": "v1", "kind": "Secret", **theirs},
        ]
    )
    until(partial(_counted, stage), what="the quota to count")
    objects.apply(example(rules.FILE))
    bundles.create_bundle(stage)
    for plural, name, namespace, said in (
        ("copyrators", "registry-creds", HOME, "PartialFailure"),
        ("bundles", bundles.NAME, APPS, "Deployed"),
    ):
        look = partial(_says, stage, (plural, name, namespace), said)
        until(look, what=f"{name} to say {said}")


def _output(stage: Stage, command: str, directory: Path) -> str:
    """What a command shows on a terminal, whatever its exit code."""
    done = subprocess.run(
        [sys.executable, "-m", "copyrator", *command.split()],
        env={
            **os.environ,
            "KUBECONFIG": str(stage.cluster.admin_kubeconfig),
            "PYTHONPATH": str(ROOT / "operator"),
            "COLUMNS": str(WIDTH),
            "FORCE_COLOR": "1",
            "TERM": "xterm-256color",
        },
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout


def _counted(stage: Stage) -> None:
    quota: Manifest = stage.objects.get("resourcequotas", "none", FULL) or {}
    if "hard" not in quota.get("status", {}):
        raise NotYet("its status is empty")


def _says(stage: Stage, which: tuple[str, str, str], said: str) -> None:
    body: Manifest = stage.objects.get(*which) or {}
    if said not in describe(body):
        raise NotYet(describe(body))


def _write_planned_rule(path: Path) -> None:
    """The example's rule with one more namespace, and without one that it has."""
    rule = example_of(rules.FILE, "CopyratorRule")
    rule["spec"]["targets"] |= {"namespaces": ["team-*", APPS], "exclude": [rules.TEAMS[0]]}
    path.write_text(yaml.safe_dump(rule), encoding="utf-8")
