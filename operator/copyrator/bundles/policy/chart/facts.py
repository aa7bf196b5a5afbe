"""What is known of a bundle's chart, judged from its packed layer. Pure.

`judge_layer` runs in the limited child process: time and memory of a hostile chart end there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from copyrator.bundles.policy.chart.archive import Budget, UnreadableError
from copyrator.bundles.policy.chart.flow import MAX_REASONS, Findings, follow
from copyrator.bundles.policy.chart.lexer import TemplateError
from copyrator.bundles.policy.chart.parser import Template, parse
from copyrator.bundles.policy.chart.tree import Chart, read_chart, shown
from copyrator.bundles.policy.chart.yaml_keys import (
    Key,
    KeysError,
    colliding,
    keys_in_text,
    keys_of,
)
from copyrator.settings.limits import CHART_TEMPLATES_BYTES, CHART_WORDS

_VALUES: Final = ("Chart.yaml", "requirements.yaml", "values.yaml")
"""Files whose content templates see."""
_YAML_BYTES: Final = 4 * 1024 * 1024
"""Of all files whose keys are compared."""


@dataclass(frozen=True, slots=True)
class ChartFacts:
    """What a chart can do; all of it is empty where it can't be read."""

    unbound: tuple[str, ...] = ()
    """Why it may render something else another time, at most 20: template, line, function."""
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
    unbound = [*_drawn(chart)]
    templates: list[tuple[str, Template]] = []
    size = words = 0
    for one, path, content in _files(chart, "templates/"):
        size += len(content)
        if size > CHART_TEMPLATES_BYTES or words > CHART_WORDS:
            break
        try:
            template = parse(content.decode(errors="replace"))
        except TemplateError as error:
            unbound.append(f"{one.path_of(path)}:{error.line}: can't be parsed: {error}")
            continue
        words += template.size
        templates.append((one.path_of(path), template))
    if size > CHART_TEMPLATES_BYTES:
        found = Findings([f"its templates have more than {CHART_TEMPLATES_BYTES // 2**20} MiB"])
    elif words > CHART_WORDS:
        found = Findings([f"the actions of its templates have more than {CHART_WORDS} words"])
    else:
        found = follow(templates, lambda start: any(one.has_namesakes(start) for one in charts))
    return ChartFacts(
        unbound=tuple(dict.fromkeys((*unbound, *found.unbound)))[:MAX_REASONS],
        unvendored=tuple(dict.fromkeys(_missing(chart)))[:MAX_REASONS],
        literals=tuple(found.literals),
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
    for one in chart.all():
        charts = [below.name for below in one.charts]
        dependencies = [dependency.alias or dependency.name for dependency in one.dependencies]
        for what, names in (("charts", charts), ("dependencies", dependencies)):
            if twice := [name for name, count in Counter(names).items() if count > 1]:
                where = one.path_of("charts")
                yield f"{where}: of two {what} named {shown(twice[0])} one is drawn"
    yield from _drawn_keys(chart)


def _drawn_keys(chart: Chart) -> Iterator[str]:
    size = 0
    for one, path, content in _files(chart, ""):
        if path in _VALUES or path.startswith("crds/"):
            keys: Iterator[Key] = keys_of(content)
        elif path.startswith("templates/"):
            keys = keys_in_text(content.decode(errors="replace"))
        else:
            continue
        size += len(content)
        if size > _YAML_BYTES:
            yield f"its YAML files have more than {_YAML_BYTES // 2**20} MiB"
            return
        try:
            found = colliding(keys)
        except KeysError as error:
            yield f"{one.path_of(path)}: {error}"
            continue
        if found is not None:
            line, text = found
            what = f"of the key {shown(text)} and an equal one, one is drawn"
            yield f"{one.path_of(path)}:{line}: {what}"


def _missing(chart: Chart) -> Iterator[str]:
    """The dependencies that a chart names and its ``charts/`` lacks.

    Of the outermost chart werf compares the locked version, too, and downloads what differs
    (nelm, load_dependencies.go); charts in ``charts/`` are taken as they are.
    """
    for one in chart.all():
        where = f" of {shown(one.path)}" if one.path else ""
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
