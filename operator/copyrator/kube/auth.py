"""Locates the cluster and loads its credentials.

A kubeconfig whose user has a token, a certificate or a password is read here. Others (exec
plug-ins, OIDC) are read by `kubernetes.aio.config`. It takes 20 MB and 0.3 s, so it is imported
only for them: never in a pod.
"""

from __future__ import annotations

import asyncio
import atexit
import base64
import functools
import hashlib
import logging
import os
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from copyrator.api.kubeconfig import Kubeconfig
from copyrator.connections import Proxies, ProxyError
from copyrator.kube.client.transport import REREAD_SECONDS, Connection, Endpoint, KubeconfigError
from copyrator.tls import create_context

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
        # One with hundreds of clusters takes 100 ms, in which the event loop would stand still.
        found = await asyncio.to_thread(_read, paths, context)
        return await _load_kubeconfig(found, paths)

    selected = _read(paths, context)
    endpoint = await _load_kubeconfig(selected, paths)
    origin = f"kubeconfig {paths}" + (f", context {context}" if context else "")
    connection = Connection(endpoint, origin=origin, loader=loader, clock=clock)
    connection.context = selected.name
    return connection


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
    found = _read(paths or _default_kubeconfig(), context)
    return str(found.context.get("namespace") or "default")


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


async def _load_kubeconfig(found: _Kubeconfig, paths: str) -> Endpoint:
    try:
        endpoint = _cluster_endpoint(found.cluster)
        if named := next((one for one in _IMPERSONATION if found.user.body.get(one)), None):
            raise ValueError(
                f"{named} of its user isn't supported: nobody is impersonated; remove it, or use a "
                "credential that has these rights itself"
            )
        plugins = [found.user.body.get(field) for field in ("exec", "auth-provider")]
        if not all(isinstance(plugin or {}, dict) for plugin in plugins):
            raise ValueError("exec or auth-provider of its user isn't a map")
        static = found.user.text("token") or found.user.text("tokenFile")
        if any(plugins) and not static:  # as client-go: a token comes before them
            return await _plugin_endpoint(paths, endpoint, found.user)
        user, secure = found.user, endpoint.host.startswith("https:")
        return _complete(
            replace(
                endpoint,
                authorization=_authorization(user),
                cert_file=user.file("client-certificate") if secure else None,
                key_file=user.file("client-key") if secure else None,
                valid_for=REREAD_SECONDS if user.text("tokenFile") else None,
            )
        )
    except (OSError, ValueError) as error:  # also ssl.SSLError
        raise _unusable(paths, error) from error


_IMPERSONATION = ("as", "as-uid", "as-groups", "as-user-extra")


def _unusable(paths: str, error: Exception) -> KubeconfigError:
    text = " ".join(str(error).split()) or type(error).__name__
    return KubeconfigError(f"the kubeconfig {paths} can't be used: {text}")


async def _plugin_endpoint(paths: str, endpoint: Endpoint, user: _Entry) -> Endpoint:
    """The endpoint with what the plug-in of its user returns, which the library runs."""
    from kubernetes.aio.client import Configuration  # noqa: PLC0415 - see above
    from kubernetes.aio.config import (  # noqa: PLC0415
        ConfigException,
        load_kube_config_from_dict,
    )

    from copyrator.connections import aiohttp  # noqa: PLC0415 - in an operator it is there

    found: Any = Configuration()
    plugin = _plugin(user)
    try:
        _verify_issuer(plugin)
        loader = await load_kube_config_from_dict(  # type: ignore[no-untyped-call]
            _document(plugin), client_configuration=found
        )
    except (ConfigException, aiohttp.ClientError, KeyError, TypeError, AttributeError) as error:
        raise _unusable(paths, error) from error  # also where the library expects another type
    scheme, _, token = (found.api_key.get("BearerToken") or "").strip().partition(" ")
    endpoint = replace(
        endpoint,
        authorization=f"{scheme} {token}" if token else None,
        cert_file=found.cert_file or user.file("client-certificate"),
        key_file=found.key_file or user.file("client-key"),
        valid_for=_validity(loader),
    )
    if not endpoint.authorization and not endpoint.cert_file:
        what = f"exec plug-in {plugin['exec'].get('command')!r}" if "exec" in plugin else _PROVIDER
        raise KubeconfigError(
            f"the kubeconfig {paths}: its {what} returned no credentials; "
            "run it manually to see the error"
        )
    return _complete(endpoint)


_PROVIDER = "auth-provider"


