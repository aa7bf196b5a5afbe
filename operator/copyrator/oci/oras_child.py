"""Writes to a registry with oras; runs in the child process, and only there (docs/adr/0004).

Nothing is decided here: a Route has what our own client has checked and chosen. Whatever oras does
by itself is off: it asks no name server, reads no environment and no file of the machine, follows
no redirect, answers no challenge and repeats nothing. What a server sends is cut to a status, a few
headers and a short text.
"""

from __future__ import annotations

import hashlib
import os
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from http.cookiejar import DefaultCookiePolicy
from typing import Any, Final
from urllib.parse import urlsplit

import oras.container
import oras.defaults
import oras.provider
import requests
from requests.adapters import HTTPAdapter
from urllib3 import disable_warnings
from urllib3.exceptions import HTTPError

from copyrator.oci.push_route import Answer, PushFault, Route, Upload
from copyrator.tls import create_context, use_context

disable_warnings()  # of connections without verification, which a Bundle asks for

_CONNECT_SECONDS: Final = 10.0
_READ_SECONDS: Final = 20.0
"""Without a byte from the server; the parent ends the process when it takes too long in all."""
_SAID_BYTES: Final = 16 * 1024
_SAID_SECONDS: Final = 3.0
_HEADER_CHARACTERS: Final = 8 * 1024
_CHALLENGES: Final = 8
_HEADERS: Final = ("Date", "Docker-Content-Digest", "OCI-Subject", "Retry-After")
_ANY_MANIFEST: Final = ", ".join(oras.defaults.default_manifest_accepted_media_types)
_PORTS: Final = {"http": 80, "https": 443}


def upload(route: Route, what: Upload) -> Answer:
    """Upload blobs and a manifest, also if they are there; ends with the first refusal."""

    def write(registry: Any, container: Any) -> requests.Response:
        for blob in what.blobs:
            _put_blob(registry, container, blob)
        if what.expected is not None:
            _check_unchanged(registry, container, what.reference, what.expected)
        answer: requests.Response = registry.do_request(
            f"{registry.prefix}://{container.manifest_url(what.reference)}",
            "PUT",
            data=what.manifest,
            headers={"Content-Type": what.media_type},
        )
        return answer

    return _run(route, what.path, write)


def delete(route: Route, path: str, digest: str) -> Answer:
    """Delete a manifest."""

    def write(registry: Any, container: Any) -> requests.Response:
        url = f"{registry.prefix}://{container.manifest_url(digest)}"
        answer: requests.Response = registry.do_request(url, "DELETE")
        return answer

    return _run(route, path, write)


def _put_blob(registry: Any, container: Any, blob: bytes) -> None:
    """Upload by oras, which reads blobs from files: this one is a pipe, without a disk.

    The registry refuses it where the digest isn't the blob's.
    """
    layer = {"digest": f"sha256:{hashlib.sha256(blob).hexdigest()}", "size": len(blob)}
    readable, writable = os.pipe()
    try:
        with os.fdopen(writable, "wb") as file:
            file.write(blob)  # a bundle has less than a pipe takes
        registry.put_upload(readable, container, layer)
    finally:
        with suppress(OSError):  # oras has closed it, if it got so far
            os.close(readable)


def _check_unchanged(registry: Any, container: Any, reference: str, expected: str) -> None:
    """Raise where a reference has another digest than expected, if the registry says which.

    There are no conditional writes: this leaves other clients milliseconds for a write between.
    """
    url = f"{registry.prefix}://{container.manifest_url(reference)}"
    try:
        answer = registry.do_request(url, "HEAD", headers={"Accept": _ANY_MANIFEST})
        current = answer.headers.get("Docker-Content-Digest", expected)
    except _RefusedError as refused:
        current = "" if refused.answer.status == 404 else expected
    if current != expected:
        raise _RefusedError(Answer(fault=PushFault.CHANGED))


def _run(route: Route, path: str, write: Callable[[Any, Any], requests.Response]) -> Answer:
    registry = oras.provider.Registry(insecure=route.origin.startswith("http:"))
    # Without the decorator, which repeats almost every failure for up to 131 s.
    once = oras.provider.Registry.do_request.__wrapped__
    registry.do_request = partial(once, registry)
    authority = urlsplit(route.origin).netloc
    container = oras.container.Container("app", registry=authority)
    # Not parsed from a text, in which "team.x/app" would be an app of the registry team.x.
    container.registry = authority
    container.namespace, _, container.repository = path.rpartition("/")
    with closing(_Session(route)) as session, _pinned(route):
        registry.session = session
        try:
            answer = write(registry, container)
        except _RefusedError as error:
            return error.answer
        except (requests.RequestException, HTTPError, OSError, ValueError) as error:
            return Answer(fault=_fault(error))
        return _answer(answer, b"")


