"""A bundle's chart, unpacked from its packed layer in memory. Pure.

Limits hold while it is unpacked, by a reader of its own instead of ``tarfile``: that one ends
silently at a header that it can't parse, where Go's reads on or fails, so a chart could have files
for werf that weren't judged. Here whatever is unusual makes the whole archive unreadable.
Source: POSIX.1-2017 pax (ustar and extended headers); Helm's ``LoadArchiveFiles``.
"""

from __future__ import annotations

import posixpath
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from copyrator.bundles.features.charts.yaml_nodes import YamlError, YamlNode, read_yaml

CHART_LAYER_BYTES: Final = 8 * 1024 * 1024
"""Bytes of a packed chart: the bundle's one layer, and each archive in its ``charts/``. With more
the chart can't be judged: it isn't plain, its plans are unbound, and the Job's script decides
whether dependencies are vendored; so with CHART_UNPACKED_BYTES, CHART_JUDGED_BYTES and CHART_FILES.
The largest of 44 public charts has 1 MiB, 12 MiB unpacked."""

CHART_UNPACKED_BYTES: Final = 100 * 1024 * 1024
"""Bytes of an unpacked chart, those of the archives in its ``charts/`` included: Helm's limit."""

CHART_JUDGED_BYTES: Final = 32 * 1024 * 1024
"""Bytes of what of a chart is judged: templates, CRDs, archives in its ``charts/`` and files beside
Chart.yaml. The others are left out while it is unpacked."""

CHART_FILES: Final = 5_000
"""Files of a chart, those of its subcharts included."""

CHART_METADATA_BYTES: Final = 64 * 1024
"""Bytes of each Chart.yaml, Chart.lock, requirements.yaml and requirements.lock."""

_BLOCK: Final = 512
_ZERO: Final = bytes(_BLOCK)
_CHUNK: Final = 256 * 1024
_HEADER_BYTES: Final = 2**20
"""Of an extended header, as of Go's reader."""
_JUDGED: Final = re.compile(r"(?:charts/[^/]+/)*(?:(?:templates|crds)/.+|charts/[^/]+|[^/]+)")
_MEMBERS: Final = 16
"""Gzip members in a row: Go's reader joins them."""
_OCTAL: Final = re.compile(rb"[ \0]*([0-7]*)[ \0]*")
_NAME: Final = re.compile(r"[^\x00-\x1f\x7f\\]+")
_PAX_IGNORED: Final = re.compile(
    r"(?:[amc]time|[ug]id|[ug]name|comment|(?:SCHILY|LIBARCHIVE)\..+)", re.ASCII
)
_MODES: Final = {b"5": (0, 0o040000), b"0": (0, 0o100000), b"\0": (0, 0o100000)}
"""Of each type what a header's mode may say of it, as Go's reader believes the mode."""
_USTAR: Final = b"ustar\x0000"
_GNU: Final = b"ustar  \x00"
_STAR: Final = b"tar\0"
"""The end of a header whose name has another length."""


class UnreadableError(Exception):
    """Why a layer can't be judged; the message quotes nothing of its contents."""


@dataclass(slots=True)
class Budget:
    """What may still be unpacked, of the layer and of the archives in it together."""

    size: int = CHART_UNPACKED_BYTES
    judged: int = CHART_JUDGED_BYTES
    files: int = CHART_FILES

    def take(self, *, size: int = 0, judged: int = 0, files: int = 0) -> None:
        """Use some of the bytes, of those that are kept, and of the files.

        Raises:
            UnreadableError: there aren't as many left.
        """
        self.size -= size
        self.judged -= judged
        self.files -= files
        if self.size < 0:
            raise UnreadableError(f"unpacked it has more than {CHART_UNPACKED_BYTES // 2**20} MiB")
        if self.judged < 0:
            limit = CHART_JUDGED_BYTES // 2**20
            raise UnreadableError(f"its templates, CRDs and subcharts have more than {limit} MiB")
        if self.files < 0:
            raise UnreadableError(f"it has more than {CHART_FILES} files")


