"""What other copying tools are told by annotations, as rules of ours: pure.

Read in each tool's own source, at the versions that docs/adoption.md names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from copyrator.api import names
from copyrator.api.selectors import LabelSelector

REPLICATOR: Final = "replicator.v1.mittwald.de/"
REFLECTOR: Final = "reflector.v1.k8s.emberstack.com/"
SYNCER: Final = "kubed.appscode.com/sync"

_GLOB_OF = re.compile(r"\^?([a-z0-9-]*)(\.\*|\[a-z0-9-?\]\*)?\$?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a tool was asked to do with one source."""

    tool: str
    kind: str
    namespace: str
    name: str
    namespaces: Sequence[str] = ()
    """Globs or names; empty: every one."""
    exclude: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    copy_name: str | None = None
    remarks: Sequence[str] = ()

    def rule(self, home: str) -> dict[str, Any]:
        """The rule that does the same."""
        targets: dict[str, Any] = {}
        if self.namespaces:
            targets["namespaces"] = list(self.namespaces)
        if self.exclude:
            targets["exclude"] = list(self.exclude)
        if self.labels:
            targets["selector"] = {"matchLabels": dict(self.labels)}
        spec: dict[str, Any] = {
            "source": {"kind": self.kind, "namespace": self.namespace, "name": self.name}
        }
        if targets:
            spec["targets"] = targets
        if self.copy_name:
            spec["transform"] = {"name": self.copy_name}
        spec["onConflict"] = "Adopt"
        return {
            "apiVersion": names.RULE_API_VERSION,
            "kind": names.RULE_KIND,
            "metadata": {"name": self._name(), "namespace": home},
            "spec": spec,
        }

    def _name(self) -> str:
        text = f"{self.namespace}-{self.name}-{self.kind.lower()}"
        if self.copy_name:
            text += f"-as-{self.copy_name}"
        return re.sub(r"[^a-z0-9.-]+", "-", text.lower())[:253].strip("-.")


def wishes(kind: str, bodies: Sequence[Mapping[str, Any]], known: Sequence[str]) -> list[Wish]:
    """What the annotations of objects of one kind ask for; `known` are the namespaces there are."""
    found: list[Wish] = []
    pulls: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for body in bodies:
        metadata = body["metadata"]
        annotations = metadata.get("annotations") or {}
        place = (metadata["namespace"], metadata["name"])
        found += _replicator(kind, place, annotations, known)
        found += _reflector(kind, place, annotations, known)
        found += _syncer(kind, place, annotations)
        for tool, key in (
            ("kubernetes-replicator", f"{REPLICATOR}replicate-from"),
            ("reflector", f"{REFLECTOR}reflects"),
        ):
            if (source := annotations.get(key)) and "/" in source:
                namespace, _, name = source.partition("/")
                pulls.setdefault((tool, namespace, name), []).append(place)
    return found + list(_pulled(kind, pulls))


Place = tuple[str, str]


def _replicator(
    kind: str, place: Place, annotations: Mapping[str, str], known: Sequence[str]
) -> Iterator[Wish]:
    to = annotations.get(f"{REPLICATOR}replicate-to")
    matching = annotations.get(f"{REPLICATOR}replicate-to-matching")
    if to:
        globs, remarks = _globs(to, known)
        yield _wish("kubernetes-replicator", kind, place, namespaces=globs, remarks=remarks)
    if matching:
        labels, remarks = _labels(matching)
        yield _wish("kubernetes-replicator", kind, place, labels=labels, remarks=remarks)


def _reflector(
    kind: str, place: Place, annotations: Mapping[str, str], known: Sequence[str]
) -> Iterator[Wish]:
    def is_on(name: str) -> bool:
        return annotations.get(f"{REFLECTOR}{name}", "").lower() == "true"

    if not (is_on("reflection-allowed") and is_on("reflection-auto-enabled")):
        return
    wanted = annotations.get(f"{REFLECTOR}reflection-auto-namespaces") or annotations.get(
        f"{REFLECTOR}reflection-allowed-namespaces", ""
    )
    globs, remarks = _globs(wanted, known) if wanted else ((), ())
    yield _wish("reflector", kind, place, namespaces=globs, remarks=remarks)


