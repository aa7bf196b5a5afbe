"""What is known of a bundle's chart, judged from its packed layer. Pure.

`judge_layer` runs in the limited child process: time and memory of a hostile chart end there. The
chart with its subcharts is unpacked in memory within limits that hold while that is done, by a
reader of its own instead of ``tarfile``: that one ends silently at a header that it can't parse,
where Go's reads on or fails, so a chart could have files for werf that weren't judged. Here
whatever is unusual makes the whole archive unreadable.
Source: POSIX.1-2017 pax (ustar and extended headers); Helm's ``LoadArchiveFiles``.

Keys of a YAML mapping that become equal text make a chart draw: werf turns YAML into JSON by
sigs.k8s.io/yaml, which goes over a Go map: of ``1: a`` and ``"1": b`` (or ``1.0``, ``true`` and
``"true"``) either may remain, another one in each run.
"""

from __future__ import annotations

import posixpath
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from copyrator.bundles.chart.flow import MAX_REASONS, ChartFindings, follow
from copyrator.bundles.chart.parser import ParsedTemplate, TemplateSyntaxError, parse
from copyrator.settings.limits import CHART_LAYER_BYTES, CHART_WORDS

CHART_UNPACKED_BYTES: Final = 32 * 1024 * 1024  # limit: charts of bundles
"""Bytes of a chart that are unpacked, those of the archives in its ``charts/`` included."""

CHART_FILES: Final = 5_000  # limit: charts of bundles
"""Files of a chart, those of its subcharts included."""

CHART_METADATA_BYTES: Final = 64 * 1024  # limit: charts of bundles
"""Bytes of each Chart.yaml, Chart.lock, requirements.yaml and requirements.lock."""

_BLOCK: Final = 512
_ZERO: Final = bytes(_BLOCK)
_CHUNK: Final = 256 * 1024
_MEMBERS: Final = 16
"""Gzip members in a row: Go's reader joins them."""
_OCTAL: Final = re.compile(rb"[ \0]*([0-7]*)[ \0]*")
_NAME: Final = re.compile(r"[^\x00-\x1f\x7f\\]+")
_PAX_IGNORED: Final = re.compile(
    r"(?:[amc]time|[ug]id|[ug]name|comment|(?:SCHILY|LIBARCHIVE)\..+)", re.ASCII
)
_USTAR: Final = b"ustar\x0000"
_GNU: Final = b"ustar  \x00"


class UnreadableError(Exception):
    """Why a layer can't be judged; the message quotes nothing of its contents."""


@dataclass(slots=True)
class Budget:
    """What may still be unpacked, of the layer and of the archives in it together."""

    size: int = CHART_UNPACKED_BYTES
    files: int = CHART_FILES

    def take_bytes(self, size: int) -> None:
        """Use some of the bytes.

        Raises:
            UnreadableError: there aren't as many left.
        """
        self.size -= size
        if self.size < 0:
            raise UnreadableError(f"unpacked it has more than {CHART_UNPACKED_BYTES // 2**20} MiB")

    def take_file(self) -> None:
        """Use one of the files.

        Raises:
            UnreadableError: none is left.
        """
        self.files -= 1
        if self.files < 0:
            raise UnreadableError(f"it has more than {CHART_FILES} files")


def unpack(packed: bytes, budget: Budget) -> dict[str, bytes]:
    """The files of a packed chart by their path below its one top directory.

    Raises:
        UnreadableError: it exceeds a limit, or isn't an archive of plain files.
    """
    if len(packed) > CHART_LAYER_BYTES:
        raise UnreadableError(f"it has more than {CHART_LAYER_BYTES // 2**20} MiB")
    files: dict[str, bytes] = {}
    top: str | None = None
    for name, content in _entries(_gunzip(packed, budget), budget):
        parts = name.split("/")
        if len(parts) < 2 or any(part in ("", ".", "..") for part in parts):
            raise UnreadableError("a file in it has a path outside of the chart's directory")
        if top not in (None, parts[0]):
            raise UnreadableError("it has more than one top directory")
        top, path = parts[0], "/".join(parts[1:])
        if path in files:
            raise UnreadableError("it has two files of one path")
        files[path] = content.removeprefix(b"\xef\xbb\xbf")
    if not files:
        raise UnreadableError("it has no files")
    return files


