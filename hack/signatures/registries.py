"""The two registries that signatures are made in: without the referrers API, and with it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from localcluster import ports
from localcluster.components import registry_config
from localcluster.supervisor import answers
from localcluster.waiting import eventually

WITHOUT = "distribution"
"""distribution 3: clients keep referrers in the fallback tag ``sha256-HEX``."""
WITH = "referrers"
"""go-containerregistry's registry: it answers ``/v2/NAME/referrers/DIGEST``."""

_START_SECONDS = 30.0


@contextmanager
def registries(directory: Path, programs: Mapping[str, Path]) -> Iterator[dict[str, str]]:
    """Run both registries; the hosts (``127.0.0.1:PORT``) by their names.

    Args:
        directory: an empty directory for their data.
        programs: paths of ``registry`` and ``referrers``.

    Raises:
        TimeoutError: one doesn't start.
    """
    found = ports.reserve(directory, (WITHOUT, WITH))
    hosts = {name: f"127.0.0.1:{port}" for name, port in found.items()}
    config = directory / "registry.json"
    # The configuration is YAML, of which JSON is a part.
    settings = registry_config(directory / "data", found[WITHOUT], "only for this run")
    config.write_text(json.dumps(settings), encoding="utf-8")
    commands: dict[str, list[str | Path]] = {
        WITHOUT: [programs["registry"], "serve", config],
        WITH: [programs["referrers"], "-address", hosts[WITH]],
    }
    with ExitStack() as stack:
        stack.callback(ports.release, directory)
        for name, command in commands.items():
            stack.enter_context(_running(command, directory / f"{name}.log"))
        for name in commands:
            look = partial(answers, f"http://{hosts[name]}/v2/")
            eventually(look, f"the registry {name} to answer", _START_SECONDS)
        yield hosts


@contextmanager
def _running(command: list[str | Path], log: Path) -> Iterator[None]:
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command,
            env={**os.environ, "OTEL_TRACES_EXPORTER": "none"},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
        )
        try:
            yield
        finally:
            process.kill()
            process.wait()
