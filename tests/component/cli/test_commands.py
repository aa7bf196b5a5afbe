"""Commands with a connection: a server that is down, and what they import against a fake one."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from click.testing import CliRunner
from tests.component.copies.conftest import HOME, make_rule, serving
from tests.component.copies.fake_cluster import FakeCluster
from tests.component.kube.fake_api import json_response
from tests.kubeconfigs import write_plain

from copyrator.cli import cli


def invoke(*args):
    return CliRunner().invoke(cli, args)


def test_a_server_that_is_down_is_said_in_a_line_without_a_traceback(tmp_path):
    kubeconfig = write_plain(tmp_path, "http://127.0.0.1:1")
    result = invoke("get", "rules", "--kubeconfig", str(kubeconfig))
    assert result.exit_code == 1
    assert result.output.startswith("Error: ")
    assert "check that the cluster is running and that --context is right" in result.output
    assert "Traceback" not in result.output


ROOT = Path(__file__).resolve().parents[3]
NEVER = (
    "cryptography",
    "jinja2",
    "jsonschema",
    "kopf",
    "kubernetes",
    "pydantic",
    "rich",
    "sigstore",
)
"""Libraries that a command that prints a table into a pipe doesn't load."""
COUNTS = "prometheus_client"
"""Only a dry run, which runs the operator's reconcilers, loads it."""

COMMANDS = {
    "get bundles -A": 108,
    "get copies -A": 56,
    f"why {HOME}/source": 125,
    f"why bundle {HOME}/app": 136,
    f"describe rule {HOME}/rule": 60,
}
"""Modules of ours that they import, at most."""


class Reviewing(FakeCluster):
    """Says that everything is allowed."""

    async def serve(self, request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/selfsubjectaccessreviews"):
            return json_response({"status": {"allowed": True}})
        return await super().serve(request)


def event() -> dict[str, Any]:
    rule = {"kind": "CopyratorRule", "namespace": HOME, "name": "rule"}
    metadata = {"namespace": HOME, "name": "event"}
    return {
        "metadata": metadata,
        "involvedObject": {"apiVersion": "flant.com/v1", **rule},
        "type": "Normal",
        "reason": "Synced",
        "message": "synced",
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }


@pytest.mark.parametrize(("command", "modules"), COMMANDS.items(), ids=COMMANDS)
async def test_a_command_imports_little(tmp_path: Path, command: str, modules: int) -> None:
    async with serving(Reviewing()) as cluster:
        cluster.object("secrets", HOME, "source")
        marks = {
            "labels": {"app.kubernetes.io/managed-by": "copyrator"},
            "annotations": {"copyrator.flant.com/rule": f"{HOME}/rule"},
        }
        cluster.object("secrets", HOME, "copy", metadata=marks)
        cluster.write(f"/api/v1/namespaces/{HOME}/events/event", event())
        make_rule(cluster, "rule", {"source": {"kind": "Secret", "name": "source"}})
        body = {
            "metadata": {"name": "app", "namespace": HOME},
            "spec": {"registry": "registry.invalid", "repo": "app", "suspend": True},
        }
        cluster.write(f"/apis/operator.werf.dev/v1/namespaces/{HOME}/bundles/app", body)
        found = await imports_of(command, write_plain(tmp_path, cluster.url, namespace="default"))
    heavy = {*NEVER, COUNTS} & {name.partition(".")[0] for name in found}
    assert heavy == ({COUNTS} if command.startswith(f"why {HOME}") else set())
    ours = sorted(name for name in found if name.startswith("copyrator"))
    assert len(ours) <= modules, (len(ours), ours)


async def imports_of(command: str, kubeconfig: Path) -> list[str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-X", "importtime", "-m", "copyrator", *command.split()),
        env=os.environ | {"KUBECONFIG": str(kubeconfig), "PYTHONPATH": str(ROOT / "operator")},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    printed, imported = await process.communicate()
    assert process.returncode == 0, imported.decode()[-2000:]
    assert printed
    return [line.rpartition("|")[2].strip() for line in imported.decode().splitlines()]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "kubectl"])
def test_there_is_a_completion_for_every_shell(shell):
    assert "_COPYRATOR_COMPLETE" in invoke("completion", shell).output