class _RefusedError(Exception):
    """Ends an upload with this answer."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer


class _Session(requests.Session):
    """Sends what oras wants to send, if it goes to the registry's own host."""

    def __init__(self, route: Route) -> None:
        super().__init__()
        self._route = route
        self.trust_env = False  # no proxies, certificates and .netrc of the environment
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self.headers.clear()
        self.headers.update({"User-Agent": route.user_agent, "Accept-Encoding": "identity"})
        if route.authorization is not None:
            self.headers["Authorization"] = route.authorization
        if route.proxy is not None:
            self.proxies = {"http": route.proxy, "https": route.proxy}
        self.adapters.clear()
        self.mount(route.origin.partition(":")[0] + "://", HTTPAdapter(max_retries=0))
        use_context(self, _context(route))

    def request(self, method: str, url: Any, *_: Any, **options: Any) -> requests.Response:
        """Send a request once; every answer but a success ends the upload."""
        options |= {
            "allow_redirects": False,
            "stream": True,
            "timeout": (_CONNECT_SECONDS, _READ_SECONDS),
            "verify": self._route.verify,
        }
        with super().request(method, _own_url(self._route.origin, url), **options) as answer:
            if answer.status_code // 100 == 3:
                raise _RefusedError(Answer(answer.status_code, fault=PushFault.REDIRECT))
            body = _read(answer)  # also of a success: else the connection can't be used again
            if answer.status_code // 100 != 2:
                raise _RefusedError(_answer(answer, body))
            return answer


def _context(route: Route) -> ssl.SSLContext:
    if route.verify and route.ca is not None:
        return create_context(cadata=route.ca.decode("ascii"))
    cafile, capath = route.system_ca
    context = create_context(cafile=cafile, capath=capath)
    if not route.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _own_url(origin: str, url: str) -> str:
    """The URL on the registry's origin.

    Behind a proxy that ends TLS a registry names uploads by another scheme, or without its port.
    """
    own, parts = urlsplit(origin), urlsplit(url)
    is_own = (
        parts.scheme in _PORTS
        and parts.hostname == own.hostname
        and parts.username is parts.password is None
        and (parts.port or _PORTS[parts.scheme])
        in (own.port or _PORTS[own.scheme], _PORTS[parts.scheme])
    )
    if not is_own:
        raise _RefusedError(Answer(fault=PushFault.OTHER_HOST))
    query = f"?{parts.query}" if parts.query else ""
    return f"{origin}/{parts.path.lstrip('/')}{query}"


@contextmanager
def _pinned(route: Route) -> Iterator[None]:
    """Let this process connect to nothing but the addresses that were checked, or to the proxy."""
    real = socket.getaddrinfo
    host = (urlsplit(route.origin if route.proxy is None else route.proxy).hostname or "").lower()

    def look_up(name: Any, *args: Any, **options: Any) -> list[Any]:
        if str(name).strip("[]").lower() != host:
            raise socket.gaierror(socket.EAI_NONAME, "not the registry's host")
        if route.proxy is not None:
            return real(name, *args, **options)
        return [found for one in route.addresses for found in real(one, *args, **options)]

    socket.getaddrinfo = look_up  # type: ignore[assignment]
    try:
        yield
    finally:
        socket.getaddrinfo = real


def _read(answer: requests.Response) -> bytes:
    """The body of an error; empty where it is long, slow, compressed or cut off."""
    until = time.monotonic() + _SAID_SECONDS
    body = b""
    with suppress(HTTPError, OSError, ValueError):
        while piece := answer.raw.read1(_SAID_BYTES, decode_content=False):
            body += piece
            if len(body) > _SAID_BYTES or time.monotonic() > until:
                return b""
        return body
    return b""


def _answer(answer: requests.Response, body: bytes) -> Answer:
    challenges = answer.raw.headers.getlist("WWW-Authenticate")[:_CHALLENGES]
    found = [("WWW-Authenticate", value) for value in challenges]
    found += [(name, value) for name in _HEADERS if (value := answer.headers.get(name))]
    headers = tuple((name, text) for name, text in found if len(text) <= _HEADER_CHARACTERS)
    return Answer(answer.status_code, headers, body)


def _fault(error: Exception) -> PushFault:
    """Its kind alone: its text may have anything that the server sent, and the proxy's password."""
    text = str(error)
    kinds = (
        (isinstance(error, requests.exceptions.ProxyError), PushFault.PROXY),
        ("CERTIFICATE_VERIFY_FAILED" in text, PushFault.CERTIFICATE),
        (isinstance(error, requests.exceptions.SSLError | ssl.SSLError), PushFault.TLS),
        (isinstance(error, requests.exceptions.Timeout), PushFault.SLOW),
        ("Connection aborted" in text, PushFault.CUT_OFF),
        (isinstance(error, requests.exceptions.ConnectionError), PushFault.UNREACHABLE),
    )
    return next((kind for applies, kind in kinds if applies), PushFault.INVALID)
