"""Pulling a bundle from a registry, and logging in to one."""

from __future__ import annotations

import base64
import hashlib
import io
import ipaddress
import json
import re
import shutil
import socket
import ssl
import tarfile
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from . import tools
from .errors import WerfError
from .settings import RegistryAccess

_LAYERS = ("application/tar+gzip", "application/vnd.cncf.helm.chart.content.v1.tar+gzip")
_MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.docker.distribution.manifest.v2+json"
)
_REFERENCE = re.compile(
    r"(?P<host>[^/\s]+)/(?P<path>[a-z0-9._/-]{2,255}):(?P<tag>[A-Za-z0-9_.-]{1,128})"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_SCHEME = re.compile(r"\Ahttps?://")
_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class Pulled:
    """A bundle that was pulled.

    Attributes:
        digest: of the manifest.
        size: bytes of the packed chart.
        name: the chart's.
        version: the chart's.
        chart: the unpacked chart.
    """

    digest: str
    size: int
    name: str
    version: str
    chart: Path


@dataclass(frozen=True, slots=True)
class Reference:
    """A bundle in a registry."""

    host: str
    path: str
    tag: str
    digest: str | None

    @property
    def version(self) -> str:
        """What to ask the registry for: the digest, if there is one."""
        return self.digest or self.tag


def parse(repo: str, tag: str) -> Reference:
    """Read a reference; a mask, a range, a bare digest or a path of one letter is none."""
    found = _REFERENCE.fullmatch(f"{repo}:{tag}")
    if found is None:
        raise WerfError(f"pull bundle: could not parse reference: {repo}:{tag}")
    return Reference(found["host"], found["path"], found["tag"], found["digest"])


def pull(repo: str, tag: str, access: RegistryAccess, into: Path) -> Pulled:
    """Download a bundle and unpack its chart.

    Raises:
        WerfError: it isn't there, may not be read, or isn't what its digest says.
    """
    ref = parse(repo, tag)
    name = f"{repo}:{tag}"
    stored = _stored(access.docker_config / "config.json", ref.host)
    client = _Client(ref.host, access, stored, ("http",) if is_loopback(ref.host) else ())
    manifest = client.read(f"/v2/{ref.path}/manifests/{ref.version}", name, _MANIFESTS)
    digest = f"sha256:{hashlib.sha256(manifest).hexdigest()}"
    if ref.digest not in (None, digest):
        raise WerfError(f"pull bundle: {name}: the registry answered with {digest}")
    layers = [
        part for part in json.loads(manifest).get("layers", []) if part["mediaType"] in _LAYERS
    ]
    if not layers:
        wanted = f"does not contain a layer with mediatype {_LAYERS[0]}"
        raise WerfError(f"pull bundle: {name}: manifest {wanted}")
    blob = client.read(f"/v2/{ref.path}/blobs/{layers[0]['digest']}", name)
    if f"sha256:{hashlib.sha256(blob).hexdigest()}" != layers[0]["digest"]:
        raise WerfError(f"pull bundle: {name}: blob {layers[0]['digest']} is damaged")
    with tarfile.open(fileobj=io.BytesIO(blob), mode="r:gz") as archive:
        unpack(archive, into)
    charts = sorted(into.glob("*/Chart.yaml"))
    if not charts:
        raise WerfError(f"pull bundle: {name}: Chart.yaml file is missing")
    told = dict(re.findall(r"^(name|version): *(.*)$", charts[0].read_text(), re.MULTILINE))
    name, version = told.get("name", "").strip("'\""), told.get("version", "").strip("'\"")
    return Pulled(digest, len(blob), name, version, charts[0].parent)


def is_loopback(host: str) -> bool:
    """Tell whether werf speaks plain HTTP to `host[:port]`, whatever it is told.

    As containerd's MatchLocalhost, which Docker's and Helm's clients share: `localhost` and the
    addresses of loopback; no name that leads there.
    """
    name = urllib.parse.urlsplit(f"//{host}").hostname or ""
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def unpack(archive: tarfile.TarFile, into: Path) -> None:
    """Unpack regular files; by hand, because Debian 12's Python (3.11.2) has no `filter`.

    Raises:
        WerfError: one would be outside of the directory.
    """
    root = into.resolve()
    for member in archive:
        path = (root / member.name).resolve()
        if content := archive.extractfile(member):
            if not path.is_relative_to(root):
                raise WerfError(f"pull bundle: {member.name} is outside of the chart")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.read())


