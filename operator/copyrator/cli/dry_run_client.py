"""A client whose writes are dry runs: quotas, webhooks and RBAC respond as they would."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from copyrator.api.keys import RuleKey
from copyrator.kube.client import transport
from copyrator.kube.client.client import KubeClient
from copyrator.kube.resources import RULES, Resource


class DryRunClient(KubeClient):
    """Sends every write with dryRun=All; records those of copies, answers those of rules itself.

    A rule's finalizer and status aren't part of a dry run.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, on_dry_run=self._answered, **kwargs)
        self.writes: dict[str, list[tuple[str, Mapping[str, Any] | None]]] = {}
        """Method and body by path, in order, of those that succeeded."""
        self.ready_conditions: dict[RuleKey, Mapping[str, Any]] = {}
        """The Ready conditions that would have been written."""
        self.assumed: set[str] = set()
        """Namespaces that don't exist: nothing is sent for a creation in them."""

    async def patch(
        self, res: Resource, namespace: str | None, name: str, body: Any, **options: Any
    ) -> dict[str, Any]:
        """For a rule nothing is sent."""
        if res is not RULES:
            return await super().patch(res, namespace, name, body, **options)
        if "status" in body:
            conditions = body["status"]["conditions"]
            ready = next(one for one in conditions if one["type"] == "Ready")
            self.ready_conditions[RuleKey(str(namespace), name)] = ready
        return {"metadata": {"resourceVersion": "0", **body.get("metadata", {})}}

    async def request(self, method: str, path: str, *, body: Any = None, **options: Any) -> Any:
        """For an object in an assumed namespace nothing is sent."""
        if method != "POST" or _namespace_of(path) not in self.assumed:
            return await super().request(method, path, body=body, **options)
        answer = {**body, "metadata": {**body["metadata"], "uid": path}}
        self._answered(transport.Call("create", "", path, method, body=body), answer)
        return answer

    def _answered(self, call: transport.Call, answer: Any) -> None:
        self.writes.setdefault(call.path, []).append((call.method, call.body))
        if isinstance(answer, dict) and isinstance(answer.get("metadata"), dict):
            answer["metadata"].setdefault("resourceVersion", "0")  # without storage there is none
            if call.method == "DELETE":
                answer["metadata"].pop("deletionTimestamp", None)  # no finalizer is waited for


def _namespace_of(path: str) -> str:
    return path.partition("/namespaces/")[2].partition("/")[0]
