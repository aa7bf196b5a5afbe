"""The operator's settings as a pod of the chart gets them, from the chart's values."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from functools import cache
from typing import Any
from unittest import mock

from tests.settings import values_of

from copyrator.runtime.flags import parameters, parse
from demo.chart import Rendered, render
from localcluster.build import Programs

NAMESPACE = "copyrator"


@cache
def _helm() -> str:
    return str(Programs.default().find(["helm"])["helm"])


def _run_helm(*arguments: str) -> str:
    done = subprocess.run([_helm(), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rendered(values: Mapping[str, Any], *, policy: bool = False) -> Rendered:
    """The chart with these values, by their dotted paths."""
    return render(_run_helm, namespace=NAMESPACE, values=values, policy=policy)


def settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a pod of the chart with these values: its variables, read as by the pod."""
    container = rendered(values, policy=True).container
    assert container["args"] == ["run"]
    variables = {one["name"]: one["value"] for one in container["env"] if "value" in one}
    with mock.patch.dict("os.environ", variables, clear=True):
        found = parse(parameters())
    return values_of(found) | {"lease_namespace": NAMESPACE}
