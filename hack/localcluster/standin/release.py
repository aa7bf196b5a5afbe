"""Releases: what is stored of them, in Helm's form, and what a chart would give."""

from __future__ import annotations

import gzip
import json
import re
import time
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import tools
from .client import Client
from .errors import WerfError, doing
from .settings import Deploy

_HINT = (
    "Use --debug --debug-templates (or $WERF_DEBUG and $WERF_DEBUG_TEMPLATES environment variables)"
    " to get more details about this error."
)
_SAID_BY_HELM = re.compile(r"(?:(?:UPGRADE|INSTALLATION) FAILED: |Unable to continue with \w+: )*")
"""Layers before a cause that werf hasn't."""
_BAD_YAML = re.compile(r"YAML parse error on (\S+): .* line (\d+): ([^\n]*)(?:\n.*)?", re.DOTALL)
# Helm 4, and werf 3 with it, has three lines for each step of a trace.
_STEPS = re.compile(r"(?<=:) (?=template: )")
_TRACE = re.compile(r'template: (\S+): (executing ".*" at <.*>:) (.*)', re.DOTALL)
Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Release:
    """One revision of a release; `paths` are those of the hooks' templates.

    `major` is werf's own: 3 writes more into the manifests than 2, so neither has the same ones.
    """

    name: str
    revision: int
    status: str
    major: int
    manifest: str
    notes: str
    config: Object
    hooks: tuple[str, ...]
    paths: tuple[str, ...]
    stored: Object = field(repr=False)

    @classmethod
    def of(cls, body: Object) -> Release:
        """Read helm's own form."""
        info, hooks = body.get("info", {}), body.get("hooks") or []
        return cls(
            name=str(body.get("name", "")),
            revision=int(body.get("version", 0)),
            status=str(info.get("status", "")),
            major=3 if str(info.get("description", "")).startswith("werf v3") else 2,
            manifest=str(body.get("manifest", "")),
            notes=str(info.get("notes", "")),
            config=_without_services(body.get("config") or {}),
            hooks=tuple(str(hook.get("manifest", "")) for hook in hooks),
            paths=tuple(str(hook.get("path", "")) for hook in hooks),
            stored=body,
        )

    def with_status(self, status: str) -> Release:
        """The same revision with another status."""
        return Release.of({**self.stored, "info": {**self.stored["info"], "status": status}})

    def with_texts(self, manifest: str, hooks: list[str]) -> Release:
        """The same with other manifests."""
        ours = zip(self.stored.get("hooks") or [], hooks, strict=True)
        every = [{**hook, "manifest": text} for hook, text in ours]
        return Release.of({**self.stored, "manifest": manifest, "hooks": every})

    def again(self, revision: int, version: str) -> Release:
        """A further revision with the same content."""
        info = {**self.stored["info"], "status": "pending-rollback"}
        info |= {"last_deployed": _now(), "description": f"werf {version}"}
        return Release.of({**self.stored, "version": revision, "info": info})

    def secret(self) -> Object:
        """What is stored of it."""
        packed = gzip.compress(json.dumps(self.stored).encode(), mtime=0)
        labels = {"name": self.name, "owner": "helm", "status": self.status}
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "helm.sh/release.v1",
            "metadata": {
                "name": f"sh.helm.release.v1.{self.name}.v{self.revision}",
                "labels": {**labels, "version": str(self.revision)},
            },
            "data": {"release": b64encode(b64encode(packed)).decode()},
        }

    def same_as(self, other: Release) -> bool:
        """Whether a deploy of `other` over this one would store nothing new."""
        return (
            self.status == "deployed"
            and self.major == other.major
            and self.notes == other.notes
            and self.config == other.config
            and self.hooks == other.hooks
            and self.manifest == other.manifest
        )


def history(name: str, client: Client, *, newest: bool = False, layers: str = "") -> list[Release]:
    """All stored revisions, the oldest first.

    Args:
        name: the release's.
        client: the connection.
        newest: werf 3 has a layer more in an error.
        layers: those of an error, in place of a deploy's.
    """
    asked = f'build release history: query releases for release "{name}"'
    asked += ": query releases" if newest else ""
    with doing(f"{layers or f'{asked}: query'}: failed to query with labels"):
        items = client.secrets(f"owner=helm,name={name}")
    found = [Release.of(_unpack(item["data"]["release"])) for item in items]
    return sorted(found, key=lambda release: release.revision)


