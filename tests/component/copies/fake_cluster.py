"""The fake API server with what copying needs: selectors, uids, preconditions, managedFields."""

import asyncio
import json
import uuid
from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

from aiohttp import web
from tests.component.kube.fake_api import FakeApi, error, json_response, line

from copyrator.api.selectors import LabelSelector

SERVER_METADATA = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")


class FakeCluster(FakeApi):
    """Namespaces, rules and namespaced objects of any kind."""

    created = "2026-01-01T00:00:00Z"
    """When an object is created."""
    unknown: frozenset[str] = frozenset()
    """Top-level fields that it drops, with a warning."""

    # --- the test's side -------------------------------------------------------------------------

    def namespace(
        self, name: str, *, annotations: dict[str, str] | None = None, **labels: str
    ) -> None:
        metadata = {"name": name, "labels": labels, "annotations": annotations or {}}
        self.write(f"/api/v1/namespaces/{name}", {"metadata": metadata})

    def object(self, plural: str, namespace: str, name: str, **fields: Any) -> dict[str, Any]:
        metadata = {"name": name, "namespace": namespace, **fields.pop("metadata", {})}
        return self.write(path_of(plural, namespace, name), {"metadata": metadata, **fields})

    def found(self, plural: str, namespace: str, name: str) -> dict[str, Any] | None:
        return self.objects.get(path_of(plural, namespace, name))

    def copies(self, plural: str, name: str) -> list[str]:
        """Namespaces with a copy of that name."""
        return sorted(
            body["metadata"]["namespace"]
            for path, body in self.objects.items()
            if path.endswith(f"/{plural}/{name}") and is_copy(body)
        )

    def gone(self, plural: str, namespace: str, name: str) -> None:
        self.drop(path_of(plural, namespace, name))

    def writes(self, plural: str) -> list[tuple[str, str]]:
        """Verb and path of each write to a kind, refused ones too."""
        return [
            (seen.verb, seen.path)
            for seen in self.seen
            if seen.verb in ("create", "update", "patch", "delete") and f"/{plural}" in seen.path
        ]

    # --- objects ---------------------------------------------------------------------------------

    def write(self, path: str, body: dict[str, Any], manager: str = "test") -> dict[str, Any]:
        """Create or replace, with everything that the real server adds."""
        old = self.objects.get(path)
        new = {**body, "metadata": dict(body["metadata"])}  # the rest is copied when it is stored
        metadata = new["metadata"]
        before = old["metadata"] if old else {}
        for key in SERVER_METADATA:
            metadata.pop(key, None)
        metadata["uid"] = before.get("uid") or self.make_uid(path)
        metadata["creationTimestamp"] = before.get("creationTimestamp") or self.created
        for key in ("generation", "deletionTimestamp"):
            if key in before:
                metadata[key] = before[key]
        if old is None or content(old) != content(new):
            metadata["generation"] = before.get("generation", 0) + 1
        metadata["managedFields"] = managed(old, new, manager)
        if old and without_version(old) == without_version(new):
            return old
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            metadata["resourceVersion"] = str(self._store("DELETED", path, new))
            return new
        self._store("MODIFIED" if old else "ADDED", path, new)
        return self.objects[path]

    def make_uid(self, path: str) -> str:
        """The uid of a new object at a path."""
        return str(uuid.uuid4())

    def drop(self, path: str) -> None:
        """Delete as the API does: finalizers hold the object."""
        body = self.objects[path]
        if body["metadata"].get("finalizers"):
            metadata = {**body["metadata"], "deletionTimestamp": "2026-01-01T00:00:01Z"}
            metadata["generation"] += 1  # as the API server does
            body = {**body, "metadata": metadata}
            self._store("MODIFIED", path, body)
        else:
            self._store("DELETED", path, body)

    # --- the server's side -----------------------------------------------------------------------

    def _found(self, request: web.Request) -> list[tuple[str, dict[str, Any]]]:
        wanted = Filter(request)
        return [(p, body) for p, body in sorted(self.objects.items()) if wanted.means(p, body)]

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        since = int(request.query["resourceVersion"])
        if since < self.compacted:
            return await error(410, "Expired")(request)
        loop = asyncio.get_running_loop()
        end = loop.time() + float(request.query["timeoutSeconds"])
        wanted = Filter(request)
        response = web.StreamResponse()
        await response.prepare(request)
        self._open.append(request)
        shown = {path for path, body in self._at(since).items() if wanted.means(path, body)}
        position = bisect_right(self._log, since, key=lambda entry: entry[0])
        try:
            while loop.time() < end:
                while position < len(self._log):
                    _, kind, path, body = self._log[position]
                    position += 1
                    told = wanted.event(kind, path, body, shown)
                    if told:
                        await response.write(line(told, wanted.shown(body)))
                pause = min(end - loop.time(), 3600)
                try:
                    async with asyncio.timeout(max(pause, 0)):
                        await self._news.wait()
                except TimeoutError:
                    pass
        finally:
            self._open.remove(request)
        return response

    def _at(self, version: int) -> dict[str, dict[str, Any]]:
        """All objects as they were at a version."""
        if not self._log or version >= self._log[-1][0]:
            return self.objects
        objects: dict[str, dict[str, Any]] = {}
        for at, kind, path, body in self._log:
            if at <= version:
                objects.pop(path, None)
                if kind != "DELETED":
                    objects[path] = body
        return objects

    async def _list(self, request: web.Request) -> web.StreamResponse:
        answer = await super()._list(request)
        assert isinstance(answer, web.Response)
        return answer

    async def _create(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        path = f"{request.path}/{body['metadata']['name']}"
        namespace = namespace_of(request.path)
        home = self.objects.get(f"/api/v1/namespaces/{namespace}")
        if namespace and home is None:
            details = {"kind": "namespaces", "name": namespace}
            return await error(404, "NotFound", details=details)(request)
        if home and home["metadata"].get("deletionTimestamp"):
            details = {"causes": [{"reason": "NamespaceTerminating"}]}
            return await error(403, "Forbidden", details=details)(request)
        if path in self.objects:
            return await error(409, "AlreadyExists")(request)
        stored = self.write(path, self._known(body), manager_of(request))
        return self._answer(request, stored, 201, dropped=self.unknown & body.keys())

    async def _update(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if refusal := await self._refuse(request, body["metadata"]):
            return refusal
        stored = self.write(request.path, self._known(body), manager_of(request))
        return self._answer(request, stored, dropped=self.unknown & body.keys())

    def _known(self, body: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in body.items() if key not in self.unknown}

    async def _patch(self, request: web.Request) -> web.StreamResponse:
        patch = await request.json()
        path = request.path.removesuffix("/status")
        metadata = dict(patch.get("metadata") or {})
        if refusal := await self._refuse(request, metadata, path):
            return refusal
        for key in ("uid", "resourceVersion"):
            (patch.get("metadata") or {}).pop(key, None)
        if path != request.path:
            body = {**self.objects[path], "status": patch["status"]}
        else:
            body = merge(self.objects[path], patch)
        return self._answer(request, self.write(path, body, manager_of(request)))

    async def _delete(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        options = json.loads(raw) if raw else {}
        if refusal := await self._refuse(request, options.get("preconditions") or {}):
            return refusal
        self.drop(request.path)
        left = self.objects.get(request.path)
        body = left or {"kind": "Status", "status": "Success", "metadata": {}}
        return json_response(body)

    async def _refuse(
        self, request: web.Request, wanted: dict[str, Any], path: str = ""
    ) -> web.StreamResponse | None:
        path = path or request.path
        if path not in self.objects:
            name = path.rsplit("/", 1)[-1]
            return await error(404, "NotFound", details={"name": name, "kind": "x"})(request)
        metadata = self.objects[path]["metadata"]
        for key in ("uid", "resourceVersion"):
            if wanted.get(key) and wanted[key] != metadata[key]:
                return await error(409, "Conflict")(request)
        return None

    def _answer(
        self,
        request: web.Request,
        body: dict[str, Any],
        status: int = 200,
        *,
        dropped: Iterable[str] = (),
    ) -> web.StreamResponse:
        answer = json_response(Filter(request).shown(body), status=status)
        for field in dropped:
            answer.headers.add("Warning", f'299 - "unknown field \\"{field}\\""')
        return answer


class Filter:
    """What a list or watch means by path, selectors and Accept."""

    def __init__(self, request: web.Request) -> None:
        parts = request.path.strip("/").split("/")
        self.root = parts[: 2 if parts[0] == "api" else 3]
        rest = parts[len(self.root) :]
        self.namespace = rest[1] if rest[0] == "namespaces" and len(rest) > 2 else None
        self.plural = rest[-1]
        self.metadata_only = "as=PartialObjectMetadata" in request.headers["Accept"]
        self.labels = selector(request.query.get("labelSelector", ""))
        field, _, self.value = request.query.get("fieldSelector", "").partition("=")
        self.field = field.removeprefix("metadata.")

    def means(self, path: str, body: dict[str, Any]) -> bool:
        parts = path.strip("/").split("/")
        metadata = body["metadata"]
        return (
            parts[: len(self.root)] == self.root
            and parts[-2] == self.plural
            and self.namespace in (None, metadata.get("namespace"))
            and self.labels.matches(metadata.get("labels"))
            and self.value in ("", (metadata if self.field == "name" else body).get(self.field))
        )

    def event(self, kind: str, path: str, body: dict[str, Any], shown: set[str]) -> str | None:
        means = kind != "DELETED" and self.means(path, body)
        was = path in shown
        if means:
            shown.add(path)
            return "MODIFIED" if was else "ADDED"
        shown.discard(path)
        return "DELETED" if was else None

    def shown(self, body: dict[str, Any]) -> dict[str, Any]:
        return {"metadata": body["metadata"]} if self.metadata_only else body


def selector(text: str) -> LabelSelector:
    """Only what the tests use: ``key=value`` and ``key``."""
    labels = dict(part.split("=") for part in text.split(",") if "=" in part)
    return LabelSelector.from_labels(labels)


def path_of(plural: str, namespace: str, name: str) -> str:
    group = "apis/flant.com/v1" if plural == "copyrators" else "api/v1"
    return f"/{group}/namespaces/{namespace}/{plural}/{name}"


def namespace_of(path: str) -> str:
    parts = path.strip("/").split("/")
    return parts[parts.index("namespaces") + 1] if "namespaces" in parts[:-1] else ""


def manager_of(request: web.Request) -> str:
    return request.query.get("fieldManager", "unknown")


def is_copy(body: dict[str, Any]) -> bool:
    return body["metadata"].get("labels", {}).get("app.kubernetes.io/managed-by") == "copyrator"


def merge(target: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def content(body: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key not in ("metadata", "status")}


def without_version(body: dict[str, Any]) -> dict[str, Any]:
    metadata = {k: v for k, v in body["metadata"].items() if k != "resourceVersion"}
    return {**body, "metadata": metadata}


def leaves(body: dict[str, Any]) -> dict[tuple[str, ...], Any]:
    found: dict[tuple[str, ...], Any] = {}
    for name, value in body.items():
        if name in ("apiVersion", "kind", "status"):
            continue
        if name == "metadata":
            for field in ("labels", "annotations"):
                for key, item in (value.get(field) or {}).items():
                    found["metadata", field, key] = item
        elif isinstance(value, dict):
            found |= {(name, key): item for key, item in value.items()}
        else:
            found[name,] = value
    return found


def managed(old: dict[str, Any] | None, new: dict[str, Any], manager: str) -> list[dict[str, Any]]:
    """managedFields after an update: what changed is the writer's, the rest its earlier owners'."""
    before, after = leaves(old or {}), leaves(new)
    owners: dict[tuple[str, ...], set[str]] = {}
    for entry in (old or {}).get("metadata", {}).get("managedFields", []):
        for leaf in flat(entry["fieldsV1"]):
            owners.setdefault(leaf, set()).add(entry["manager"])
    for leaf, value in after.items():
        if leaf not in before or before[leaf] != value:
            owners[leaf] = {manager}
    managers: dict[str, dict[str, Any]] = {}
    for leaf in after:
        for owner in owners.get(leaf, ()):
            fields = managers.setdefault(owner, {})
            for step in leaf:
                fields = fields.setdefault(f"f:{step}", {})
    return [
        {"manager": name, "operation": "Update", "apiVersion": "v1", "fieldsV1": fields}
        for name, fields in sorted(managers.items())
    ]


def flat(fields: dict[str, Any], above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for step, below in fields.items():
        leaf = (*above, step.removeprefix("f:"))
        found += flat(below, leaf) if below else [leaf]
    return found
