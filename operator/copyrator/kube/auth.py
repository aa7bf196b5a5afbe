"""Locates the cluster and loads its credentials.

`kubernetes.aio.config` reads kubeconfigs (contexts, exec plug-ins, OIDC). It takes 20 MB and 0.3 s,
so it is imported only where a kubeconfig is read: never in a pod.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import ssl
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from copyrator.kube.client.connection import REREAD_SECONDS, Connection, Endpoint, KubeconfigError
from copyrator.settings.proxies import Proxies, ProxyError

log = logging.getLogger(__name__)

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet mounts the pod's service account: token, ca.crt and namespace."""


async def load_connection(
    kubeconfig: str | os.PathLike[str] | None = None,
    context: str | None = None,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> Connection:
    """Load `kubeconfig`, else $KUBECONFIG, else the pod's service account, else ~/.kube/config.

    Only a kubeconfig has contexts, so with a `context` the pod's own account isn't used.

    Raises:
        KubeconfigError: names the file and the remedy.
    """
    paths = os.fspath(kubeconfig) if kubeconfig else os.environ.get("KUBECONFIG", "")
    if not paths and not context and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return Connection(
            await _load_in_cluster(),
            origin="the pod's service account",
            loader=_load_in_cluster,
            clock=clock,
        )
    if not paths:
        paths = _default_kubeconfig()

    async def loader() -> Endpoint:
        return await _load_kubeconfig(paths, context)

    origin = f"kubeconfig {paths}" + (f", context {context}" if context else "")
    return Connection(await loader(), origin=origin, loader=loader, clock=clock)


def default_namespace(
    kubeconfig: str | os.PathLike[str] | None = None, context: str | None = None
) -> str:
    """The namespace of the context (or the pod); "default" where none is set.

    Raises:
        KubeconfigError: as `load_connection` does.
    """
    paths = os.fspath(kubeconfig) if kubeconfig else os.environ.get("KUBECONFIG", "")
    if not paths and not context and os.environ.get("KUBERNETES_SERVICE_HOST"):
        file = _ACCOUNT / "namespace"
        return file.read_text().strip() if file.is_file() else "default"
    chosen, _users = _context_of(paths or _default_kubeconfig(), context)
    return str(chosen.get("namespace") or "default")


def _default_kubeconfig() -> str:
    path = Path.home() / ".kube" / "config"
    if not path.is_file():
        raise KubeconfigError(
            f"no kubeconfig and not in a cluster: {path} "
            "doesn't exist; set --kubeconfig or KUBECONFIG"
        )
    return str(path)


async def _load_in_cluster() -> Endpoint:
    """The server and the account that the kubelet gives a pod, as client-go's InClusterConfig."""
    host = os.environ["KUBERNETES_SERVICE_HOST"]
    try:
        port = os.environ["KUBERNETES_SERVICE_PORT"]
        token, ca = ((_ACCOUNT / name).read_text().strip() for name in ("token", "ca.crt"))
        if not token or not ca:
            raise ValueError(f"{_ACCOUNT} has an empty file")
        endpoint = Endpoint(
            host=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
            authorization=f"Bearer {token}",
            ca_file=str(_ACCOUNT / "ca.crt"),
            valid_for=REREAD_SECONDS,
        )
        return _complete(endpoint)
    except KeyError as error:
        reason = f"{error.args[0]} isn't set"
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        reason = str(error)
    raise KubeconfigError(
        f"in a pod, but without a usable service account ({reason}); "
        "check automountServiceAccountToken"
    )


async def _load_kubeconfig(paths: str, context: str | None) -> Endpoint:
    from kubernetes.aio.client import Configuration  # noqa: PLC0415 - see above
    from kubernetes.aio.config import ConfigException, load_kube_config  # noqa: PLC0415

    found = Configuration()
    try:
        user = _user_of(paths, context)
        loader = await load_kube_config(  # type: ignore[no-untyped-call]
            config_file=paths, context=context, client_configuration=found, persist_config=False
        )
        endpoint = _endpoint(found, valid_for=_validity(user, loader))
    except KubeconfigError:
        raise
    except (ConfigException, aiohttp.ClientError, OSError, ValueError, KeyError) as error:
        text = " ".join(str(error).split()) or type(error).__name__
        raise KubeconfigError(f"the kubeconfig {paths} can't be used: {text}") from error
    if "exec" in user and not endpoint.authorization and not endpoint.cert_file:
        command = user["exec"].get("command")
        raise KubeconfigError(
            f"the kubeconfig {paths}: its exec plug-in {command!r} returned no credentials; "
            "run it manually to see the error"
        )
    return endpoint


def _user_of(paths: str, context: str | None) -> dict[str, Any]:
    """The user entry of the context."""
    chosen, users = _context_of(paths, context)
    return users.get(str(chosen.get("user")), {})


def _context_of(
    paths: str, context: str | None
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the context's entry and all users' entries; error messages give the remedy."""
    files = [Path(path).expanduser() for path in paths.split(os.pathsep) if path]
    present = [path for path in files if path.is_file()]  # as kubectl: some may be missing
    if not present:
        shown = ", ".join(map(str, files)) or "''"
        raise KubeconfigError(f"the kubeconfig {shown} doesn't exist; check --kubeconfig")
    contexts: dict[str, dict[str, Any]] = {}
    users: dict[str, dict[str, Any]] = {}
    current = None
    for path in present:
        try:
            config = yaml.safe_load(path.read_text())
        except (yaml.YAMLError, UnicodeDecodeError):
            raise KubeconfigError(f"the kubeconfig {path} isn't YAML; check the path") from None
        if not isinstance(config, dict):
            raise KubeconfigError(f"the kubeconfig {path} is empty")
        current = current or config.get("current-context")
        for entries, into, field in (("contexts", contexts, "context"), ("users", users, "user")):
            for entry in config.get(entries) or ():
                into.setdefault(str(entry.get("name")), entry.get(field) or {})
    wanted = context or current
    if not wanted:
        raise KubeconfigError(
            f"the kubeconfig {paths} names no current context; choose one with --context"
        )
    if wanted not in contexts:
        known = ", ".join(sorted(contexts)) or "none"
        raise KubeconfigError(
            f"the kubeconfig {paths} has no context {wanted!r}; it has: {known}; check --context"
        )
    return contexts[wanted], users


def _validity(user: dict[str, Any], loader: Any) -> float | None:
    """Seconds until the credentials' source is read again; None: only when they are refused."""
    if "tokenFile" in user:
        return REREAD_SECONDS
    expiry = getattr(loader, "exec_plugin_expiry", None)
    if isinstance(expiry, datetime):
        return max((expiry - datetime.now(UTC)).total_seconds() - 60.0, 30.0)
    return None


def _endpoint(found: Any, *, valid_for: float | None) -> Endpoint:
    """Convert the library's Configuration."""
    token = found.api_key.get("BearerToken")
    endpoint = Endpoint(
        host=str(found.host).rstrip("/"),
        authorization=token.strip() if token else None,
        proxy=found.proxy or None,
        server_hostname=found.tls_server_name or None,
        ca_file=found.ssl_ca_cert or None,
        cert_file=found.cert_file or None,
        key_file=found.key_file or None,
        verify=bool(found.verify_ssl),
        valid_for=valid_for,
    )
    return _complete(endpoint)


def _complete(endpoint: Endpoint) -> Endpoint:
    """Add the TLS context and the environment's proxy."""
    context = None
    if endpoint.host.startswith("https"):
        files = (endpoint.ca_file, endpoint.cert_file, endpoint.key_file)
        digest = hashlib.sha256(b"\0".join(Path(path).read_bytes() for path in files if path))
        context = _ssl_context(*files, endpoint.verify, digest.digest())
    proxy = endpoint.proxy or _environment_proxy(endpoint.host)
    return replace(endpoint, ssl=context, proxy=proxy)


@functools.lru_cache(maxsize=4)
def _ssl_context(
    ca_file: str | None, cert_file: str | None, key_file: str | None, verify: bool, _digest: bytes
) -> ssl.SSLContext:
    """The same context as long as the files are unchanged: connections are pooled by it."""
    context = ssl.create_default_context(cafile=ca_file)
    if cert_file:
        context.load_cert_chain(cert_file, key_file)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _environment_proxy(host: str) -> str | None:
    """The environment's proxy, read once: aiohttp's trust_env reads it at every request."""
    try:
        return Proxies(os.environ).proxy_for(host)
    except ProxyError as error:
        raise KubeconfigError(str(error)) from None