def _plugin(user: _Entry) -> dict[str, Any]:
    """The plug-in of a user as client-go reads it: a command with a path begins at the file.

    Raises:
        ValueError: the library runs no such plug-in.
    """
    if plugin := dict(user.body.get("exec") or {}):
        command = plugin.get("command")
        if isinstance(command, str) and "/" in command:
            plugin["command"] = os.path.normpath(user.directory.absolute() / command)
        return {"exec": plugin}
    provider = dict(user.body[_PROVIDER])
    if provider.get("name") not in ("gcp", "oidc"):
        raise ValueError(
            f"the auth-provider {provider.get('name')!r} of its user isn't supported; write the "
            "kubeconfig anew with the current tool of your cloud, which writes exec"
        )
    config = provider.get("config") or {}
    if isinstance(config, dict):
        given = {name: value for name, value in config.items() if value not in (None, "")}
        config = {"client-secret": "", **given}
    return {_PROVIDER: {**provider, "config": config}}


def _document(user: Mapping[str, Any]) -> dict[str, Any]:
    """A kubeconfig with one user; what the library reads of the cluster isn't used."""
    return {
        "current-context": "",
        "contexts": [{"name": "", "context": {"cluster": "", "user": "u"}}],
        "clusters": [{"name": "", "cluster": {}}],
        "users": [{"name": "u", "user": user}],
    }


def _verify_issuer(user: Mapping[str, Any]) -> None:
    """Let the library verify the OIDC issuer that renews a token, as kubectl does.

    By itself it verifies none whose CA isn't in the kubeconfig, and can't connect to others.
    """
    from kubernetes.aio.config import kube_config, openid  # noqa: PLC0415 - see above

    from copyrator.connections import Connector  # noqa: PLC0415

    config = (user.get("auth-provider") or {}).get("config") or {}
    ca_file = config.get("idp-certificate-authority") or None

    class Requestor(openid.OpenIDRequestor):
        def _get_connector(self) -> Connector:
            return Connector(ssl=create_context(cafile=self._ssl_ca_cert or ca_file))

    library: Any = kube_config
    library.OpenIDRequestor = Requestor


@dataclass(frozen=True, slots=True)
class _Entry:
    """A cluster or a user of a kubeconfig, and the directory where its relative paths begin."""

    body: Mapping[str, Any]
    directory: Path

    def text(self, field: str) -> str:
        """A field's value; an empty one counts as absent, as for client-go.

        Raises:
            ValueError: it is no string.
        """
        value = self.body.get(field)
        if value is not None and not isinstance(value, str):
            raise ValueError(f"{field} isn't a string; put its value in quotation marks")
        return value or ""

    def file(self, field: str) -> str | None:
        """The file that a field names, or one with the content of ``FIELD-data``."""
        if not (data := self.text(f"{field}-data")):
            return self.path(field)
        try:
            return _file_with(base64.b64decode(data))
        except ValueError:
            raise ValueError(f"{field}-data isn't base64") from None

    def path(self, field: str) -> str | None:
        """The file that a field names."""
        name = self.text(field)
        return os.path.normpath(self.directory / name) if name else None


_NOTHING = _Entry({}, Path())


@dataclass(frozen=True, slots=True)
class _Kubeconfig:
    """What a context selects."""

    name: str
    context: Mapping[str, Any]
    cluster: _Entry
    user: _Entry


def _cluster_endpoint(cluster: _Entry) -> Endpoint:
    """The server, without credentials.

    Raises:
        OSError: a file can't be written.
        ValueError: a field has an unusable value.
    """
    host, proxy = cluster.text("server").rstrip("/"), cluster.text("proxy-url")
    scheme, separator, rest = host.partition("://")
    host = f"{scheme.lower()}{separator}{rest}"
    if not host.startswith(_SCHEMES):
        raise ValueError(f"the server {host!r} of its cluster isn't an http:// or https:// URL")
    if proxy and not proxy.startswith(_SCHEMES):
        raise ValueError("proxy-url isn't an http:// or https:// URL; others aren't supported")
    return Endpoint(
        host=host,
        proxy=proxy or None,
        server_hostname=cluster.text("tls-server-name") or None,
        ca_file=cluster.file("certificate-authority") if host.startswith("https:") else None,
        verify=cluster.body.get("insecure-skip-tls-verify") is not True,
    )


_SCHEMES = ("http://", "https://")


def _authorization(user: _Entry) -> str | None:
    """As client-go: a token of a file comes before the one beside it, once it could be read."""
    token = user.text("token")
    if path := user.path("tokenFile"):
        try:
            read = Path(path).read_text().strip()
            if not read:  # while it is replaced, the former one stays
                raise OSError(f"{path} is empty")
            token = read
        except OSError:
            if not token:
                raise
    if token:
        return f"Bearer {token}".strip()
    name, password = user.text("username"), user.text("password")
    if name and password:
        return f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"
    return None


@functools.cache
def _file_with(content: bytes) -> str:
    """A file with this content, until the process ends: certificates are read from files only."""
    descriptor, path = tempfile.mkstemp(prefix="copyrator-")
    atexit.register(Path(path).unlink, missing_ok=True)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    return path


