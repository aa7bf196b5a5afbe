"""Releases: what helm has stored, what a chart would give, and installing it."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from . import manifests, tools
from .client import Client, RefusedError
from .errors import WerfError, doing
from .settings import Deploy, kubeconfig

LOCK = "werf-synchronization"
_LONGEST = 24 * 3600
_HINT = (
    "Use --debug --debug-templates (or $WERF_DEBUG and $WERF_DEBUG_TEMPLATES environment variables)"
    " to get more details about this error."
)
SAID_BY_HELM = re.compile(
    r"(?:(?:UPGRADE|INSTALLATION) FAILED: |failed to create resource: "
    r'|cannot patch "[^"]*" with kind \w+: '
    r"|Unable to continue with \w+: |failed (?:pre|post)-\w+: |warning: Hook .* failed: "
    r"|\d+ errors? occurred:\s+\* )*"
)
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


def history(name: str, client: Client, *, newest: bool = False) -> list[Release]:
    """All stored revisions, the oldest first; werf 3 has a layer more in an error.

    Raises:
        WerfError: Secrets of the namespace can't be read.
    """
    asked = f'build release history: query releases for release "{name}"'
    asked += ": query releases" if newest else ""
    with doing(f"{asked}: query: failed to query with labels"):
        items = client.secrets(f"owner=helm,name={name}")
    found = [Release.of(_unpack(item["data"]["release"])) for item in items]
    return sorted(found, key=lambda release: release.revision)


def mark_failed(name: str, revision: int, client: Client) -> None:
    """Make a revision that helm has stored as deployed a failed one.

    Raises:
        WerfError: it can't be read or written.
    """
    (item,) = client.secrets(f"owner=helm,name={name},version={revision}")
    body = _unpack(item["data"]["release"])
    body["info"]["status"] = "failed"
    packed = base64.b64encode(base64.b64encode(gzip.compress(json.dumps(body).encode()))).decode()
    change = {"metadata": {"labels": {"status": "failed"}}, "data": {"release": packed}}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": item["metadata"]["name"]}}
    client.merge(secret, change)


def without_interrupted(releases: list[Release]) -> list[Release]:
    """Leave out the record of a deploy that was killed, which helm would wait for without end."""
    return [release for release in releases if not release.status.startswith("pending-")]


def forget_interrupted(name: str, namespace: str, releases: list[Release]) -> list[Release]:
    """Drop that record.

    The lock is ours, so nobody is at it any more. werf goes on from such a release as well.
    """
    rest = without_interrupted(releases)
    for release in releases:
        if release not in rest:
            stale = ("secret", f"sh.helm.release.v1.{name}.v{release.revision}", "-n", namespace)
            tools.run("kubectl", "delete", *stale).checked("drop stale release")
    return rest


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
        self._more = {manifests.EXTRA: json.dumps(self.added)}
        self._post_render: list[str] = []
        if any(self.added.values()):
            script = Path(sys.argv[0]).resolve()
            self._post_render += ["--post-renderer", str(script)]
            self._post_render += ["--post-renderer-args", manifests.POST_RENDER]

    def template(self) -> str:
        """The chart's manifests, each after its source, as of a first install in no cluster.

        Raises:
            WerfError: the chart can't be rendered.
        """
        return self._checked(tools.run("helm", "template", *self._arguments))

    def render(self, past: list[Release], *, extra: bool = True) -> Release:
        """What would be installed after some releases, which helm needn't read again.

        Args:
            past: those releases.
            extra: add the labels and annotations that werf adds; sources aren't told then.

        Raises:
            WerfError: the chart can't be rendered.
        """
        self._memory.write_text(json.dumps([release.stored for release in past]))
        memory = {"HELM_DRIVER": "memory", "HELM_MEMORY_DRIVER_DATA": str(self._memory)}
        arguments = [*self._upgrade, "--dry-run=server", "-o", "json"]
        if extra:
            arguments += self._post_render
        ran = tools.run("helm", *arguments, **self._more, **memory)
        return Release.of(json.loads(self._checked(ran)))

    def _checked(self, ran: tools.Ran) -> str:
        """The output of a helm that renders; its error is in werf's words."""
        if ran.code == 0:
            return ran.output
        words = SAID_BY_HELM.sub("", ran.last_words)
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

    def install(self) -> tools.Ran:
        """Install, and wait until everything is ready."""
        arguments = (*self._upgrade, *self._post_render, *self._waiting)
        return tools.run("helm", *arguments, **self._more)

    def roll_back(self, revision: int) -> None:
        """Make a further revision with the content of an earlier one.

        Raises:
            WerfError: helm failed.
        """
        release = ("rollback", self._deploy.release, str(revision))
        place = ("--namespace", self._deploy.namespace, "--cleanup-on-fail")
        tools.run("helm", *release, *place, *self._waiting).checked("rollback release")

    @property
    def _upgrade(self) -> tuple[str, ...]:
        # Without --reset-values, a deploy without values would take those of the release before.
        history = ("--reset-values", "--history-max", str(self._deploy.history))
        author = ("--description", f"werf {self._deploy.version}")
        return ("upgrade", "--install", *self._arguments, *history, *author)

    @property
    def _waiting(self) -> tuple[str, ...]:
        timeout = f"{self._deploy.timeout or _LONGEST}s"
        return ("--wait", "--wait-for-jobs", "--timeout", timeout)


