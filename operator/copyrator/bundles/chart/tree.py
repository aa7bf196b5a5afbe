"""A chart with its subcharts, from the files of its archive. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from copyrator.bundles.chart.archive import Budget, UnreadableError, unpack
from copyrator.settings.limits import CHART_METADATA_BYTES

_DEPTH: Final = 8
"""Charts in one another."""
_CHARACTERS: Final = 80
"""Of a name or version in a message."""


@dataclass(frozen=True, slots=True)
class Dependency:
    """An entry of ``dependencies`` in Chart.yaml or Chart.lock."""

    name: str
    version: str
    alias: str
    repository: str

    def __str__(self) -> str:
        return shorten_text(f"{self.name} {self.version}".strip() or "one without a name")


@dataclass(slots=True)
class Chart:
    """A chart: its own files by path, and the charts in its ``charts/``."""

    path: str
    """Of its directory or archive, below that of the outermost; that one's is empty."""
    files: dict[str, bytes] = field(default_factory=dict)
    charts: list[Chart] = field(default_factory=list)
    name: str = ""
    version: str = ""
    dependencies: tuple[Dependency, ...] = ()
    locked: tuple[Dependency, ...] = ()

    def all(self) -> Iterator[Chart]:
        """The chart and all below it."""
        yield self
        for chart in self.charts:
            yield from chart.all()

    def path_of(self, path: str) -> str:
        """The path of a file for a message, from the outermost chart on."""
        return shorten_text(f"{self.path}/{path}" if self.path else path)

    def has_namesakes(self, start: str) -> bool:
        """Whether two of its files whose paths begin so have one name."""
        names = [posixpath.basename(path) for path in self.files if path.startswith(start)]
        return len(names) != len(set(names))


def shorten_text(text: str) -> str:
    """A text of the chart as a message may have it: printable and short."""
    printable = "".join(one if one.isprintable() else "?" for one in text[: _CHARACTERS + 1])
    return printable if len(printable) <= _CHARACTERS else f"{printable[:_CHARACTERS]}…"


def read_chart(packed: bytes, budget: Budget) -> Chart:
    """The chart of a packed layer.

    Raises:
        UnreadableError: it exceeds a limit, or isn't a chart.
    """
    return _chart("", unpack(packed, budget), budget, 1)


def _chart(path: str, files: Mapping[str, bytes], budget: Budget, depth: int) -> Chart:
    if depth > _DEPTH:
        raise UnreadableError(f"it has more than {_DEPTH} charts in one another")
    chart = Chart(path)
    below: dict[str, dict[str, bytes]] = {}
    for name, content in files.items():
        first, slash, rest = name.partition("/")
        if first != "charts" or not slash or rest.endswith(".prov"):
            chart.files[name] = content
            continue
        directory, slash, inner = rest.partition("/")
        if directory[0] not in "_.":
            below.setdefault(directory, {})[inner] = content
    _read_metadata(chart)
    for name, inside in below.items():
        here = f"{path}/charts/{name}".lstrip("/")
        if name.endswith(".tgz"):
            if set(inside) != {""}:
                raise UnreadableError("a directory in its charts/ is named as an archive")
            chart.charts.append(_chart(here, unpack(inside[""], budget), budget, depth + 1))
        elif set(inside) != {""}:
            chart.charts.append(_chart(here, inside, budget, depth + 1))
    return chart


def _read_metadata(chart: Chart) -> None:
    metadata = _mapping(chart, "Chart.yaml")
    chart.name, chart.version = (_text(metadata, key) for key in ("name", "version"))
    chart.dependencies = (
        *_dependencies(metadata),
        *_dependencies(_mapping(chart, "requirements.yaml")),
    )
    chart.locked = (
        *_dependencies(_mapping(chart, "Chart.lock")),
        *_dependencies(_mapping(chart, "requirements.lock")),
    )


def _mapping(chart: Chart, name: str) -> Mapping[str, Any]:
    content = chart.files.get(name, b"")
    if len(content) > CHART_METADATA_BYTES:
        raise UnreadableError(f"its {name} has more than {CHART_METADATA_BYTES // 1024} KiB")
    try:
        # Values stay text, and aliases are shared, so that nothing grows.
        found = yaml.load(content, yaml.BaseLoader)  # noqa: S506 - makes no objects
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError):
        raise UnreadableError(f"a {name} in it isn't YAML") from None
    if found not in (None, "") and not isinstance(found, dict):
        raise UnreadableError(f"a {name} in it isn't a mapping")
    return found or {}


def _dependencies(metadata: Mapping[str, Any]) -> Iterator[Dependency]:
    found = metadata.get("dependencies")
    for one in found if isinstance(found, list) else ():
        if isinstance(one, dict):
            texts = (_text(one, key) for key in ("name", "version", "alias", "repository"))
            yield Dependency(*texts)


def _text(metadata: Mapping[str, Any], key: str) -> str:
    value = metadata.get(key)
    return value if isinstance(value, str) else ""
