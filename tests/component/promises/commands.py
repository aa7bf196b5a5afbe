"""Commands, as a person types them at a fake API server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from copyrator.cli import cli

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: it
contexts: [{name: it, context: {cluster: it, user: it}}]
clusters: [{name: it, cluster: {server: "%s"}}]
users: [{name: it, user: {}}]
"""


async def typed(cluster: Any, folder: Path, *words: str) -> tuple[int, str]:
    """The exit code of a command, and what it prints."""
    file = folder / "kubeconfig"
    file.write_text(KUBECONFIG % cluster.url)
    command = [*words, "--kubeconfig", str(file)]
    done = await asyncio.to_thread(CliRunner().invoke, cli, command, env={"COLUMNS": "300"})
    return done.exit_code, done.output
