"""Everything that an operator leaves behind: what it wrote, says, shows and keeps."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from tests.e2e.faults.proxy import Exchange, relay
from tests.e2e.operator_process import OperatorProcess

from localcluster import Api

_WRITES = ("create", "update", "patch", "delete")
_HOLDERS = ("data", "stringData")
"""Where a Secret's values belong."""
_OTHERS_WORDS = ("pods", "pods.metrics.k8s.io")
"""What a container says about itself is its own; what we make of it is ours."""


@dataclass
class Writes:
    """A fault that is none: passes every request on, and keeps what was written."""

    bodies: list[tuple[str, str]] = field(default_factory=list)
    secret_bodies: list[str] = field(default_factory=list)

    async def __call__(self, exchange: Exchange) -> web.StreamResponse:
        seen = exchange.seen
        if seen.verb in _WRITES:
            text = exchange.body.decode()
            if seen.resource == "secrets" and text:
                self.secret_bodies.append(text)
                text = json.dumps(without_values(json.loads(text)))
            self.bodies.append((f"{seen.verb} {seen.path} {dict(seen.query)}", text))
        return await relay(exchange)


def without_values(secret: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in secret.items() if key not in _HOLDERS}


def objects(api: Api) -> Iterator[tuple[str, str]]:
    """All objects of the cluster as text; of Secrets all but their values."""
    groups = ["/api/v1"]
    groups += [
        f"/apis/{group['preferredVersion']['groupVersion']}" for group in api.get("/apis")["groups"]
    ]
    for group in groups:
        for resource in api.get(group)["resources"]:
            name = resource["name"]
            if "list" not in resource["verbs"] or name in _OTHERS_WORDS:
                continue
            for item in api.get(f"{group}/{name}")["items"]:
                body = without_values(item) if (group, name) == ("/api/v1", "secrets") else item
                metadata = item["metadata"]
                where = f"{name} {metadata.get('namespace', '')}/{metadata.get('name', '')}"
                yield where, json.dumps(body, ensure_ascii=False)


def process(operator: OperatorProcess) -> Iterator[tuple[str, str]]:
    """What it logs, what it answers, and how it looks from outside."""
    yield "log", operator.log
    for path in ("/metrics", "/readyz", "/healthz"):
        yield path, operator.get(path)[1]
    for name in ("cmdline", "environ"):
        yield name, Path(f"/proc/{operator.pid}/{name}").read_text(errors="replace")


def files(folder: Path) -> Iterator[tuple[str, str]]:
    """Whatever it left on disk."""
    for path in folder.rglob("*"):
        if path.is_file():
            yield str(path), path.read_bytes().decode(errors="replace")