def answer(verb: str, resource: str, namespace: str) -> None:
    """Print whether the account may do something, as kubectl does.

    Raises:
        SystemExit: it may not.
        WerfError: it can't be asked.
    """
    allowed = Client(namespace).may(verb, resource)
    print("yes" if allowed else "no")
    if not allowed:
        sys.exit(1)


def make_namespace(deploy: Deploy, client: Client) -> None:
    """Make the ConfigMap that werf locks with, and before it the namespace if that is missing.

    In werf's order: whoever may write the ConfigMap needs no right on namespaces.

    Raises:
        WerfError: either is missing and can't be made.
    """
    space = deploy.namespace
    lock = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": LOCK}}
    with suppress(RefusedError):
        if client.get(lock):
            return
    refusal = _refusal(client, lock)
    if deploy.create_namespace and ("not found" in refusal or "forbidden" in refusal):
        spaced = tools.run("kubectl", "create", "namespace", space)
        if "AlreadyExists" not in spaced.error and spaced.code != 0:
            raise WerfError(
                "can't apply ConfigMap for locking, and can't apply release "
                f"namespace: {refusal}; {spaced.last_words}"
            )
        refusal = _refusal(client, lock)
    if refusal and "already exists" not in refusal:
        raise WerfError(f"lock release: {refusal}")


def _refusal(client: Client, lock: Object) -> str:
    """Make the ConfigMap; why it can't be made, in kubectl's words, or an empty text."""
    try:
        client.create(lock)
    except RefusedError as error:
        return f"failed to create configmap: {error}"
    return ""


@contextmanager
def locked(name: str, namespace: str) -> Iterator[None]:
    """Let one process at a time work on a release.

    werf keeps its lock in the ConfigMap; here all are on one machine, and a socket without a file
    is let go whatever ends its process.
    """
    server = ""
    if config := kubeconfig(os.environ):
        found = re.search(r'server"?:\s*"?([^"\s,]+)', Path(config).read_text())
        server = found[1] if found else ""
    digest = sha256(f"{server} {namespace} {name}".encode()).hexdigest()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as lock:
        while True:
            try:
                lock.bind(f"\0copyrator-standin-werf-{digest}")
                break
            except OSError:
                time.sleep(0.2)
        yield


def _without_services(config: Object) -> Object:
    """The values that a release was given by its user."""
    everywhere = {k: v for k, v in config.get("global", {}).items() if k not in ("werf", "env")}
    rest = {k: v for k, v in config.items() if k not in ("werf", "global")}
    return {**rest, "global": everywhere}


def _unpack(data: str) -> Object:
    return dict(json.loads(gzip.decompress(base64.b64decode(base64.b64decode(data)))))


def _bundled(chart: Path, name: str) -> dict[str, str]:
    path = chart / name
    if not path.is_file():
        return {}
    try:
        return dict(json.loads(path.read_text()))
    except ValueError as error:
        raise WerfError(f"get annotations and labels: read bundle {name}: {error}") from error
