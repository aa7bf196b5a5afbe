"""A chart's manifests as werf prints and stores them, parsed and written anew."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from . import manifests
from .errors import WerfError
from .manifests import HOOK, VERSION, Object
from .release import Helm, Release, converting
from .settings import Deploy

Sourced = tuple[str, Object]
"""An object and the file of the chart that it came from, as helm names that."""
_SOURCE = re.compile(r"^---\n# Source: (.*)\n", re.MULTILINE)
_DEFINITIONS = (".yaml", ".yml", ".json")


def render(deploy: Deploy, helm: Helm, past: list[Release] | None) -> list[tuple[str, str]]:
    """The objects' names and texts.

    What werf itself and the bundle add to objects, only werf 3 prints; variables' labels and
    annotations both.

    Args:
        deploy: what was asked for.
        helm: renders.
        past: the releases before; None for a render that asks no cluster.
    """
    text = helm.template() if past is None else sourced(helm.render(past))
    documents = [*_definitions(helm.chart), *_split(text)]
    parsed = _read(documents, deploy, helm.chart)
    found = [
        (at, _shown(body, deploy, helm))
        for (at, _), bodies in zip(documents, parsed, strict=True)
        for body in bodies
    ]
    found.sort(key=partial(_place, newest=deploy.newest))
    return [(_name(body, deploy), f"---\n{_text(at, body)}") for at, body in found]


@dataclass(frozen=True, slots=True)
class Rendered:
    """What a chart gives after some releases.

    Attributes:
        new: the release, as it is stored.
        objects: what is in it.
        standalone: what is in the chart's directory crds/.
        former: what was in the release before.
    """

    new: Release
    objects: list[Object]
    standalone: list[Object]
    former: list[Object]


def render_release(deploy: Deploy, helm: Helm, past: list[Release]) -> Rendered:
    """Render a chart for a deploy, and parse all that this is compared with."""
    new = helm.render(past)
    definitions = _read(list(_definitions(helm.chart)), deploy, helm.chart)
    sources = [*_split(new.manifest), *zip(new.paths, new.hooks, strict=True)]
    found = _read(sources, deploy, helm.chart)
    (former,) = manifests.parse_each([past[-1].manifest if past else ""])
    stored = [
        "\n---\n".join(_text(at, _shown(body, deploy, helm, stored=True)) for body in bodies)
        for (at, _), bodies in zip(sources, found, strict=True)
    ]
    count = len(sources) - len(new.hooks)
    return Rendered(
        new=new.with_texts("\n---\n".join(filter(None, stored[:count])), stored[count:]),
        objects=[body for bodies in found for body in bodies],
        standalone=[body for bodies in definitions for body in bodies],
        former=former,
    )


def _shown(body: Object, deploy: Deploy, helm: Helm, *, stored: bool = False) -> Object:
    """An object with the labels and annotations that werf prints and stores."""
    added = {"annotations": deploy.annotations, "labels": deploy.labels}
    if deploy.newest:
        version = {} if stored else {VERSION: deploy.version}
        added = {**helm.added, "annotations": {**helm.added["annotations"], **version}}
    metadata = dict(body["metadata"])
    for member, more in added.items():
        metadata[member] = {**(metadata.get(member) or {}), **more}
    return {**body, "metadata": metadata}


def _text(source: str, body: Object) -> str:
    return f"# Source: {source}\n{manifests.dump(body)}"


def _split(text: str) -> Iterator[tuple[str, str]]:
    """The sources and manifests of what helm renders."""
    _, *rest = _SOURCE.split(text)
    yield from zip(rest[::2], rest[1::2], strict=True)


def _name(body: Object, deploy: Deploy) -> str:
    return manifests.titled(next(iter(manifests.keyed([body], deploy.namespace))))


def sourced(new: Release) -> str:
    """What helm has rendered, each manifest after its source."""
    hooks = zip(new.paths, new.hooks, strict=True)
    return "\n".join([new.manifest, *(f"---\n# Source: {path}\n{hook}\n" for path, hook in hooks)])


def _read(documents: list[tuple[str, str]], deploy: Deploy, chart: Path) -> list[list[Object]]:
    """Parse manifests with their sources.

    Raises:
        WerfError: werf 3 refuses annotations and labels that are no texts; werf 2 leaves them out.
    """
    parsed = manifests.parse_each(text for _, text in documents)
    for (source, _), bodies in zip(documents, parsed, strict=True):
        for body in bodies:
            is_object = isinstance(body, dict) and "kind" in body
            if not (is_object and isinstance(body.get("metadata"), dict)):
                raise WerfError(f"parse manifests: no object with a kind and metadata in {source}")
        for body, member in itertools.product(bodies, ("annotations", "labels")):
            given = body["metadata"].get(member) or {}
            others = {k: v for k, v in given.items() if isinstance(v, int | float)}
            if others and deploy.newest:
                raise _no_text(source, member, *next(iter(others.items())), chart)
            if others:
                body["metadata"][member] = {k: v for k, v in given.items() if k not in others}
    return parsed


def _no_text(source: str, member: str, key: str, value: float, chart: Path) -> WerfError:
    """The words of werf 3 for an annotation or a label that is no text."""
    kind = {bool: "bool", int: "int64"}.get(type(value), "float64")
    fault = f'contains non-string value in the map under key "{key}": {json.dumps(value)}'
    decoded = f'"{source}": decode resource (file: "{source}")'
    return WerfError(
        f"render chart: {converting(chart)}: construct resource spec for {decoded}: "
        f".metadata.{member} accessor error: {fault} is of the type {kind}, expected string"
    )


def _place(sourced: Sourced, *, newest: bool) -> tuple[object, ...]:
    """Definitions first, then by kind and name; with 2 only those of crds/, and hooks next."""
    source, body = sourced
    kind, metadata = body["kind"], body["metadata"]
    where = (kind, metadata.get("namespace", ""), metadata["name"])
    if newest:
        return (kind != "CustomResourceDefinition", *where)
    return ("/crds/" not in source, HOOK not in metadata["annotations"], *where)


def _definitions(chart: Path, name: str = "") -> Iterator[tuple[str, str]]:
    """The files of crds/, which helm doesn't render; of subcharts too."""
    name = name or chart.name
    for path in sorted((chart / "crds").rglob("*")):
        if path.suffix in _DEFINITIONS:
            yield f"{name}/{path.relative_to(chart)}", path.read_text()
    for part in sorted((chart / "charts").glob("*/Chart.yaml")):
        yield from _definitions(part.parent, f"{name}/charts/{part.parent.name}")
