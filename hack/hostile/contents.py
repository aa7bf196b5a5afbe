"""What a hostile repository has under its tags: signatures and charts that are bad.

Each repository has one manifest for all of its tags, and is what its number chooses.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from hostile import texts
from localcluster.signing import BUNDLE_TYPE as BUNDLE
from localcluster.signing import PAYLOAD_TYPE as PAYLOAD

PUBLIC_KEY = """-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE2sG24bTE4w/K9vWOeHEDOhuNg+Qh
vtwbJ/hUEx6mg4gUfUK9C4R1BqTd779r+x8TcFXvtIFn+ctS4EEBQqBCtQ==
-----END PUBLIC KEY-----
"""
"""A good key, by which nothing is signed."""

CHART = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
TAGS = ("0.9.0", "1.0.0", "1.1.0")


@dataclass(slots=True)
class Repository:
    """What a repository answers.

    Attributes:
        manifest: that of each tag.
        tags: manifests of other tags.
        stored: manifests and blobs by digest.
        referrers: the list of referrers; None: the registry has none.
        more: whether each page of that list names another one.
    """

    manifest: bytes
    tags: dict[str, bytes] = field(default_factory=dict)
    stored: dict[str, bytes] = field(default_factory=dict)
    referrers: bytes | None = None
    more: bool = False

    def store(self, content: bytes, media_type: str, **more: Any) -> dict[str, Any]:
        """Keep a manifest or blob, and describe it."""
        self.stored[digest(content)] = content
        described = {"digest": digest(content), "size": len(content), "mediaType": media_type}
        return {**described, **more}

    def answer(self, what: str, name: str) -> bytes | None:
        """The body for ``/v2/REPOSITORY/WHAT/NAME``; None: there is none."""
        if what == "referrers":
            return self.referrers
        if what == "blobs" or name in self.stored:
            return self.stored.get(name)
        return self.tags.get(name, None if name.startswith("sha256-") else self.manifest)


def digest(content: bytes) -> str:
    """As a registry names it."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def _manifest(*layers: Mapping[str, Any], **more: Any) -> bytes:
    config = {"mediaType": "application/vnd.oci.empty.v1+json", "digest": digest(b"{}"), "size": 2}
    return json.dumps({"schemaVersion": 2, "config": config, "layers": layers, **more}).encode()


# --- signatures ----------------------------------------------------------------------------------


def _signed(number: int) -> tuple[Repository, str]:
    """A repository whose manifest nobody has signed yet, and the fallback tag of its referrers."""
    found = Repository(_manifest(app=number))
    return found, digest(found.manifest).replace(":", "-")


def _bundles(contents: list[bytes], number: int, *, is_listed: bool) -> Repository:
    """Bundles that are referrers, in a list or in the index of the fallback tag."""
    found, tag = _signed(number)
    entries = []
    for content in contents:
        manifest = _manifest(
            found.store(content, BUNDLE),
            artifactType=BUNDLE,
            subject={"digest": digest(found.manifest)},
        )
        entries.append(found.store(manifest, "", artifactType=BUNDLE))
    index = json.dumps({"schemaVersion": 2, "manifests": entries}).encode()
    if is_listed:
        found.referrers = index
    else:
        found.tags[tag] = index
    return found


def _deep_bundles(count: int) -> list[bytes]:
    return [texts.encode({"a": texts.deep(10_000 + at)}) for at in range(count)]


def _dense_bundles(count: int) -> list[bytes]:
    """Each 80 KB of the smallest members that a bundle may have."""
    statement = base64.b64encode(b'{"_type":"https://in-toto.io/Statement/v1"}').decode()
    envelope = {
        "payload": statement,
        "payloadType": "application/vnd.in-toto+json",
        "signatures": [{"sig": base64.b64encode(bytes(70)).decode()}],
    }
    entries = [{"a": ""}] * 8_800
    made = []
    for at in range(count):
        material = {"publicKey": {"hint": str(at)}, "tlogEntries": entries}
        bundle = {
            "mediaType": BUNDLE,
            "verificationMaterial": material,
            "dsseEnvelope": envelope,
        }
        made.append(json.dumps(bundle, separators=(",", ":")).encode())
    return made


def _payloads(number: int) -> Repository:
    """The tag ``sha256-HEX.sig`` with 60 layers, whose annotations are mean."""
    found, tag = _signed(number)
    layers = []
    for at in range(60):
        mean = texts.MEAN[at % len(texts.MEAN)][:3_000]
        signature = base64.b64encode(bytes([at]) * 70).decode() if at % 2 else mean
        names = {"dev.cosignproject.cosign/signature": signature, "dev.sigstore.cosign/chain": mean}
        payload = texts.encode({"critical": texts.deep(10_000), "optional": at})
        layers.append(found.store(payload, PAYLOAD, annotations=names))
    found.tags[f"{tag}.sig"] = _manifest(*layers)
    return found


