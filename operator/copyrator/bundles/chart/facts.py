"""What is known of a bundle's chart, judged from its packed layer. Pure.

`judge_layer` runs in the limited child process: time and memory of a hostile chart end there.

Keys of a YAML mapping that become equal text make a chart draw: werf turns YAML into JSON by
sigs.k8s.io/yaml, which goes over a Go map: of ``1: a`` and ``"1": b`` (or ``1.0``, ``true`` and
``"true"``) either may remain, another one in each run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import yaml

from copyrator.bundles.chart.archive import Budget, Chart, UnreadableError, read_chart, shorten_text
from copyrator.bundles.chart.flow import MAX_REASONS, ChartFindings, follow
from copyrator.bundles.chart.parser import ParsedTemplate, TemplateSyntaxError, parse
from copyrator.settings.limits import CHART_WORDS

CHART_TEMPLATES_BYTES: Final = 2 * 1024 * 1024  # limit: charts of bundles
"""Bytes of all templates that are parsed. With more its plans are unbound."""

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEPTH: Final = 100
_BOOLEANS: Final = {
    **dict.fromkeys(("y", "yes", "on", "true"), "true"),
    **dict.fromkeys(("n", "no", "off", "false"), "false"),
}
_KEY: Final = re.compile(
    r"""(?:^|[{,?]|-[ ])[ \t]*(?P<quote>["']?)(?P<text>[-+.\w]+)(?P=quote)[ \t]*:(?=\s|$)""",
    re.MULTILINE,
)

Key = tuple[int, str, bool]
"""Line, text, and whether it is plain (without quotes)."""


def find_collision(keys: Iterable[Key]) -> tuple[int, str] | None:
    """The line and text of the first key that becomes equal to another; None where none does.

    They count wherever they stand in the file, since merge keys and templates move them.
    """
    spelled: dict[str, set[tuple[str, bool]]] = {}
    for line, text, is_plain in keys:
        forms = _forms(text) if is_plain else {text}
        for form in forms or {text}:
            known = spelled.setdefault(form, set())
            known.add((text, bool(forms) and is_plain))
            if len(known) > 1 and any(is_converted for _, is_converted in known):
                return line, text
    return None


def _forms(text: str) -> set[str]:
    """What a plain key that isn't text becomes; empty for text."""
    short = text.replace("_", "").lower()
    if short in _BOOLEANS:
        return {_BOOLEANS[short]}
    found: set[str] = set()
    if len(short) > 40:
        return found
    for base in (0, 8, 10):
        with suppress(ValueError):
            found.add(str(int(short, base)))
    with suppress(ValueError, OverflowError):
        number = float(short)
        found.add(str(int(number)) if number == int(number) else repr(number))
    return found


class KeysError(Exception):
    """The keys of a YAML file can't be compared."""


def keys_of(content: bytes) -> Iterator[Key]:
    """All scalar keys of a YAML file.

    Raises:
        KeysError: it isn't YAML, or is nested too deeply.
    """
    stack: list[list[bool]] = []  # of each open collection: is it a mapping, is a key next
    try:
        for event in yaml.parse(content, Loader=_LOADER):
            if len(stack) > _DEPTH:
                raise KeysError("is nested too deeply")
            if isinstance(event, yaml.CollectionEndEvent):
                stack.pop()
                continue
            if not isinstance(event, yaml.NodeEvent):
                continue
            is_key = bool(stack) and all(stack[-1])
            if stack and stack[-1][0]:
                stack[-1][1] = not stack[-1][1]
            if isinstance(event, yaml.CollectionStartEvent):
                is_mapping = isinstance(event, yaml.MappingStartEvent)
                stack.append([is_mapping, is_mapping])
            elif is_key and isinstance(event, yaml.ScalarEvent):
                is_plain = bool(event.implicit[0]) or event.tag is not None
                line = event.start_mark.line + 1 if event.start_mark else 0
                yield line, event.value, is_plain
    except (yaml.YAMLError, UnicodeDecodeError, ValueError):
        raise KeysError("isn't YAML") from None


def keys_in_text(text: str) -> Iterator[Key]:
    """What looks like a key in the text of a template: those that actions write aren't seen."""
    line, counted = 1, 0
    for found in _KEY.finditer(text):
        line, counted = line + text.count("\n", counted, found.start("text")), found.start("text")
        yield line, found["text"], not found["quote"]


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
    templates: list[tuple[str, ParsedTemplate]] = []
    size = words = 0
    for one, path, content in _files(chart, "templates/"):
        size += len(content)
        if size > CHART_TEMPLATES_BYTES or words > CHART_WORDS:
            break
        try:
            template = parse(content.decode(errors="replace"))
        except TemplateSyntaxError as error:
            unbound.append(f"{one.path_of(path)}:{error.line}: can't be parsed: {error}")
            continue
        words += template.size
        templates.append((one.path_of(path), template))
    if size > CHART_TEMPLATES_BYTES:
        found = ChartFindings(
            [f"its templates have more than {CHART_TEMPLATES_BYTES // 2**20} MiB"]
        )
    elif words > CHART_WORDS:
        found = ChartFindings([f"the actions of its templates have more than {CHART_WORDS} words"])
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
                yield f"{where}: of two {what} named {shorten_text(twice[0])} one is drawn"
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
            found = find_collision(keys)
        except KeysError as error:
            yield f"{one.path_of(path)}: {error}"
            continue
        if found is not None:
            line, text = found
            what = f"of the key {shorten_text(text)} and an equal one, one is drawn"
            yield f"{one.path_of(path)}:{line}: {what}"


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
