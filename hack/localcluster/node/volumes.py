"""Volumes: what is in them (pure), and writing it to disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from .environment import field_value
from .sources import Data, MissingReference, Ref, content

_DEFAULT_MODE = 0o644
_KINDS = ("configMap", "secret", "projected", "downwardAPI")
Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class File:
    """One file of a volume."""

    content: bytes
    mode: int = _DEFAULT_MODE


class TokenSpec(NamedTuple):
    """A service account token that a volume asks for."""

    path: str
    audience: str | None


Tokens = Mapping[TokenSpec, str]


def has_files(volume: Object) -> bool:
    """Whether the node writes this volume's content."""
    return any(kind in volume for kind in _KINDS)


def references(volume: Object) -> Iterator[Ref]:
    """The ConfigMaps and Secrets that a volume is made from."""
    for kind, source in _parts(volume):
        if kind == "configMap":
            yield Ref("ConfigMap", source["name"])
        elif kind == "secret":
            yield Ref("Secret", source.get("secretName") or source["name"])


def tokens(volume: Object) -> Iterator[TokenSpec]:
    """The service account tokens that a volume asks for."""
    for kind, source in _parts(volume):
        if kind == "serviceAccountToken":
            yield TokenSpec(source["path"], source.get("audience"))


def files(volume: Object, pod: Object, data: Data, issued: Tokens) -> dict[str, File]:
    """The files of a volume by their paths in it.

    Args:
        volume: its spec.
        pod: the pod, for the downward API.
        data: contents of what `references` names.
        issued: the tokens that `tokens` names.

    Raises:
        MissingReference: an object or a key that isn't optional is missing.
    """
    outer = next(volume[kind] for kind in _KINDS if kind in volume)
    mode = int(outer.get("defaultMode", _DEFAULT_MODE))
    result: dict[str, File] = {}
    for kind, source in _parts(volume):
        if kind == "configMap":
            result |= _keys(Ref("ConfigMap", source["name"]), source, data, mode)
        elif kind == "secret":
            name = source.get("secretName") or source["name"]
            result |= _keys(Ref("Secret", name), source, data, mode)
        elif kind == "downwardAPI":
            for item in source.get("items") or []:
                value = field_value(pod, (item.get("fieldRef") or {}).get("fieldPath", ""))
                result[item["path"]] = File(value.encode(), int(item.get("mode", mode)))
    for spec in tokens(volume):
        result[spec.path] = File(issued[spec].encode(), 0o600)
    return result


def _parts(volume: Object) -> Iterator[tuple[str, Object]]:
    if "projected" in volume:
        for part in volume["projected"].get("sources") or []:
            yield from part.items()
    else:
        for kind in _KINDS:
            if kind in volume:
                yield kind, volume[kind]


def _keys(ref: Ref, source: Object, data: Data, mode: int) -> dict[str, File]:
    optional = bool(source.get("optional"))
    values = content(data, ref, optional=optional)
    items = source.get("items")
    if not items:
        return {key: File(value, mode) for key, value in values.items()}
    result = {}
    for item in items:
        if item["key"] in values:
            result[item["path"]] = File(values[item["key"]], int(item.get("mode", mode)))
        elif not optional:
            kind = "config" if ref.kind == "ConfigMap" else "secret"
            raise MissingReference(f"references non-existent {kind} key: {item['key']}")
    return result


def write(directory: Path, wanted: Mapping[str, File]) -> None:
    """Put files into a directory, before a container of the pod is started."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, file in wanted.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # what isn't to be written may be there already
        path.write_bytes(file.content)
        path.chmod(file.mode)
