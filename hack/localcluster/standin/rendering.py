"""`bundle render`: a chart's manifests as werf prints them, parsed and written anew."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
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

    Raises:
        WerfError: the chart can't be rendered.
    """
    text = sourced(helm, past)
    if deploy.newest:
        check_texts(text, helm.chart)
    _, *rest = _SOURCE.split(text)
    documents = [*_definitions(helm.chart), *zip(rest[::2], rest[1::2], strict=True)]
    found = list(_parse(documents))
    added = {"annotations": deploy.annotations, "labels": deploy.labels}
    if deploy.newest:
        version = {VERSION: deploy.version}
        added = {**helm.added, "annotations": {**helm.added["annotations"], **version}}
    for _, body in found:
        for member, more in added.items():
            body["metadata"][member] = {**(body["metadata"].get(member) or {}), **more}
    found.sort(key=partial(_place, newest=deploy.newest))
    return [
        (_name(body, deploy), f"---\n# Source: {at}\n{manifests.dump(body)}") for at, body in found
    ]


def _name(body: Object, deploy: Deploy) -> str:
    return manifests.titled(next(iter(manifests.keyed([body], deploy.namespace))))


def sourced(helm: Helm, past: list[Release] | None) -> str:
    """What helm renders, each manifest after its source.

    Raises:
        WerfError: the chart can't be rendered.
    """
    if past is None:
        return helm.template()
    new = helm.render(past, extra=False)
    hooks = zip(new.paths, new.hooks, strict=True)
    return "\n".join([new.manifest, *(f"---\n# Source: {path}\n{hook}\n" for path, hook in hooks)])


def check_texts(text: str, chart: Path) -> None:
    """Refuse annotations and labels that are no texts, as werf 3 does; werf 2 leaves them out.

    Only values in a line with their keys are found.

    Raises:
        WerfError: the first of them.
    """
    _, *rest = _SOURCE.split(text)
    for source, manifest in zip(rest[::2], rest[1::2], strict=True):
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


def _parse(documents: list[tuple[str, str]]) -> Iterator[Sourced]:
    """Parse all in one go: before each document a mark, by which its objects are told apart."""
    mark = "standin-source"
    texts = []
    for number, (_, text) in enumerate(documents):
        name = {"name": f"{mark}-{number}"}
        texts.append(json.dumps({"apiVersion": mark, "kind": mark, "metadata": name}))
        texts.append(text)
    number = -1
    for body in manifests.parse("\n---\n".join(texts)):
        if body["kind"] == mark:
            number += 1
        else:
            yield documents[number][0], body
