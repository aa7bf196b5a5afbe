"""Requests to the API server, as kubectl would make them, on one connection."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import ssl
import subprocess
import tempfile
import time
from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from . import tools
from .errors import WerfError
from .settings import kubeconfig

Object = dict[str, Any]
FIELD_MANAGER = "helm"
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TIMEOUT = 60.0


class RefusedError(WerfError):
    """The API server answered with an error; the message is the server's, `status` that of HTTP."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class UnreachableError(WerfError):
    """The API server didn't answer."""


class Client:
    """The cluster of the kubeconfig, or of the pod.

    Args:
        namespace: where objects go that name none.
    """

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._kinds: dict[str, dict[str, Object]] = {}
        found = _config()
        server, tls, self._headers = _of_kubeconfig(found) if found.get("users") else _of_pod()
        address, self._server = urlsplit(server), server.rstrip("/")
        timeout = float(os.environ.get("WERF_KUBE_REQUEST_TIMEOUT", "").rstrip("s") or _TIMEOUT)
        self._connection = http.client.HTTPSConnection(
            address.hostname or "", address.port or 443, timeout=timeout, context=tls
        )

    def get(self, body: Object) -> Object | None:
        """The object as the cluster has it; None if it, its namespace or its kind isn't there.

        Raises:
            RefusedError: it may not be read.
        """
        path = self._path(body)
        return self._request("GET", path) if path else None

    def resource(self, body: Object) -> Object:
        """What the server tells of an object's kind; empty if it has no such kind."""
        version = body["apiVersion"]
        if version not in self._kinds:
            found = (self._request("GET", _root(version)) or {}).get("resources", [])
            self._kinds[version] = {each["kind"]: each for each in found if "/" not in each["name"]}
        return self._kinds[version].get(body["kind"], {})

    def list_events(self, namespace: str) -> None:
        """List the events of a namespace, as tracking does.

        Raises:
            RefusedError: they may not be listed.
        """
        self._request("GET", f"/api/v1/namespaces/{namespace}/events?limit=1")

    def schemas(self, version: str) -> Object:
        """The schemas of an API version's objects, by their names; empty if it isn't served."""
        found = self._request("GET", f"/openapi/v3{_root(version)}") or {}
        return dict(found.get("components", {}).get("schemas", {}))

    def secrets(self, selector: str) -> list[Object]:
        """The Secrets of the namespace with these labels.

        Raises:
            RefusedError: they may not be read.
        """
        query = urlencode({"labelSelector": selector})
        found = self._request("GET", f"/api/v1/namespaces/{self._namespace}/secrets?{query}")
        return list((found or {}).get("items", []))

    def may(self, verb: str, resource: str) -> bool:
        """Whether the account may do this with a resource of the core API in the namespace.

        Raises:
            RefusedError: it may not ask.
        """
        asked = {"verb": verb, "resource": resource, "namespace": self._namespace}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": asked},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        found = self._request("POST", path, json.dumps(body)) or {}
        return bool(found.get("status", {}).get("allowed"))

    def create(self, body: Object, *, manager: str = FIELD_MANAGER, dry: bool = False) -> None:
        """Make an object.

        Raises:
            RefusedError: the API server refuses, or there is no such namespace.
        """
        path, _, _ = self._path(body).rpartition("/")
        query = {"fieldManager": manager, **({"dryRun": "All"} if dry else {})}
        self._write("POST", path, query, body)

    def apply(self, body: Object, *, dry: bool = False) -> Object:
        """Make an object, or change it, by a server-side apply; what becomes of it.

        Raises:
            RefusedError: the API server refuses.
        """
        query = {
            "fieldManager": FIELD_MANAGER,
            "force": "true",
            **({"dryRun": "All"} if dry else {}),
        }
        return self._write("PATCH", self._path(body), query, body, "apply-patch+yaml")

    def merge(self, body: Object, change: Object) -> Object:
        """Change an object that exists by a merge patch.

        Raises:
            RefusedError: the API server refuses.
        """
        query = {"fieldManager": FIELD_MANAGER}
        return self._write("PATCH", self._path(body), query, change, "merge-patch+json")

    def update(self, body: Object) -> Object:
        """Replace an object; as it is afterwards.

        Raises:
            RefusedError: the API server refuses.
        """
        return self._write("PUT", self._path(body), {}, body)

    def delete(self, body: Object, propagation: str = "Background") -> None:
        """Delete an object, if it is there.

        Raises:
            RefusedError: the API server refuses.
        """
        path = self._path(body)
        if path:
            options = json.dumps({"propagationPolicy": propagation})
            self._request("DELETE", path, options)

    def forget_kinds(self) -> None:
        """Ask anew which kinds there are."""
        self._kinds.clear()

    def _path(self, body: Object) -> str:
        """Where an object is; empty if the server has no such kind."""
        resource = self.resource(body)
        if not resource:
            return ""
        place = _root(body["apiVersion"])
        if resource["namespaced"]:
            place += f"/namespaces/{body['metadata'].get('namespace') or self._namespace}"
        return f"{place}/{resource['name']}/{quote(body['metadata']['name'], safe='')}"

    def _write(
        self, method: str, path: str, query: Object, body: Object, kind: str = "json"
    ) -> Object:
        asked = f"{path}?{urlencode(query)}" if query else path
        answer = self._request(method, asked, json.dumps(body), f"application/{kind}", found=True)
        return answer or {}

    def _request(
        self,
        method: str,
        path: str,
        body: str | None = None,
        kind: str = "application/json",
        *,
        found: bool = False,
    ) -> Object | None:
        """Ask; None for what isn't there, unless it has to be `found`."""
        headers = {**self._headers, "Content-Type": kind, "User-Agent": "werf"}
        while True:
            try:
                self._connection.request(method, path, body, headers)
                answer = self._connection.getresponse()
                read = answer.read()
                # Of a group that isn't there it is text.
                if answer.status == http.HTTPStatus.NOT_FOUND and not found:
                    return None
                content = json.loads(read)
            except (OSError, http.client.HTTPException, ValueError) as error:
                self._connection.close()
                where = f"{self._server}{path.partition('?')[0]}"  # as Go's url.Error has it
                raise UnreachableError(f'{method.capitalize()} "{where}": {error}') from error
            if answer.status == http.HTTPStatus.TOO_MANY_REQUESTS:  # client-go waits, too
                time.sleep(float(answer.headers.get("Retry-After") or 1))
                continue
            if answer.status >= http.HTTPStatus.BAD_REQUEST:
                raise RefusedError(str(content.get("message")), answer.status)
            return dict(content)