def unpack(packed: bytes, budget: Budget) -> dict[str, bytes]:
    """The files of a packed chart by their path below its one top directory.

    Those that nothing judges are empty.

    Raises:
        UnreadableError: it exceeds a limit, or isn't an archive of plain files.
    """
    if len(packed) > CHART_LAYER_BYTES:
        raise UnreadableError(f"it has more than {CHART_LAYER_BYTES // 2**20} MiB")
    files: dict[str, bytes] = {}
    top: str | None = None
    stream = _Stream(_gunzip(packed, budget))
    while (entry := _next_entry(stream)) is not None:
        name, kind, size = entry
        content = b""
        if _is_file(name, kind):
            budget.take(files=1)
            parts = name.split("/")
            if len(parts) < 2 or any(part in ("", ".", "..") for part in parts):
                shown = shorten_text(name)
                raise UnreadableError(f"{shown} in it is outside of the chart's directory")
            if top not in (None, parts[0]):
                raise UnreadableError("it has more than one top directory")
            top, path = parts[0], "/".join(parts[1:])
            if path in files:
                raise UnreadableError(f"it has two files {shorten_text(path)}")
            if _JUDGED.fullmatch(path):
                budget.take(judged=size)
                content, size = stream.read(size), 0
            files[path] = content.removeprefix(b"\xef\xbb\xbf")
        stream.skip(size + -(size + len(content)) % _BLOCK)
    if not files:
        raise UnreadableError("it has no files")
    return files


class _Stream:
    """Bytes that come in parts."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self._part = b""
        self._at = 0

    def _next(self, size: int) -> bytes:
        """At most so many bytes; empty at the end."""
        if self._at == len(self._part):
            self._part, self._at = next(self._parts, b""), 0
        found = self._part[self._at : self._at + size]
        self._at += len(found)
        return found

    def take(self, size: int) -> Iterator[bytes]:
        """So many bytes.

        Raises:
            UnreadableError: there are fewer.
        """
        while size:
            part = self._next(size)
            if not part:
                raise UnreadableError("it is cut off")
            size -= len(part)
            yield part

    def read(self, size: int) -> bytes:
        """As ``take``, in one piece."""
        return b"".join(self.take(size))

    def skip(self, size: int) -> None:
        """Leave out so many bytes; raises as ``take``."""
        for _ in self.take(size):
            pass

    def count_zeros(self) -> int | None:
        """How many bytes are left; None where one of them isn't zero."""
        count = 0
        while part := self._next(_CHUNK):
            if part.count(0) != len(part):
                return None
            count += len(part)
        return count


def _gunzip(packed: bytes, budget: Budget) -> Iterator[bytes]:
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
                budget.take(size=len(part))
                if part:
                    yield part
                elif not rest and not inflater.eof:
                    raise UnreadableError("it is cut off")
        except zlib.error:
            raise UnreadableError("it isn't packed with gzip") from None
        rest = inflater.unused_data


def _next_entry(stream: _Stream) -> tuple[str, bytes, int] | None:
    """Name, type and size of the next entry of a tar archive; None at its end."""
    long_name = None
    while (header := stream.read(_BLOCK)) != _ZERO:
        name, kind, size = _header(header)
        if kind not in (b"x", b"L", b"g"):
            return long_name or name, kind, size
        if size > _HEADER_BYTES:
            raise UnreadableError("an extended header in it is too long")
        content = stream.read(size)
        stream.skip(-size % _BLOCK)
        if kind == b"g":
            if _pax_path(content):
                raise UnreadableError("it gives all files one name")
            continue
        if long_name is not None:
            raise UnreadableError("a file in it has two names")
        long_name = _pax_path(content) if kind == b"x" else _text(content.rstrip(b"\0"))
        long_name = long_name or None
    zeros = stream.count_zeros()
    if zeros is None or zeros < _BLOCK:
        raise UnreadableError("it goes on after its end")
    return None


