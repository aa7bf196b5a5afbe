"""Somebody who asks the API server, under a name and with the rights of their own."""

from dataclasses import dataclass
from typing import Any

from tests.e2e.installation import collection_of, object_path

from localcluster import Api
from localcluster.api import ApiStatusError


class RefusedError(Exception):
    """The API server said no."""


@dataclass
class Person:
    """A user; all rights are theirs whose `api` impersonates nobody."""

    api: Api
    user: str

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        kind: str = "",
        manager: str = "kubectl",
        **parameters: str,
    ) -> Any:
        """One request; what it is answered with.

        Raises:
            RefusedError: an error, in the API server's words.
        """
        content = f"application/{kind}" if kind else "application/json"
        if method != "GET":
            parameters["fieldManager"] = manager
        try:
            return self.api.request(method, path, body, content_type=content, parameters=parameters)
        except ApiStatusError as error:
            raise RefusedError(str(error)) from None

    def get(self, path: str) -> Any:
        return self.ask("GET", path)

    def create(self, manifest: dict[str, Any], **options: str) -> Any:
        return self.ask("POST", collection_of(manifest), manifest, **options)

    def replace(self, manifest: dict[str, Any], sub: str = "", **options: str) -> Any:
        """As `kubectl replace` does: also what has changed since it was read."""
        path = object_path(manifest)
        metadata = dict(manifest["metadata"])
        if "resourceVersion" not in metadata:
            metadata["resourceVersion"] = self.get(path)["metadata"]["resourceVersion"]
        return self.ask("PUT", f"{path}{sub}", {**manifest, "metadata": metadata}, **options)

    def apply(self, manifest: dict[str, Any], **options: str) -> Any:
        """As `kubectl apply --server-side` does."""
        path = object_path(manifest)
        return self.ask("PATCH", path, manifest, kind="apply-patch+yaml", **options)

    def merge(self, path: str, body: Any, **options: str) -> Any:
        """As `kubectl patch --type=merge` does."""
        return self.ask("PATCH", path, body, kind="merge-patch+json", **options)

    def delete(self, path: str) -> None:
        self.ask("DELETE", path)