def log_in(host: str, credentials: tuple[str, str], access: RegistryAccess) -> None:
    """Try credentials and keep them in config.json."""
    try:
        _Client(host, access, credentials).read("/v2/", host)
    except WerfError as error:
        words = str(error).removeprefix("pull bundle: ")
        raise WerfError(f'unable to authenticate into "{host}": {words}') from None
    path = access.docker_config / "config.json"
    config = _read_config(path)
    pair = base64.b64encode(":".join(credentials).encode()).decode()
    config.setdefault("auths", {})[host] = {"auth": pair}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(json.dumps(config, indent=2))
    print("Successful login")


class _Client:
    """One registry. Its schemes are tried in turn; without any given, the access says which."""

    def __init__(
        self,
        host: str,
        access: RegistryAccess,
        credentials: tuple[str, str] | None,
        schemes: tuple[str, ...] = (),
    ) -> None:
        self._host = host
        self._schemes = schemes or (("https", "http") if access.insecure else ("https",))
        self._credentials = credentials
        proxies: dict[str, str] | None = {} if is_loopback(host) else None
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler(proxies)]
        if "https" in self._schemes:  # reading the system's authorities takes 50 ms
            tls = ssl.create_default_context()
            if access.insecure or access.skip_tls_verify:
                tls.check_hostname = False
                tls.verify_mode = ssl.CERT_NONE
            handlers.append(urllib.request.HTTPSHandler(context=tls))
        self._open = urllib.request.build_opener(*handlers).open

    def read(self, path: str, name: str, accept: str = "*/*") -> bytes:
        """Read a manifest or a blob."""
        words = ""
        for scheme in self._schemes:
            url = f"{scheme}://{self._host}{path}"
            try:
                return self._read(url, accept)
            except urllib.error.HTTPError as error:
                with error:
                    raise _refused(error, url, name) from None
            except urllib.error.URLError as error:
                words = _in_words_of_go(error.reason, self._host)
            except OSError as error:
                words = _in_words_of_go(error, self._host)
        raise WerfError(f'pull bundle: failed to do request: Head "{url}": {words}')

    def _read(self, url: str, accept: str) -> bytes:
        headers = {"Accept": accept}
        try:
            return self._get(url, headers)
        except urllib.error.HTTPError as error:
            if error.code != 401:
                raise
            challenge = error.headers.get("WWW-Authenticate", "")
            authorization = self._answer(challenge)
            if authorization is None:
                raise
            error.close()
        return self._get(url, {**headers, "Authorization": authorization})

    def _answer(self, challenge: str) -> str | None:
        """Answer a registry's challenge, Basic or Bearer."""
        scheme, _, rest = challenge.partition(" ")
        basic = None
        if self._credentials:
            pair = base64.b64encode(":".join(self._credentials).encode()).decode()
            basic = f"Basic {pair}"
        if scheme.lower() == "basic":
            return basic
        if scheme.lower() != "bearer":
            return None
        words = dict(re.findall(r'(\w+)="([^"]*)"', rest))
        query = urllib.parse.urlencode({k: words[k] for k in ("service", "scope") if k in words})
        headers = {"Authorization": basic} if basic else {}
        token = json.loads(self._get(f"{words['realm']}?{query}", headers))
        return f"Bearer {token.get('token') or token.get('access_token')}"

    def _get(self, url: str, headers: Mapping[str, str]) -> bytes:
        request = urllib.request.Request(url)  # noqa: S310 - http and https only
        for key, value in headers.items():
            # Unlike a plain header this one isn't sent on to where a registry redirects.
            request.add_unredirected_header(key, value)
        with self._open(request, timeout=_TIMEOUT) as answer:
            return bytes(answer.read())


