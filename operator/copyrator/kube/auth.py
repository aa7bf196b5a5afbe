"""Finds the cluster and its credentials, for our own client and for kopf's.

`kubernetes.aio.config` reads kubeconfigs (contexts, exec plug-ins, OIDC) and the pod's service
account. It is imported only inside the functions that need it, because it takes 20 MB and 0.3 s,
and so is kopf, which a command such as ``copyrator plan`` doesn't need.
"""

# ruff: noqa: PLC0415 - late imports are this module's point, see above

from __future__ import annotations

import asyncio
import functools
import hashlib
import logging
import os
import random
import ssl
import time
import urllib.request
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp
import yaml

from copyrator.kube.connection import REREAD_SECONDS, Connection, Endpoint, KubeconfigError

if TYPE_CHECKING:
    import kopf

__all__ = ["Connection", "KubeconfigError", "load_connection", "register_login"]

log = logging.getLogger(__name__)

LOGIN_CALM = 60.0
"""Seconds after which a login counts as the first of its kind again."""

LOGIN_DELAY_CAP = 30.0
"""Seconds that repeated logins wait at most."""


async def load_connection(
    kubeconfig: str | os.PathLike[str] | None = None, context: str | None = None
) -> Connection:
    """Find the cluster: `kubeconfig`, else $KUBECONFIG, else the pod's own, else ~/.kube/config.

    Only a kubeconfig has contexts, so naming one rules the pod's own account out.

    Raises:
        KubeconfigError: names the file and what to do.
    """
    paths = os.fspath(kubeconfig) if kubeconfig else os.environ.get("KUBECONFIG", "")
    if not paths and not context and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return Connection(
            await _load_in_cluster(), origin="the pod's service account", loader=_load_in_cluster
        )
    if not paths:
        paths = _default_kubeconfig()

    async def loader() -> Endpoint:
        return await _load_kubeconfig(paths, context)

    origin = f"kubeconfig {paths}" + (f", context {context}" if context else "")
    return Connection(await loader(), origin=origin, loader=loader)


def _default_kubeconfig() -> str:
    path = Path.home() / ".kube" / "config"
    if not path.is_file():
        raise KubeconfigError(
            f"no kubeconfig and not in a cluster: {path} doesn't exist; "
            "name a file with --kubeconfig or KUBECONFIG"
        )
    return str(path)


async def _load_in_cluster() -> Endpoint:
    from kubernetes.aio.client import Configuration
    from kubernetes.aio.config import ConfigException, load_incluster_config

    found = Configuration()
    try:
        load_incluster_config(client_configuration=found, try_refresh_token=False)  # type: ignore[no-untyped-call]
    except ConfigException as error:
        raise KubeconfigError(
            f"in a pod, but without a usable service account ({error}); "
            "is automountServiceAccountToken switched off?"
        ) from error
    return _endpoint(found, valid_for=REREAD_SECONDS)


async def _load_kubeconfig(paths: str, context: str | None) -> Endpoint:
    from kubernetes.aio.client import Configuration
    from kubernetes.aio.config import ConfigException, load_kube_config

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
            f"the kubeconfig {paths}: its exec plug-in {command!r} gave no credentials; "
            "run it by hand to see why"
        )
    return endpoint


def _user_of(paths: str, context: str | None) -> dict[str, Any]:
    """The user entry of the context, checked with messages that say what to do."""
    files = [Path(path).expanduser() for path in paths.split(os.pathsep) if path]
    present = [path for path in files if path.is_file()]  # as kubectl: some of several may lack
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
            raise KubeconfigError(
                f"the kubeconfig {path} isn't YAML; is it the right file?"
            ) from None
        if not isinstance(config, dict):
            raise KubeconfigError(f"the kubeconfig {path} holds no configuration")
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
    return users.get(str(contexts[wanted].get("user")), {})


def _validity(user: dict[str, Any], loader: Any) -> float | None:
    """Seconds that the credentials can be used without looking at their source again."""
    if "tokenFile" in user:
        return REREAD_SECONDS
    expiry = getattr(loader, "exec_plugin_expiry", None)
    if isinstance(expiry, datetime):
        return max((expiry - datetime.now(UTC)).total_seconds() - 60.0, 30.0)
    return None


def _endpoint(found: Any, *, valid_for: float | None) -> Endpoint:
    """Turn the library's Configuration into what requests need."""
    host = str(found.host).rstrip("/")
    context = None
    if host.startswith("https"):
        files = tuple(path or None for path in (found.ssl_ca_cert, found.cert_file, found.key_file))
        digest = hashlib.sha256(b"\0".join(Path(path).read_bytes() for path in files if path))
        context = _ssl_context(*files, bool(found.verify_ssl), digest.digest())
    token = found.api_key.get("BearerToken")
    return Endpoint(
        host=host,
        authorization=token.strip() if token else None,
        ssl=context,
        proxy=found.proxy or _environment_proxy(host),
        server_hostname=found.tls_server_name or None,
        ca_file=found.ssl_ca_cert or None,
        cert_file=found.cert_file or None,
        key_file=found.key_file or None,
        verify=bool(found.verify_ssl),
        valid_for=valid_for,
    )


@functools.lru_cache(maxsize=4)
def _ssl_context(
    ca_file: str | None, cert_file: str | None, key_file: str | None, verify: bool, _digest: bytes
) -> ssl.SSLContext:
    """The same context as long as the files hold the same: connections are pooled by it."""
    context = ssl.create_default_context(cafile=ca_file)
    if cert_file:
        context.load_cert_chain(cert_file, key_file)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _environment_proxy(host: str) -> str | None:
    """HTTPS_PROXY and NO_PROXY, asked once: aiohttp's trust_env asks at every request."""
    parts = urlsplit(host)
    if urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    return urllib.request.getproxies().get(parts.scheme)


class _Login:
    """Answers kopf's request for credentials, slowly when it comes again and again.

    kopf logs in anew after each 401: with credentials that stay wrong about 42 times a second. And
    it refuses credentials that equal ones which failed, so that a server that answered 401 only for
    a while would end the process; a priority of its own makes each login's differ.
    """

    def __init__(
        self,
        connection: Connection,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._sleep = sleep
        self._count = 0
        self._delay = 0.0
        self._last = float("-inf")

    async def __call__(self, **_kwargs: Any) -> kopf.ConnectionInfo:
        import kopf

        if self._clock() - self._last > LOGIN_CALM + self._delay:
            self._delay = 0.0
        else:
            self._delay = min(max(1.0, self._delay * 2), LOGIN_DELAY_CAP)
            await self._sleep(self._delay * random.uniform(0.8, 1.0))  # noqa: S311 - not for secrets
            await self._connection.renew(self._connection.generation)
        self._last = self._clock()
        self._count += 1
        endpoint = self._connection.endpoint
        scheme, _, token = (endpoint.authorization or "").partition(" ")
        return kopf.ConnectionInfo(
            server=endpoint.host,
            ca_path=endpoint.ca_file,
            insecure=not endpoint.verify,
            scheme=scheme or None,
            token=token or None,
            certificate_path=endpoint.cert_file,
            private_key_path=endpoint.key_file,
            proxy_url=endpoint.proxy,
            priority=self._count,
        )


def register_login(registry: kopf.OperatorRegistry, connection: Connection) -> None:
    """Make kopf use the same server and credentials as our own client."""
    import kopf

    login = _Login(connection)

    # A function, because kopf takes an object with an async __call__ for a synchronous handler.
    @kopf.on.login(registry=registry, id="copyrator")
    async def answer(**kwargs: Any) -> kopf.ConnectionInfo:
        return await login(**kwargs)
