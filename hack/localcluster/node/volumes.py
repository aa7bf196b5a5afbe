"""Volumes: what is in them, and writing it to disk."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .environment import field_value
from .sources import MissingReference, Sources

_DEFAULT_MODE = 0o644
Object = Mapping[str, Any]
Issue = Callable[[str | None], Awaitable[str]]
"""Asks for a token of the pod's service account, for an audience or the API server."""


@dataclass(frozen=True, slots=True)
class File:
    """One file of a volume."""

    content: bytes
    mode: int = _DEFAULT_MODE


async def files(volume: Object, pod: Object, sources: Sources, issue: Issue) -> dict[str, File]:
    """The files of a volume by their paths in it.

    An emptyDir with ``medium: Memory`` is a directory on disk as any other, and no ``sizeLimit`` is
    enforced: both would need rights that a process node doesn't ask for.

    Raises:
        MissingReference: an object or a key that isn't optional is missing, or the node can't give
            a volume of that kind.
        ApiError: the API server refused or is away.
    """
    outer: Object = next((volume[kind] for kind in volume if kind != "name"), {})
    mode = int(outer.get("defaultMode", _DEFAULT_MODE))
    result: dict[str, File] = {}
    for kind, source in _parts(volume):
        match kind:
            case "configMap":
                result |= await _keys("ConfigMap", source["name"], source, sources, mode)
            case "secret":
                name = source.get("secretName") or source["name"]
                result |= await _keys("Secret", name, source, sources, mode)
            case "downwardAPI":
                for item in source.get("items") or []:
                    value = field_value(pod, (item.get("fieldRef") or {}).get("fieldPath", ""))
                    result[item["path"]] = File(value.encode(), int(item.get("mode", mode)))
            case "serviceAccountToken":
                token = await issue(source.get("audience"))
                result[source["path"]] = File(token.encode(), 0o600)
            case "emptyDir":
                pass
            case _:
                raise MissingReference(f"a process node has no volumes of the kind {kind}")
    return result


def _parts(volume: Object) -> Iterator[tuple[str, Object]]:
    for kind, source in volume.items():
        if kind == "projected":
            for part in source.get("sources") or []:
                yield from part.items()
        elif kind != "name":
            yield kind, source


async def _keys(
    kind: str, name: str, source: Object, sources: Sources, mode: int
) -> dict[str, File]:
    optional = bool(source.get("optional"))
    values = await sources.content(kind, name, optional=optional)
    items = source.get("items")
    if not items:
        return {key: File(value, mode) for key, value in values.items()}
    result = {}
    for item in items:
        if item["key"] in values:
            result[item["path"]] = File(values[item["key"]], int(item.get("mode", mode)))
        elif not optional:
            word = "config" if kind == "ConfigMap" else "secret"
            raise MissingReference(f"references non-existent {word} key: {item['key']}")
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