def _is_file(name: str, kind: bytes) -> bool:
    """Whether it is a file; False for a directory."""
    if kind not in (b"0", b"\0", b"5"):
        raise UnreadableError(f"{shorten_text(name)} in it is a link, a device or the like")
    if kind != b"5" and _NAME.fullmatch(name) is None:
        shown = shorten_text(name)
        raise UnreadableError(f"{shown} in it has control characters or backslashes in its name")
    return kind != b"5"


def _header(header: bytes) -> tuple[str, bytes, int]:
    """Name, type and size of an entry."""
    magic = header[257:265]
    blanked = header[:148] + b" " * 8 + header[156:]
    if len(header) != _BLOCK or magic not in (_USTAR, _GNU):
        raise UnreadableError("it isn't a tar archive")
    if _octal(header[148:156]) != sum(blanked):
        raise UnreadableError("a header in it is damaged")
    kind, mode, size = header[156:157], _octal(header[100:108]), _octal(header[124:136])
    if mode & ~0o7777 not in _MODES.get(kind, (mode & ~0o7777,)) or (kind == b"5" and size):
        raise UnreadableError("a header in it contradicts itself")
    name = _text(header[:100].split(b"\0", 1)[0])
    prefix = header[345:500]
    if (magic == _GNU and any(prefix)) or header[508:] == _STAR:
        raise UnreadableError("a header in it is of an unknown form")
    if start := _text(prefix.split(b"\0", 1)[0]):
        name = f"{start}/{name}"
    return name, kind, size


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


METADATA: Final = ("Chart.yaml", "requirements.yaml", "Chart.lock", "requirements.lock")
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
    metadata: dict[str, list[YamlNode] | YamlError] = field(default_factory=dict)
    """The documents of each file of METADATA that it has, or why it can't be read."""
    name: str = ""
    version: str = ""
    dependencies: tuple[Dependency, ...] = ()
    locked: tuple[Dependency, ...] = ()

    def all(self) -> Iterator[Chart]:
        """The chart and all below it."""
        yield self
        for chart in self.charts:
            yield from chart.all()

    def node(self, name: str) -> YamlNode | None:
        """The first document of a file of METADATA; None where it can't be read."""
        found = self.metadata.get(name)
        return found[0] if isinstance(found, list) and found else None

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
                raise UnreadableError(f"{chart.path_of(f'charts/{name}')} is a directory")
            try:
                unpacked = unpack(inside[""], budget)
            except UnreadableError as error:
                raise UnreadableError(f"of {shorten_text(here)}: {error}") from None
            chart.charts.append(_chart(here, unpacked, budget, depth + 1))
        elif set(inside) != {""}:
            chart.charts.append(_chart(here, inside, budget, depth + 1))
    return chart


def _read_metadata(chart: Chart) -> None:
    for name in METADATA:
        if (content := chart.files.get(name)) is None:
            continue
        try:
            if len(content) > CHART_METADATA_BYTES:
                raise YamlError(1, f"has more than {CHART_METADATA_BYTES // 1024} KiB")
            chart.metadata[name] = read_yaml(content)
        except YamlError as error:
            chart.metadata[name] = error
    about = chart.node("Chart.yaml")
    chart.name, chart.version = (_text_of(about, key) for key in ("name", "version"))
    chart.dependencies, chart.locked = (
        tuple(
            Dependency(*(_text_of(one, key) for key in ("name", "version", "alias", "repository")))
            for name in names
            for one in elements(chart.node(name), "dependencies")
            if one.is_mapping
        )
        for names in (("Chart.yaml", "requirements.yaml"), ("Chart.lock", "requirements.lock"))
    )


def elements(node: YamlNode | None, key: str) -> list[YamlNode]:
    """The elements of the list under a key; empty where there is none."""
    found = node.value(key) if node else None
    return found.children if found and not found.is_mapping else []


def _text_of(node: YamlNode | None, key: str) -> str:
    found = node.value(key) if node else None
    return found.as_text if found else ""