def _in_words_of_go(cause: object, host: str) -> str:
    """What Go's net/http says of it, which is what the operator looks for."""
    match cause:
        case ConnectionRefusedError():
            return f"dial tcp {host}: connect: connection refused"
        case socket.gaierror():
            return f"dial tcp: lookup {host.partition(':')[0]}: no such host"
        case TimeoutError():
            return f"dial tcp {host}: i/o timeout"
        case ssl.SSLCertVerificationError():
            return f"tls: failed to verify certificate: x509: {cause.verify_message}"
        case ssl.SSLError(reason="WRONG_VERSION_NUMBER" | "RECORD_LAYER_FAILURE"):
            return "http: server gave HTTP response to HTTPS client"
        case _:
            return str(cause)


def _refused(error: urllib.error.HTTPError, url: str, name: str) -> WerfError:
    if error.code == 404:
        return WerfError(f"pull bundle: {name}: not found")
    words = f"unexpected status from GET request to {url}: {error.code} {error.reason}"
    return WerfError(f"pull bundle: {words}")


def _read_config(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text()))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise WerfError(f"{path}: not valid JSON") from error


def _stored(path: Path, host: str) -> tuple[str, str] | None:
    """Whose login a configuration has for `host[:port]`, by the rules in docs/facts/werf.md."""
    auths = _read_config(path).get("auths", {})
    same = (one for key, one in auths.items() if _SCHEME.sub("", key).partition("/")[0] == host)
    entry = auths.get(host) if host in auths else next(same, None)
    if not entry:
        return None
    if entry.get("auth"):
        plain = "".join(entry["auth"].split()).rstrip("=")
        username, _, password = base64.b64decode(plain + "==").decode().partition(":")
        return username, password
    return entry.get("username", ""), entry.get("password", "")


_LOCK = "Chart.lock"


def complete_dependencies(chart: Path, env: Mapping[str, str]) -> None:
    """Put into ``charts/`` what Chart.lock names and it lacks, from the cache of this HOME.

    werf downloads such charts once for each HOME. What the cache lacks, too, is downloaded, and
    said on standard output in helm's words. What a dependency lacks isn't looked for.
    """
    missing = _missing(chart)
    if not missing:
        return
    lock = chart / _LOCK
    if not lock.is_file():
        # What werf does without a lock, docs/facts/werf.md doesn't say; these are helm's words.
        words = ", ".join(missing)
        raise WerfError(f"found in Chart.yaml, but missing in charts/ directory: {words}")
    home = Path(env.get("WERF_HOME") or Path(env.get("HOME", "/")) / ".werf")
    cache = home / "local_cache" / "helm_chart_dependencies"
    kept = cache / sha256((chart / "Chart.yaml").read_bytes() + lock.read_bytes()).hexdigest()
    if not kept.is_dir():
        _download(lock, kept)
    for name in missing:
        for packed in (kept / "charts").glob(f"{name}-[0-9v]*.tgz"):
            with tarfile.open(packed) as archive:
                unpack(archive, chart / "charts")


def _missing(chart: Path) -> list[str]:
    if "dependencies" not in (chart / "Chart.yaml").read_text():
        return []
    listed = tools.run("helm", "dependency", "list", str(chart)).checked("load chart")
    rows = [line.split() for line in listed.splitlines()]
    return [row[0] for row in rows if row and row[-1] == "missing"]


def _download(lock: Path, into: Path) -> None:
    """Download all that a lock names.

    By `helm dependency update` of a chart with just that, as `build` wants repositories by name.
    """
    into.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="werf-chart-") as directory:
        bare = Path(directory) / "chart"
        bare.mkdir()
        about = "apiVersion: v2\nname: chart\nversion: 1.0.0\n"
        (bare / "Chart.yaml").write_text(about + lock.read_text())
        ran = tools.run("helm", "dependency", "update", str(bare))
        print(ran.checked("download chart dependencies"), end="", flush=True)
        shutil.copytree(bare, into)
