"""One side of `choices-oras`: pushes and reads bundles, and reports what that cost as JSON.

Usage: ``python -m bench.choices.oras_child SIDE WORK``. WORK is the path of a JSON file: registry,
repo, directory (with config.json, layer.tgz, manifest.json, big), count. The sides run in
environments of their own, so each imports what it needs only when it is chosen.
"""

from __future__ import annotations

import hashlib
import http.server
import importlib.util
import json
import socket
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from bench.choices.own import peak

TODAY = "own pusher"
ORAS = "oras-py"
SIDES = (TODAY, ORAS)

_PUSHER = Path(__file__).parents[2] / "hack" / "localcluster" / "bundle.py"


class Target(Protocol):
    """A repository as localcluster.bundle uses it."""

    def upload(self, blob: bytes) -> None:
        """Upload a blob unless it is there."""

    def tag(self, manifest: bytes, tag: str) -> None:
        """Store a manifest under a tag."""

    def manifest(self, tag: str) -> bytes:
        """Read the manifest of a tag."""
        ...


def today(registry: str, repo: str, username: str | None, password: str | None) -> Target:
    """The pusher's own, without the rest of its package."""
    spec = importlib.util.spec_from_file_location("bundle", _PUSHER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["bundle"] = module
    spec.loader.exec_module(module)
    target: Target = module.Target(registry, repo, username, password)
    return target


class OrasTarget:
    """The same with oras, as short as it gets: what the pusher would have instead."""

    def __init__(
        self, registry: str, repo: str, username: str | None, password: str | None
    ) -> None:
        from oras.container import Container
        from oras.provider import Registry

        self._container: Callable[[str], Any] = lambda tag: Container(f"{registry}/{repo}:{tag}")
        self._registry: Any = Registry(registry, insecure=True, auth_backend="basic")
        self._registry.session.trust_env = False  # no proxy for what is on loopback
        if username is not None:
            self._registry.auth.set_basic_auth(username, password or "")

    def upload(self, blob: bytes) -> None:
        """Upload a blob: oras reads it from a file."""
        with tempfile.NamedTemporaryFile() as file:
            file.write(blob)
            file.flush()
            layer = {"digest": _digest(blob), "size": len(blob)}
            answer = self._registry.upload_blob(file.name, self._container("any"), layer)
        self._check(answer)

    def tag(self, manifest: bytes, tag: str) -> None:
        """Store a manifest: oras writes it anew."""
        self._check(self._registry.upload_manifest(json.loads(manifest), self._container(tag)))

    def manifest(self, tag: str) -> bytes:
        """Read a manifest: oras has parsed it."""
        return json.dumps(self._registry.get_manifest(self._container(tag))).encode()

    def _check(self, answer: Any) -> None:
        if answer.status_code >= 300:
            raise OSError(f"{answer.status_code} {answer.text}")


def main(side: str, work: dict[str, Any]) -> dict[str, float]:
    """Everything once."""
    make: Callable[..., Target] = today if side == TODAY else OrasTarget
    registry, count, directory = work["registry"], int(work["count"]), Path(work["directory"])
    began, modules = time.process_time(), len(sys.modules)
    target = make(registry, work["repo"], None, None)
    figures = {
        "CPU of the import, ms": 1000 * (time.process_time() - began),
        "modules imported": float(len(sys.modules) - modules),
    }
    config, layer, manifest = (
        (directory / name).read_bytes() for name in ("config.json", "layer.tgz", "manifest.json")
    )

    def push(number: int) -> None:
        target.upload(config + b" " * number)
        target.upload(layer + b"\0" * number)
        target.tag(manifest, "1.0.0")

    target.upload(config)
    target.upload(layer)
    target.tag(manifest, "1.0.0")
    figures |= _each("CPU of a push, ms", push, range(1, count + 1))
    figures |= _each("CPU of a tag, ms", lambda n: target.tag(manifest, f"junk-{n}"), range(count))
    figures |= _each(
        "CPU of reading a manifest, ms", lambda _: target.manifest("1.0.0"), range(count)
    )
    figures["the digest is that of the manifest"] = float(
        _digest_of(registry, work["repo"]) == _digest(manifest)
    )
    figures["memory, MB"] = peak()
    big = (directory / "big").read_bytes()
    target.upload(big)
    figures["memory, a layer of 64 MB pushed, MB"] = peak()
    figures |= _faults(make)
    return figures


def _each(name: str, act: Callable[[int], object], numbers: range) -> dict[str, float]:
    began = time.process_time()
    for number in numbers:
        act(number)
    return {name: 1000 * (time.process_time() - began) / len(numbers)}


def _faults(make: Callable[..., Target]) -> dict[str, float]:
    """How long each is at it by itself; sleeps are counted, not slept."""
    slept: list[float] = []
    time.sleep = slept.append  # type: ignore[assignment]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{probe.getsockname()[1]}"
    server, asked = _refusing()
    try:
        figures = {"no registry: seconds slept": _slept(make(nobody, "a/b", None, None), slept)}
        address = f"127.0.0.1:{server.server_port}"
        wrong = make(address, "a/b", "user", "wrong")
        figures["wrong password: seconds slept"] = _slept(wrong, slept)
        figures["wrong password: requests"] = float(len(asked))
        return figures
    finally:
        server.shutdown()


def _slept(target: Target, slept: list[float]) -> float:
    slept.clear()
    try:
        target.upload(b"x")
    except Exception as error:
        print(type(error).__name__, str(error)[:200], file=sys.stderr)
        return float(sum(slept))
    raise AssertionError("a push without a registry or a password can't succeed")


def _refusing() -> tuple[http.server.ThreadingHTTPServer, list[str]]:
    """A registry that knows nobody."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def _refuse(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked.append(self.command)
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="choices"')
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_GET = do_POST = do_PUT = _refuse  # noqa: N815 - the base class's names

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, asked


def _digest_of(registry: str, repo: str) -> str:
    request = urllib.request.Request(
        f"http://{registry}/v2/{repo}/manifests/1.0.0",
        headers={"Accept": "application/vnd.oci.image.manifest.v1+json"},
        method="HEAD",
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request) as answer:
        return str(answer.headers["Docker-Content-Digest"])


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], json.loads(Path(sys.argv[2]).read_text()))))