def _read(paths: str, context: str | None) -> _Kubeconfig:
    """Return what the context selects; error messages give the remedy."""
    files = [Path(path).expanduser() for path in paths.split(os.pathsep) if path]
    present = [path for path in files if path.is_file()]  # as kubectl: some may be missing
    if not present:
        shown = ", ".join(map(str, files)) or "''"
        raise KubeconfigError(f"the kubeconfig {shown} doesn't exist; check --kubeconfig")
    entries: dict[str, dict[str, _Entry]] = {"context": {}, "cluster": {}, "user": {}}
    current = None
    for path in present:
        config = _load_file(path)
        current = current or config.get("current-context")
        for kind, found in entries.items():
            for name, body in _entries(path, config, kind):
                found.setdefault(name, _Entry(body, path.absolute().parent))
    wanted = str(context or current or "")
    if not wanted:
        raise KubeconfigError(
            f"the kubeconfig {paths} names no current context; choose one with --context"
        )
    contexts = entries["context"]
    if wanted not in contexts:
        known = ", ".join(sorted(contexts)) or "none"
        raise KubeconfigError(
            f"the kubeconfig {paths} has no context {wanted!r}; it has: {known}; check --context"
        )
    chosen = contexts[wanted].body
    selected = {}
    for kind in ("cluster", "user"):
        named, among = str(chosen.get(kind) or ""), entries[kind]
        if named and named not in among:
            raise KubeconfigError(
                f"the kubeconfig {paths} has no {kind} {named!r}, which its context {wanted!r} "
                f"names; it has: {', '.join(sorted(among)) or 'none'}"
            )
        selected[kind] = among.get(named, _NOTHING)
    return _Kubeconfig(wanted, chosen, **selected)


def _load_file(path: Path) -> dict[str, Any]:
    try:
        config = yaml.load(path.read_text(), _LOADER)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, UnicodeDecodeError):
        raise KubeconfigError(f"the kubeconfig {path} isn't YAML; check the path") from None
    except OSError as error:
        raise KubeconfigError(f"the kubeconfig {path} can't be read: {error.strerror}") from None
    if not isinstance(config, dict):
        raise KubeconfigError(f"the kubeconfig {path} is empty")
    return config


def _entries(
    path: Path, config: Mapping[str, Any], kind: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The names and bodies of a file's clusters, users or contexts."""
    listed = config.get(f"{kind}s") or []
    for entry in listed if isinstance(listed, list) else [{kind: listed}]:
        named = entry if isinstance(entry, dict) else {kind: entry}
        body = named.get(kind) or {}
        if not isinstance(body, dict) or "name" not in named:
            raise KubeconfigError(
                f"the kubeconfig {path}: {kind}s isn't a list of maps with name and {kind}"
            )
        yield str(named["name"]), body


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's, where PyYAML was built with it: it is ten times as fast."""


def _validity(loader: Any) -> float | None:
    """Seconds until the credentials' source is read again; None: only when they are refused."""
    expiry = getattr(loader, "exec_plugin_expiry", None)
    if isinstance(expiry, datetime):
        return max((expiry - datetime.now(UTC)).total_seconds() - 60.0, 30.0)
    return None


def remote_endpoint(config: Kubeconfig) -> Endpoint:
    """Another cluster, by a kubeconfig of a Secret: only its CA is trusted.

    Raises:
        KubeconfigError: the certificate and the key aren't a pair, or the proxy can't be used.
    """
    context = create_context(cadata=config.ca.decode())
    if config.certificate is not None and config.key is not None:
        with tempfile.NamedTemporaryFile(prefix="copyrator-") as file:  # read from files only
            file.write(config.certificate + config.key)
            file.flush()
            try:
                context.load_cert_chain(file.name)
            except ssl.SSLError:
                raise KubeconfigError(
                    "client-certificate-data and client-key-data aren't a pair; write both anew"
                ) from None
    return Endpoint(
        host=config.server,
        authorization=f"Bearer {config.token}" if config.token is not None else None,
        ssl=context,
        proxy=_environment_proxy(config.server),
        server_hostname=config.tls_server_name,
    )


def _complete(endpoint: Endpoint) -> Endpoint:
    """Add the TLS context and the environment's proxy.

    Raises:
        OSError: a file can't be read.
        ValueError: a file or the token has an unusable value.
    """
    context = None
    if not (endpoint.authorization or "").isprintable():
        raise ValueError("the token or password has characters that no HTTP header may have")
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
    try:
        context = create_context(cafile=ca_file)
    except ssl.SSLError:
        raise ValueError("the CA's certificate isn't valid PEM") from None
    try:
        if cert_file:
            context.load_cert_chain(cert_file, key_file)
    except ssl.SSLError:
        raise ValueError("the client's certificate and key aren't a pair in PEM") from None
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