def _junk_tags(number: int) -> Repository:
    """No index, no manifest, and a list of referrers that is nested."""
    found, tag = _signed(number)
    found.tags[tag] = texts.encode({"manifests": texts.deep(100_000, is_list=True)})
    found.tags[f"{tag}.sig"] = texts.encode({"layers": texts.deep(50_000)})
    return found


def _many_referrers(number: int) -> Repository:
    """Pages without an end, each of thousands of entries of no clear type."""
    found, _ = _signed(number)
    entries = [{"digest": digest(b"%d" % at), "size": -at} for at in range(10_000)]
    found.referrers, found.more = json.dumps({"manifests": entries}).encode(), True
    return found


def _other_contents(number: int) -> Repository:
    """Bundles that aren't what their digests say."""
    found = _bundles(_dense_bundles(5), number, is_listed=True)
    found.stored = dict.fromkeys(found.stored, texts.encode({"layers": texts.deep(9_000)}))
    return found


SIGNED: tuple[Callable[[int], Repository], ...] = (
    lambda number: _bundles(_dense_bundles(50), number, is_listed=True),
    lambda number: _bundles(_dense_bundles(50), number, is_listed=False),
    lambda number: _bundles(_deep_bundles(50), number, is_listed=True),
    _payloads,
    _junk_tags,
    _many_referrers,
    _other_contents,
)
"""Repositories with signatures, by number."""


# --- charts --------------------------------------------------------------------------------------


def _packed(files: Mapping[str, str | bytes], kind: bytes = tarfile.REGTYPE) -> bytes:
    """A chart's archive; anything but a regular file is a link to a place outside."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for name, content in {"Chart.yaml": "name: shop\nversion: 1.0.0\n", **files}.items():
            info, raw = tarfile.TarInfo(f"shop/{name}"), content
            raw = raw.encode() if isinstance(raw, str) else raw
            if kind == tarfile.REGTYPE or name == "Chart.yaml":
                info.size = len(raw)
            else:
                info.type, info.linkname, raw = kind, "../../etc/passwd", b""
            archive.addfile(info, io.BytesIO(raw))
    return gzip.compress(written.getvalue(), mtime=0)


def _nested_charts() -> bytes:
    """Vendored charts that are bombs together."""
    inner = _packed({"big": bytes(12 * 2**20)})
    return _packed({f"charts/{at}.tgz": inner for at in range(3)})


CHARTS: tuple[Callable[[], bytes], ...] = (
    lambda: gzip.compress(bytes(64 * 2**20)),
    _nested_charts,
    lambda: bytes(4 * 2**20),
    lambda: _packed({"a": ""}, tarfile.SYMTYPE),
    lambda: _packed({"../../a": "", "/etc/a": ""}),
    lambda: _packed({f"templates/{at}.yaml": "{{ a }}" for at in range(4_900)}),
    lambda: _packed({f"f{at}": "" for at in range(6_000)}),
    lambda: _packed({"templates/a.yaml": "{{ if a }}" * 30_000 + "{{ end }}" * 30_000}),
    lambda: _packed({"templates/a.yaml": "{{ " + "(" * 90_000 + "a" + ")" * 90_000 + " }}"}),
    lambda: _packed({"templates/a.yaml": "{{a}}" * 60_000}),
    lambda: _packed({"templates/a.yaml": '{{ define "a" }}{{ template "a" . }}{{ end }}' * 5_000}),
    lambda: _packed({f"templates/{n}.yaml": text for n, text in enumerate(texts.MEAN)}),
    lambda: _packed({"Chart.yaml": texts.aliases()}),
    lambda: _packed({"Chart.yaml": texts.nested_yaml(30_000)}),
)
"""Charts, by number."""
OTHER_DIGEST = len(CHARTS)
"""The number of a chart whose blob is another one."""


def _with_chart(number: int) -> Repository:
    chart = CHARTS[number % len(CHARTS)]()
    found = Repository(b"")
    found.manifest = _manifest(found.store(chart, CHART))
    if number == OTHER_DIGEST:
        found.stored = dict.fromkeys(found.stored, chart[:-1] + b"x")
    return found


@cache
def repository(kind: str, number: int) -> Repository:
    """The repository of this kind and number."""
    if kind == "signed":
        return SIGNED[number % len(SIGNED)](number)
    return _with_chart(number % (len(CHARTS) + 1))