def _gunzip(packed: bytes, budget: Budget) -> bytes:
    unpacked = bytearray()
    rest, members = packed, 0
    while rest:
        members += 1
        if members > _MEMBERS:
            raise UnreadableError("it is packed in too many parts")
        inflater = zlib.decompressobj(wbits=31)
        try:
            while not inflater.eof:
                part = inflater.decompress(rest, _CHUNK)
                rest = inflater.unconsumed_tail
                budget.take_bytes(len(part))
                unpacked += part
                if not part and not rest and not inflater.eof:
                    raise UnreadableError("it is cut off")
        except zlib.error:
            raise UnreadableError("it isn't packed with gzip") from None
        rest = inflater.unused_data
    return bytes(unpacked)


def _entries(data: bytes, budget: Budget) -> list[tuple[str, bytes]]:
    """The regular files of a tar archive, in its order."""
    found: list[tuple[str, bytes]] = []
    at, long_name = 0, None
    while True:
        header = data[at : at + _BLOCK]
        if header == _ZERO:
            break
        name, kind, size = _header(header)
        at += _BLOCK
        content = data[at : at + size]
        if len(content) != size:
            raise UnreadableError("a file in it is cut off")
        at += -(-size // _BLOCK) * _BLOCK
        if kind in (b"x", b"L"):
            if long_name is not None:
                raise UnreadableError("a file in it has two names")
            long_name = _pax_path(content) if kind == b"x" else _text(content.rstrip(b"\0"))
            long_name = long_name or None
            continue
        if kind == b"g":
            if _pax_path(content):
                raise UnreadableError("it gives all files one name")
            continue
        name, long_name = long_name or name, None
        if _is_file(name, kind):
            budget.take_file()
            found.append((name, content))
    if len(data) - at < 2 * _BLOCK or data.count(0, at) != len(data) - at:
        raise UnreadableError("it goes on after its end")
    return found


def _is_file(name: str, kind: bytes) -> bool:
    """Whether it is a file; False for a directory."""
    if kind not in (b"0", b"\0", b"5"):
        raise UnreadableError("it has a link, a device or another thing that isn't a file")
    if kind != b"5" and _NAME.fullmatch(name) is None:
        raise UnreadableError("a file in it has a name with control characters")
    return kind != b"5"


def _header(header: bytes) -> tuple[str, bytes, int]:
    """Name, type and size of an entry."""
    magic = header[257:265]
    blanked = header[:148] + b" " * 8 + header[156:]
    if len(header) != _BLOCK or magic not in (_USTAR, _GNU):
        raise UnreadableError("it isn't a tar archive")
    if _octal(header[148:156]) != sum(blanked):
        raise UnreadableError("a header in it is damaged")
    name = _text(header[:100].split(b"\0", 1)[0])
    prefix = header[345:500]
    if magic == _GNU and any(prefix):
        raise UnreadableError("a header in it is of an unknown form")
    if start := _text(prefix.split(b"\0", 1)[0]):
        name = f"{start}/{name}"
    return name, header[156:157], _octal(header[124:136])


def _octal(field: bytes) -> int:
    found = _OCTAL.fullmatch(field)
    if found is None:
        raise UnreadableError("a header in it has no number where one belongs")
    return int(found[1] or b"0", 8)


def _pax_path(content: bytes) -> str:
    """The path of an extended header; empty where it has none."""
    path = ""
    while content:
        digits, blank, rest = content.partition(b" ")
        if not blank or not re.fullmatch(rb"[1-9][0-9]{0,6}", digits):
            raise UnreadableError("an extended header in it is damaged")
        length = int(digits) - len(digits) - 1
        record, content = rest[:length], rest[length:]
        key, equals, value = record[:-1].partition(b"=")
        if not equals or len(record) != length or not record.endswith(b"\n"):
            raise UnreadableError("an extended header in it is damaged")
        if key == b"path":
            path = _text(value)
        elif _PAX_IGNORED.fullmatch(_text(key)) is None:
            raise UnreadableError("an extended header in it has an unknown field")
    return path


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise UnreadableError("a file in it has a name that isn't UTF-8") from None


_CHART_DEPTH: Final = 8
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
    if depth > _CHART_DEPTH:
        raise UnreadableError(f"it has more than {_CHART_DEPTH} charts in one another")
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
    chart.name, chart.version = (_decode_text(metadata, key) for key in ("name", "version"))
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
            texts = (_decode_text(one, key) for key in ("name", "version", "alias", "repository"))
            yield Dependency(*texts)


def _decode_text(metadata: Mapping[str, Any], key: str) -> str:
    value = metadata.get(key)
    return value if isinstance(value, str) else ""


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
