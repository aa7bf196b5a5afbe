"""A chart's manifests as werf prints and stores them, parsed and written anew."""

from __future__ import annotations

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
# Of `metadata`, in a block or in braces, and in them a value that is a number or a boolean.
_MEMBERS = re.compile(
    r"^metadata:.*?(annotations|labels):(\s*\{[^}]*\}|(?:\n +\S.*)+)", re.MULTILINE | re.DOTALL
)
_NO_TEXT = re.compile(
    r"""(?:^ *|[{,] *)(?:"([^"]+)"|([^\s:{,]+)): *(-?\d+(?:\.\d+)?|true|false) *(?=[,}]|$)""",
    re.MULTILINE,
)
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
    if deploy.newest:
        check_texts(text, helm.chart)
    documents = [*_definitions(helm.chart), *_split(text)]
    parsed = manifests.parse_each(text for _, text in documents)
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
    new = None
    before = past[-1].manifest if past else ""
    try:
        new = helm.render(past)
        definitions = [text for _, text in _definitions(helm.chart)]
        regular = list(_split(new.manifest))
        texts = [text for _, text in regular]
        parsed = manifests.parse_each([*definitions, *texts, *new.hooks, before])
    except WerfError as error:
        if deploy.newest and "cannot unmarshal" in str(error):
            check_texts(sourced(new or helm.render(past)), helm.chart)
        raise
    standalone = parsed[: len(definitions)]
    *found, former = parsed[len(definitions) :]
    sources = [*(at for at, _ in regular), *new.paths]
    stored = [
        "\n---\n".join(_text(at, _shown(body, deploy, helm, stored=True)) for body in bodies)
        for at, bodies in zip(sources, found, strict=True)
    ]
    count = len(regular)
    return Rendered(
        new=new.with_texts("\n---\n".join(filter(None, stored[:count])), stored[count:]),
        objects=[body for bodies in found for body in bodies],
        standalone=[body for bodies in standalone for body in bodies],
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


def check_texts(text: str, chart: Path) -> None:
    """Refuse annotations and labels that are no texts, as werf 3 does; werf 2 leaves them out.

    Only values in a line with their keys are found.

    Raises:
        WerfError: the first of them.
    """
    for source, manifest in _split(text):
        for member, inside in _MEMBERS.findall(manifest):
            if found := _NO_TEXT.search(inside):
                key, value = found[1] or found[2], found[3]
                kind = "bool" if value in ("true", "false") else "int64"
                kind = "float64" if "." in value else kind
                fault = f'contains non-string value in the map under key "{key}"'
                decoded = f'"{source}": decode resource (file: "{source}")'
                raise WerfError(
                    f"render chart: {converting(chart)}: construct resource spec for {decoded}: "
                    f".metadata.{member} accessor error: {fault}: {value} is of the type {kind}, "
                    "expected string"
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
