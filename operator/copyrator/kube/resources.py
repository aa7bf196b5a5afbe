"""The kinds that the operator uses, and the discovery of a kind's API path."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import quote

from copyrator.api import names
from copyrator.api.text import meant
from copyrator.kube.errors import AmbiguousKind, KindUnavailable, NotFound


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind as the API serves it; `group` is empty for the core group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """As in an object's `apiVersion`: ``v1`` or ``apps/v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def key(self) -> str:
        """As in RBAC and kubectl: ``secrets`` or ``roles.rbac.authorization.k8s.io``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """The URL's path; without `namespace`, a namespaced kind's path for the whole cluster.

        Raises:
            NotFound: no object can have this name, and its path would be another resource's.
        """
        path = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if namespace and self.namespaced:
            path += f"/namespaces/{quote(namespace, safe='')}"
        path += f"/{self.plural}"
        if name is not None:
            if name in _NO_NAMES:
                raise NotFound(f"{name!r} isn't a valid name of a {self.kind}")
            path += f"/{quote(name, safe='')}"
        if subresource:
            path += f"/{subresource}"
        return path


_NO_NAMES = frozenset(("", ".", ".."))

DELETED = "DELETED"
"""The type of a watch's event that says that an object is gone."""

_RBAC = "rbac.authorization.k8s.io"

CONFIGMAPS = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS = Resource("", "v1", "secrets", "Secret")
SERVICEACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
RESOURCEQUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
LIMITRANGES = Resource("", "v1", "limitranges", "LimitRange")
PODS = Resource("", "v1", "pods", "Pod")
EVENTS = Resource("", "v1", "events", "Event")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
ROLES = Resource(_RBAC, "v1", "roles", "Role")
CLUSTERROLES = Resource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
ROLEBINDINGS = Resource(_RBAC, "v1", "rolebindings", "RoleBinding")
NETWORKPOLICIES = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
JOBS = Resource("batch", "v1", "jobs", "Job")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
STATEFULSETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
DAEMONSETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
CRDS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)
RULES = Resource(names.RULE_GROUP, names.RULE_VERSION, names.RULE_PLURAL, names.RULE_KIND)
BUNDLES = Resource(names.BUNDLE_GROUP, names.BUNDLE_VERSION, names.BUNDLE_PLURAL, names.BUNDLE_KIND)

WELL_KNOWN: Mapping[str, Resource] = {
    res.kind: res
    for res in (
        CONFIGMAPS,
        SECRETS,
        SERVICEACCOUNTS,
        RESOURCEQUOTAS,
        LIMITRANGES,
        PODS,
        NAMESPACES,
        ROLES,
        ROLEBINDINGS,
        NETWORKPOLICIES,
        JOBS,
        LEASES,
        RULES,
        BUNDLES,
    )
}
"""Kinds that need no discovery. A CRD that uses one of these names in a group of its own (Calico
has a NetworkPolicy) doesn't make the plain name ambiguous, so that existing rules stay valid."""

_DISCOVERY = ",".join(
    f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    for version in ("v2", "v2beta1")
)

UID_NAMESPACE: Final = "kube-system"
"""The Namespace whose uid tells clusters apart."""


class _Requests(Protocol):
    @property
    def request(self) -> Callable[..., Awaitable[Any]]: ...


class Discovery:
    """Resolves a kind to its `Resource` by API discovery, and caches the answer.

    Aggregated discovery takes two requests. For an unknown kind it is repeated at most every
    `patience` seconds, so that a rule on a missing CRD causes few requests.
    """

    def __init__(
        self,
        client: _Requests,
        *,
        patience: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._patience = patience
        self._clock = clock
        self._lock = asyncio.Lock()
        self._discovered_at: float | None = None
        self._by_kind: dict[str, list[Resource]] = {}

    async def resolve(self, kind: str, api_version: str | None = None) -> Resource:
        """Resolve a kind.

        Raises:
            KindUnavailable: no such kind is served at present.
            AmbiguousKind: several API groups serve it and `api_version` isn't set.
            ApiError: the discovery failed.
        """
        known = WELL_KNOWN.get(kind)
        if known and api_version in (None, known.api_version):
            return known
        found = self._lookup(kind, api_version) or await self._found_anew(kind, api_version)
        if not found:
            shown = f"{kind} in {api_version}" if api_version else kind
            raise KindUnavailable(
                f"the cluster serves no kind {shown}{meant(kind, self._by_kind)}; check that its "
                "CRD is installed"
            )
        groups = {res.group for res in found}
        if len(groups) > 1:
            options = " or ".join(sorted({res.api_version for res in found}))
            raise AmbiguousKind(f"several API groups serve {kind}: set apiVersion to {options}")
        return found[0]

    async def in_group(self, kind: str, group: str) -> Resource | None:
        """The kind in this API group, in any version; None if it isn't served at present.

        Raises:
            ApiError: the discovery failed.
        """
        known = WELL_KNOWN.get(kind)
        if known and known.group == group:
            return known
        found = _of_group(self._lookup(kind), group)
        return found or _of_group(await self._found_anew(kind), group)

    async def _found_anew(self, kind: str, api_version: str | None = None) -> list[Resource]:
        """The kind by a discovery made now, or just before."""
        async with self._lock:
            at = self._discovered_at
            if at is None or self._clock() - at >= self._patience:
                await self.refresh()
        return self._lookup(kind, api_version)

    async def refresh(self) -> None:
        """Discover all kinds now."""
        by_kind: dict[str, list[Resource]] = {}
        for res in await self._discover():
            by_kind.setdefault(res.kind, []).append(res)
        self._by_kind = by_kind
        self._discovered_at = self._clock()

    async def find_listable(self) -> list[Resource]:
        """All namespaced kinds that can be listed, each in its preferred version.

        Raises:
            ApiError: the discovery failed.
        """
        found: dict[tuple[str, str], Resource] = {}
        for res in await self._discover(verb="list"):
            if res.namespaced:
                found.setdefault((res.group, res.plural), res)
        return list(found.values())

    async def _discover(self, verb: str | None = None) -> list[Resource]:
        """All kinds in all versions, in each group the preferred one first."""
        found: list[Resource] = []
        for path in ("/api", "/apis"):
            answer = await self._client.request("GET", path, accept=_DISCOVERY)
            found += _resources(answer.get("items") or (), verb)
        return found

    def _lookup(self, kind: str, api_version: str | None = None) -> list[Resource]:
        found = self._by_kind.get(kind, [])
        return [res for res in found if api_version in (None, res.api_version)]


def _of_group(found: Iterable[Resource], group: str) -> Resource | None:
    return next((res for res in found if res.group == group), None)


def _resources(items: Iterable[Mapping[str, Any]], verb: str | None = None) -> Iterable[Resource]:
    """Parse an APIGroupDiscoveryList: groups, in each the versions, preferred first.

    With a verb only the resources that have it.
    """
    for item in items:
        group = str((item.get("metadata") or {}).get("name") or "")
        for version in item.get("versions") or ():
            for served in version.get("resources") or ():
                kind = (served.get("responseKind") or {}).get("kind")
                if kind and (verb is None or verb in (served.get("verbs") or ())):
                    yield Resource(
                        group=group,
                        version=str(version["version"]),
                        plural=str(served["resource"]),
                        kind=str(kind),
                        namespaced=served.get("scope") == "Namespaced",
                    )