def _syncer(kind: str, place: Place, annotations: Mapping[str, str]) -> Iterator[Wish]:
    text = annotations.get(SYNCER)
    if text is not None:
        labels, remarks = _labels(text) if text else ({}, ())
        yield _wish("config-syncer", kind, place, labels=labels, remarks=remarks)


def _pulled(kind: str, pulls: Mapping[tuple[str, str, str], Sequence[Place]]) -> Iterator[Wish]:
    """Targets that name their source: one rule for each source and name of the copies."""
    for (tool, namespace, name), places in sorted(pulls.items()):
        by_name: dict[str, list[str]] = {}
        for there, copy in places:
            by_name.setdefault(copy, []).append(there)
        for copy, spaces in sorted(by_name.items()):
            yield Wish(
                tool=tool,
                kind=kind,
                namespace=namespace,
                name=name,
                namespaces=sorted(spaces),
                copy_name=None if copy == name else copy,
            )


def cluster_secret(body: Mapping[str, Any], known: Sequence[str]) -> Wish:
    """A ClusterSecret, whose data stands in itself or in a Secret that it names."""
    name = body["metadata"]["name"]
    globs, remarks = _globs(",".join(body.get("matchNamespace") or ()), known)
    avoid, more = _globs(",".join(body.get("avoidNamespaces") or ()), known)
    reference = ((body.get("data") or {}).get("valueFrom") or {}).get("secretKeyRef") or {}
    notes = [*remarks, *more]
    if not reference:
        notes.insert(0, f"the data stands in the ClusterSecret: make the Secret {name} of it first")
    if reference.get("keys"):
        notes.append(f"only these keys: {', '.join(reference['keys'])} (spec.transform.keys)")
    source = str(reference.get("name") or name)
    return Wish(
        tool="ClusterSecret",
        kind="Secret",
        namespace=str(reference.get("namespace") or "default"),
        name=source,
        namespaces=globs,
        exclude=avoid,
        copy_name=None if source == name else name,
        remarks=notes,
    )


def _wish(tool: str, kind: str, place: Place, **more: Any) -> Wish:
    return Wish(tool=tool, kind=kind, namespace=place[0], name=place[1], **more)


def _globs(text: str, known: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Comma-separated regular expressions as globs; where one is none, the namespaces it means."""
    found: list[str] = []
    remarks: list[str] = []
    for part in (piece.strip() for piece in text.split(",")):
        simple = _GLOB_OF.fullmatch(part)
        if not part:
            continue
        if part in ("*", ".*"):
            return (), tuple(remarks)
        if simple and (simple[1] or simple[2]):
            found.append(simple[1] + ("*" if simple[2] else ""))
            continue
        meant = _matching(part, known)
        found += meant
        shown = ", ".join(meant) or "none"
        remarks.append(f"{part} is no glob; the namespaces that it means today: {shown}")
    return tuple(dict.fromkeys(found)) or ("no-namespace-matches",), tuple(remarks)


def _matching(pattern: str, known: Sequence[str]) -> list[str]:
    import re2  # noqa: PLC0415 - no pattern of somebody else's may run for ever

    try:
        compiled = re2.compile(pattern)
    except re2.error:
        return []
    return [name for name in known if compiled.fullmatch(name)]


def _labels(text: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """``key=value,key2=value2``; anything else is left to the reader."""
    labels: dict[str, str] = {}
    remarks: list[str] = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        key, sign, value = part.partition("=")
        if sign and not value.startswith("=") and not key.endswith("!"):
            labels[key.strip()] = value.strip()
        else:
            remarks.append(f"add the condition {part!r} to spec.targets.selector by hand")
    LabelSelector.from_labels(labels)
    return labels, tuple(remarks)