def store(new: Release, past: list[Release], client: Client, limit: int) -> list[Release]:
    """Store a new revision, after what is too much for a history of `limit` is deleted.

    As Helm's storage: the last one that is deployed stays.

    Returns:
        All that are stored.
    """
    with doing("create release"):
        deployed = [each for each in past if each.status == "deployed"][-1:]
        old = [each for each in past if each not in deployed]
        excess = old[: max(0, len(past) - limit + 1) if limit else 0]
        for each in excess:
            client.delete(each.secret())
        client.create(new.secret())
    return [each for each in [*past, new] if each not in excess]


def update(release: Release, status: str, client: Client) -> None:
    """Store another status of a revision."""
    with doing("update release"):
        client.update(release.with_status(status).secret())


def converting(chart: Path) -> str:
    """A layer of werf's."""
    return f'convert rendered templates to installable resources for chart at "{chart}"'


class Helm:
    """`helm upgrade --install` and `helm template` for one deploy.

    Args:
        deploy: what was asked for.
        chart: the unpacked chart.
        values: values files below the user's, from the stand-in.

    Attributes:
        chart: the unpacked chart.
        namespace: the release's.
        added: annotations and labels that every object gets, of the bundle and the variables.
    """

    def __init__(self, deploy: Deploy, chart: Path, values: list[Path]) -> None:
        self.chart = chart
        self.namespace = deploy.namespace
        self._deploy = deploy
        self._memory = chart.parent / "history.json"
        self._arguments = [
            *(deploy.release, str(chart), "--namespace", deploy.namespace),
            # The API server validates as well, and the schema takes helm two thirds of its time.
            "--disable-openapi-validation",
        ]
        for file in values:
            self._arguments += ["--values", str(file)]
        self._arguments += deploy.values
        self.added = {
            "annotations": {**_bundled(chart, "extra_annotations.json"), **deploy.annotations},
            "labels": {**_bundled(chart, "extra_labels.json"), **deploy.labels},
        }

    def template(self) -> str:
        """The chart's manifests, each after its source, as of a first install in no cluster."""
        return self._checked(tools.run("helm", "template", *self._arguments))

    def render(self, past: list[Release]) -> Release:
        """What would be installed after some releases, which helm needn't read again."""
        # What a killed deploy has left is pending, and helm would wait for it without end.
        ended = [
            each.with_status("failed") if each.status.startswith("pending-") else each
            for each in past
        ]
        self._memory.write_text(json.dumps([release.stored for release in ended]))
        memory = {"HELM_DRIVER": "memory", "HELM_MEMORY_DRIVER_DATA": str(self._memory)}
        # Without --reset-values, a deploy without values would take those of the release before.
        how = ("--reset-values", "--dry-run=server", "-o", "json")
        ran = tools.run("helm", "upgrade", "--install", *self._arguments, *how, **memory)
        body = json.loads(self._checked(ran))
        body["info"]["description"] = f"werf {self._deploy.version}"
        return Release.of(body)

    def _checked(self, ran: tools.Ran) -> str:
        """The output of a helm that renders; its error is in werf's words."""
        if ran.code == 0:
            return ran.output
        words = _SAID_BY_HELM.sub("", ran.last_words)
        if found := _BAD_YAML.fullmatch(words):
            parsed = f'parse YAML resource #1 for "{found[1]}": [{found[2]}:1] {found[3]}'
            words = f"{converting(self.chart)}: {parsed}"
        elif words.startswith(("template: ", "execution error at ")):
            if self._deploy.newest:
                words = "".join(
                    _TRACE.sub(r"\1\n  \2\n    \3\n", each) for each in _STEPS.split(words)
                )
            else:
                words += f"\n{_HINT}"
            words = f'render resources for chart "{self.chart.name}": {words.rstrip()}'
        raise WerfError(f"render chart: {words}")


def _without_services(config: Object) -> Object:
    """The values that a release was given by its user."""
    everywhere = {k: v for k, v in config.get("global", {}).items() if k not in ("werf", "env")}
    rest = {k: v for k, v in config.items() if k not in ("werf", "global")}
    return {**rest, "global": everywhere}


def _unpack(data: str) -> Object:
    return dict(json.loads(gzip.decompress(b64decode(b64decode(data)))))


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _bundled(chart: Path, name: str) -> dict[str, str]:
    path = chart / name
    if not path.is_file():
        return {}
    try:
        return dict(json.loads(path.read_text()))
    except ValueError as error:
        raise WerfError(f"get annotations and labels: read bundle {name}: {error}") from error