def _root(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def _config() -> Object:
    """The kubeconfig with one cluster and one user; empty where there is none."""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        # The process node's is JSON of that form already: a kubectl less for each deploy.
        written: Object = json.loads(Path(kubeconfig(os.environ)).read_text())
        (cluster,), (user,) = written["clusters"], written["users"]
        if user["user"]["token"] and "certificate-authority" not in cluster["cluster"]:
            return written
    view = ("config", "view", "--raw", "--minify", "--flatten", "-o", "json")
    config = tools.run("kubectl", *view)
    # Without a kubeconfig kubectl has no context to print, and takes the pod's account.
    return dict(json.loads(config.output)) if config.code == 0 and config.output else {}


def _of_kubeconfig(config: Mapping[str, Any]) -> tuple[str, ssl.SSLContext, dict[str, str]]:
    """Address, TLS and headers of the one cluster and the one user of a flattened kubeconfig."""
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    if "exec" in user:
        user = _executed(user["exec"])
    authority = b64decode(cluster.get("certificate-authority-data", "")).decode()
    tls = ssl.create_default_context(cadata=authority or None)
    if "client-certificate-data" in user:
        with tempfile.NamedTemporaryFile() as pair:
            for part in ("client-certificate-data", "client-key-data"):
                pair.write(b64decode(user[part]) + b"\n")
            pair.flush()
            tls.load_cert_chain(pair.name)
    token = user.get("token", "")
    if file := user.get("tokenFile"):
        token = Path(file).read_text().strip()
    return cluster["server"], tls, {"Authorization": f"Bearer {token}"} if token else {}


def _executed(plugin: Mapping[str, Any]) -> dict[str, str]:
    """Run an exec plug-in's command; the user that it prints, as client-go reads that."""
    command, version = plugin["command"], plugin["apiVersion"]
    given = {entry["name"]: entry["value"] for entry in plugin.get("env") or []}
    info = {"kind": "ExecCredential", "apiVersion": version, "spec": {"interactive": False}}
    env = {**os.environ, "KUBERNETES_EXEC_INFO": json.dumps(info), **given}
    try:
        ran = subprocess.run(
            [command, *(plugin.get("args") or [])], env=env, stdout=subprocess.PIPE, check=True
        )
        status = json.loads(ran.stdout)["status"]
    except subprocess.CalledProcessError as error:
        words = f"executable {command} failed with exit code {error.returncode}"
        raise WerfError(f"getting credentials: exec: {words}") from None
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise WerfError(f"getting credentials: exec plugin: {error}") from None
    user = {"token": str(status.get("token", ""))}
    for part in ("certificate", "key"):
        if text := status.get(f"client{part.capitalize()}Data"):
            user[f"client-{part}-data"] = b64encode(text.encode()).decode()
    return user


def _of_pod() -> tuple[str, ssl.SSLContext, dict[str, str]]:
    """Likewise, of the service account of the pod."""
    try:
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
        token = (_ACCOUNT / "token").read_text().strip()
    except (KeyError, OSError) as error:
        raise WerfError(f"no kubeconfig, and no service account of a pod: {error}") from error
    tls = ssl.create_default_context(cafile=str(_ACCOUNT / "ca.crt"))
    host = f"[{host}]" if ":" in host else host
    return f"https://{host}:{port}", tls, {"Authorization": f"Bearer {token}"}
