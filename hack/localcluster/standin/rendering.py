"""`bundle render`: a chart's manifests as werf prints them, parsed and written anew."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from . import manifests
from .manifests import HOOK, VERSION, Object
from .release import Helm, Release
from .settings import Deploy

Sourced = tuple[str, Object]
"""An object and the file of the chart that it came from, as helm names that."""
_SOURCE = re.compile(r"^---\n# Source: (.*)\n", re.MULTILINE)
_DEFINITIONS = (".yaml", ".yml", ".json")


def render(deploy: Deploy, helm: Helm, past: list[Release] | None) -> str:
    """The whole text.

    What werf itself and the bundle add to objects, only werf 3 prints; variables' labels and
    annotations both.

    Args:
        deploy: what was asked for.
        helm: renders.
        past: the releases before; None for a render that asks no cluster.

    Raises:
        WerfError: the chart can't be rendered.
    """
    if past is None:
        text = helm.template()
    else:
        new = helm.render(past, extra=False)
        hooks = zip(new.paths, new.hooks, strict=True)
        sourced = (f"---\n# Source: {path}\n{hook}\n" for path, hook in hooks)
        text = "\n".join([new.manifest, *sourced])
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
    found.sort(key=partial(_place, hooks_first=not deploy.newest))
    return "".join(f"---\n# Source: {source}\n{manifests.dump(body)}" for source, body in found)


def _place(sourced: Sourced, *, hooks_first: bool) -> tuple[object, ...]:
    """By kind and name; with hooks first as 2.67 prints them."""
    body = sourced[1]
    metadata = body["metadata"]
    where = (body["kind"], metadata["name"], metadata.get("namespace", ""))
    return (hooks_first and HOOK not in metadata["annotations"], *where)


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
