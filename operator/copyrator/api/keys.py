"""Keys of the work queue.

Structs, not tuples: ``RuleKey("a", "b")`` must never equal ``BundleKey("a", "b")``, because both
are in the same queue. A write looks its key up some forty times, so the hash is kept.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec


class ObjectName(NamedTuple):
    """Namespace and name of an object of a known kind; cluster-scoped: an empty ``namespace``."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class ReleaseKey(NamedTuple):
    """A Helm release: its identity is server, namespace and name."""

    namespace: str
    name: str
    server: str = ""
    """``https://HOST…`` of the API server that spec.kubeConfig names; empty: the operator's own.
    Two names of one server are two: nothing else is known of it without asking it.
    """

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" + (f" in {self.server}" if self.server else "")


class RuleKey(msgspec.Struct, frozen=True, order=True, cache_hash=True, gc=False):
    """Reconcile one CopyratorRule: its sources, bindings, finalizer and status."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"rule/{self.namespace}/{self.name}"


class CopyKey(msgspec.Struct, frozen=True, order=True, cache_hash=True, gc=False):
    """Reconcile one target object: every rule's request for it against the live object.

    ``kind`` is the resource's key, ``secrets`` or ``roles.rbac.authorization.k8s.io``.
    """

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}"


class BundleKey(msgspec.Struct, frozen=True, order=True, cache_hash=True, gc=False):
    """Reconcile one Bundle."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"bundle/{self.namespace}/{self.name}"


Key = RuleKey | CopyKey | BundleKey
