"""What a bad object is, and what several sorts of them share."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from random import Random
from typing import Any

from hostile import texts

RULES = "apis/flant.com/v1", "copyrators"
BUNDLES = "apis/operator.werf.dev/v1", "bundles"
KINDS = {"copyrators": "CopyratorRule", "bundles": "Bundle"}
"""Kinds that a body has to name: those of custom resources."""
CONFIG_MAPS = "api/v1", "configmaps"
SECRETS = "api/v1", "secrets"
JOBS = "apis/batch/v1", "jobs"
PODS = "api/v1", "pods"

SHARED = "shared"
"""Label of the sources that a trusted rule copies from a hostile namespace."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where the bad objects go, and what they are aimed at.

    Attributes:
        evil: namespaces of the hostile author.
        forged: namespaces of his into which the trusted rule `rule` copies its `source`.
        victim: a namespace of somebody else, for which `bundle` deploys.
        rule: `namespace/name` of the trusted rule.
        registry: `host:port` of the hostile registry.
    """

    evil: tuple[str, ...]
    forged: tuple[str, ...]
    victim: str
    rule: str
    registry: str


@dataclass(frozen=True, slots=True)
class Bad:
    """One bad object.

    Attributes:
        where: the API's path and the plural.
        namespace: its namespace; empty where the object is a Namespace.
        name: its name.
        content: all but apiVersion, kind and name.
        status: what is written to its status, if anything.
        manager: the field manager that the writer claims to be.
    """

    where: tuple[str, str]
    namespace: str
    name: str
    content: dict[str, Any]
    status: dict[str, Any] | None = None
    manager: str = "kubectl"

    @property
    def body(self) -> dict[str, Any]:
        """The whole object."""
        group, plural = self.where
        kind = {"apiVersion": group.removeprefix("apis/"), "kind": KINDS.get(plural)}
        metadata = {"name": self.name, **self.content["metadata"]}
        return {**(kind if plural in KINDS else {}), **self.content, "metadata": metadata}

    @property
    def collection(self) -> str:
        """The path that it is created by."""
        group, plural = self.where
        return f"/{group}/namespaces/{self.namespace}/{plural}"

    @property
    def path(self) -> str:
        """Its own path."""
        return f"{self.collection}/{self.name}"


def metadata(random: Random) -> dict[str, Any]:
    """Labels and annotations up to what an object may have (256 KiB)."""
    annotations = random.choice(
        (
            lambda: {"copyrator.flant.com/requestedAt": texts.text(random, 200_000)},
            lambda: {"operator.werf.dev/requestedAt": texts.text(random, 200_000)},
            lambda: {f"app.kubernetes.io/k{n}": "x" for n in range(1_000)},
            lambda: {"kubectl.kubernetes.io/last-applied-configuration": "{" * 200_000},
            lambda: {"a": random.choice(texts.UNICODE) * 50},
        )
    )()
    labels = {f"k{n}": texts.label_value(random) for n in range(random.choice((0, 3, 300)))}
    return {
        "annotations": annotations,
        "labels": labels,
        "finalizers": [f"evil.example/{n}" for n in range(random.choice((0, 0, 1, 500)))],
    }


def data_object(
    where: tuple[str, str], namespace: str, name: str, data: dict[str, str], **metadata: Any
) -> Bad:
    """A ConfigMap or Secret."""
    if where == SECRETS:
        data = {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}
    return Bad(where, namespace, name, {"metadata": metadata, "data": data})
