"""What is known of a bundle's chart, judged from its packed layer. Pure.

`judge_layer` runs in the limited child process: time and memory of a hostile chart end there.

Keys of a YAML mapping that become equal text make a chart draw: werf turns YAML into JSON by
sigs.k8s.io/yaml, which goes over a Go map: of ``1: a`` and ``"1": b`` (or ``1.0``, ``true`` and
``"true"``) either may remain, another one in each run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from copyrator.bundles.features.charts.archive import (
    Budget,
    Chart,
    UnreadableError,
    read_chart,
    shorten_text,
)
from copyrator.bundles.features.charts.lexical import CHART_WORDS, TemplateLook
from copyrator.bundles.features.charts.plain import find_unplain
from copyrator.bundles.features.charts.yaml_nodes import (
    YamlError,
    YamlNode,
    find_equal,
    find_equal_keys,
    is_special,
    read_yaml,
)

CHART_TEMPLATES_BYTES: Final = 2 * 1024 * 1024
"""Bytes of all templates that are parsed. With more its plans are unbound."""

MAX_REASONS: Final = 20
_KEY: Final = re.compile(
    r"""(?:^|[{,?]|-[ ])[ \t]*(?P<quote>["']?)(?P<text>[-+.\w]+)(?P=quote)[ \t]*:(?=\s|$)""",
    re.MULTILINE,
)
_YAML_BYTES: Final = 4 * 1024 * 1024
"""Of all CRDs and templates whose keys are compared."""


@dataclass(frozen=True, slots=True)
class ChartFacts:
    """What a chart can do; all of it is empty where it can't be read."""

    unbound: tuple[str, ...] = ()
    """Why it may render something else another time, at most 20: template, line, function."""
    unplain: tuple[str, ...] = ()
    """Why it isn't plain, at most 20: file, line, key and what to do."""
    unvendored: tuple[str, ...] = ()
    """The dependencies that its ``charts/`` lacks, at most 20."""
    literals: tuple[str, ...] = ()
    """The literal texts of ``required`` and ``fail``: they aren't secret."""
    unreadable: str | None = None
    """Why it can't be judged, as the end of a sentence (``it has more than 4 MiB``)."""


def judge_layer(packed: bytes) -> ChartFacts:
    """Judge the packed chart of a bundle's layer."""
    try:
        chart = read_chart(packed, Budget())
    except UnreadableError as error:
        return ChartFacts(unreadable=str(error))
    charts = [*chart.all()]
    unplain = [*islice(find_unplain(chart), MAX_REASONS)]
    unbound = [*unplain, *_drawn(chart)]
    look = TemplateLook(lambda start: any(one.has_namesakes(start) for one in charts))
    size = 0
    for one, path, content in _files(chart, "templates/"):
        size += len(content)
        if size > CHART_TEMPLATES_BYTES:
            unbound.append(f"its templates have more than {CHART_TEMPLATES_BYTES // 2**20} MiB")
            break
        look.add(one.path_of(path), content.decode(errors="replace"))
        if look.size > CHART_WORDS:
            unbound.append(f"the actions of its templates have more than {CHART_WORDS} words")
            break
    return ChartFacts(
        unbound=tuple(dict.fromkeys((*unbound, *look.unbound)))[:MAX_REASONS],
        unplain=tuple(unplain),
        unvendored=tuple(dict.fromkeys(_missing(chart)))[:MAX_REASONS],
        literals=tuple(look.literals),
    )


def _files(chart: Chart, start: str) -> Iterator[tuple[Chart, str, bytes]]:
    for one in chart.all():
        for path, content in one.files.items():
            if path.startswith(start):
                yield one, path, content


def _drawn(chart: Chart) -> Iterator[str]:
    """What is drawn although no template asks for it."""
    for one, path, _ in _files(chart, "ts/"):
        yield f"{one.path_of(path)}: TypeScript may do anything"
        break
    size = 0
    for one, path, content in _files(chart, ""):
        if not path.startswith(("crds/", "templates/")):
            continue
        size += len(content)
        if size > _YAML_BYTES:
            yield f"its YAML files have more than {_YAML_BYTES // 2**20} MiB"
            return
        try:
            found = _equal_keys(path, content)
        except YamlError as error:
            yield f"{one.path_of(path)}:{error.line}: {error}"
            continue
        if found is not None:
            what = f"of the key {shorten_text(found.text or '')} and an equal one, one is drawn"
            yield f"{one.path_of(path)}:{found.line}: {what}"


def _equal_keys(path: str, content: bytes) -> YamlNode | None:
    """The first key that may become equal to another one; None where none does."""
    if path.startswith("crds/"):
        return next(filter(None, map(find_equal_keys, read_yaml(content))), None)
    # Keys that actions write aren't seen, and templates move the others: each text once.
    text, line, counted = content.decode(errors="replace"), 1, 0
    keys: dict[tuple[str, bool], YamlNode] = {}
    for found in _KEY.finditer(text):
        at = found.start("text")
        line, counted = line + text.count("\n", counted, at), at
        key = YamlNode(line, found["text"], is_plain=not found["quote"])
        if is_special(key):
            keys.setdefault((found["text"], key.is_plain), key)
    return find_equal(keys.values())


def _missing(chart: Chart) -> Iterator[str]:
    """The dependencies that a chart names and its ``charts/`` lacks.

    Of the outermost chart werf compares the locked version, too, and downloads what differs
    (nelm, load_dependencies.go); charts in ``charts/`` are taken as they are.
    """
    for one in chart.all():
        where = f" of {shorten_text(one.path)}" if one.path else ""
        names = {below.name for below in one.charts if below.name}
        versions = {(below.name, below.version) for below in one.charts}
        named: set[str] = set()
        for dependency in (*one.locked, *one.dependencies):
            if dependency.name not in named and not {dependency.name, dependency.alias} & names:
                named.add(dependency.name)
                yield f"{dependency}{where}"
        if one.path:
            continue
        for dependency in one.locked:
            is_local = not dependency.repository or dependency.repository.startswith("file://")
            is_there = (dependency.name, dependency.version) in versions
            if dependency.name in names and not is_local and not is_there:
                yield f"{dependency} (charts/ has another version)"
