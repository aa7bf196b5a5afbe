"""Whether a chart is plain: what it is made of reads the same for everybody. Pure.

A short list of what is allowed in a chart's metadata and values, by name. What isn't on it is
refused with file, line, key and cure, rather than foretold: Go's decoder ignores the case of keys,
keeps one of two equal keys by chance, and reads ``file://`` from the Job's own files
(docs/adr/0064).
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from copyrator.bundles.features.charts.archive import (
    CHART_METADATA_BYTES,
    METADATA,
    Chart,
    elements,
    shorten_text,
)
from copyrator.bundles.features.charts.yaml_nodes import (
    MERGE,
    YamlError,
    YamlNode,
    find_equal_keys,
    read_yaml,
)

VALUES_BYTES: Final = 4 * 1024 * 1024
"""Bytes of all values.yaml, secret-values.yaml and values.schema.json of a chart."""

IGNORE_RULES: Final = 200
"""Lines of a chart's .helmignore with a pattern."""

_LOCK: Final = frozenset(("dependencies", "digest", "generated"))
_KEYS: Final = {
    "Chart.yaml": frozenset(
        [
            "annotations",
            "apiVersion",
            "appVersion",
            "condition",
            "dependencies",
            "deprecated",
            "description",
            "engine",
            "home",
            "icon",
            "keywords",
            "kubeVersion",
            "maintainers",
            "name",
            "sources",
            "tags",
            "tillerVersion",
            "type",
            "version",
        ]
    ),
    "requirements.yaml": frozenset(("dependencies",)),
    "Chart.lock": _LOCK,
    "requirements.lock": _LOCK,
}
"""Helm's keys (chart.Metadata, chart.Lock), and two of Helm 2 that are ignored since."""
_OF_DEPENDENCIES: Final = frozenset(
    [
        "alias",
        "condition",
        "enabled",
        "export-values",
        "import-values",
        "name",
        "repository",
        "tags",
        "version",
    ]
)
_OF_MAINTAINERS: Final = frozenset(("email", "name", "url"))
_TEXTS: Final = ("alias", "name", "repository", "version")
_VALUES: Final = ("values.yaml", "secret-values.yaml")
_SCHEMA: Final = "values.schema.json"
_READ: Final = (*METADATA, *_VALUES, _SCHEMA)
_REPOSITORY: Final = re.compile(r"(?:(?:https?|oci)://.*)?")
_DRAFT: Final = re.compile(r"https?://json-schema\.org/[a-z0-9/-]*#?")
_ID: Final = re.compile(r"(?:https?://[\w.-]+(?::[0-9]+)?|urn:[\w:.-]+)?[\w./@+~-]*#?", re.ASCII)
"""Identifiers under which gojsonschema finds this document again: of ``http://a/b?`` or
``http://a/b#c`` it asks that host for what ``#/…`` names."""


def find_unplain(chart: Chart) -> Iterator[str]:
    """Why a chart isn't plain: each as ``FILE:LINE: what is wrong: what to do``."""
    size = 0
    for one in chart.all():
        for name in METADATA:
            if name in one.metadata:
                yield from _at(one, name, _metadata(name, one.metadata[name]))
        if elements(one.node("Chart.yaml"), "dependencies") and "requirements.yaml" in one.metadata:
            yield f"{one.path_of('requirements.yaml')}:1: Chart.yaml has dependencies: remove this"
        if {"Chart.lock", "requirements.lock"} <= one.metadata.keys():
            yield f"{one.path_of('requirements.lock')}:1: there is Chart.lock, too: remove this"
        yield from _namesakes(one)
        for name in (*_VALUES, _SCHEMA):
            content = one.files.get(name, b"")
            size += len(content)
            if size > VALUES_BYTES:
                limit = f"{VALUES_BYTES // 2**20} MiB"
                what = f"with it values and schemas have more than {limit}: shorten it"
                yield f"{one.path_of(name)}:1: {what}"
                return
            if content:
                found = _schema(content) if name == _SCHEMA else _values(content)
                yield from _at(one, name, found)
    yield from _at(chart, ".helmignore", _hidden(chart))


Fault = tuple[int, str]
"""A line, and what is wrong there."""


def _at(chart: Chart, name: str, faults: Iterable[Fault]) -> Iterator[str]:
    for line, what in faults:
        yield f"{chart.path_of(name)}:{line}: {what}"


def _key(node: YamlNode) -> str:
    return f"key {shorten_text(node.text or '')}"


def _metadata(name: str, documents: list[YamlNode] | YamlError) -> Iterator[Fault]:
    if isinstance(documents, YamlError):
        yield documents.line, f"the file {documents}: write it as one small mapping"
        return
    if len(documents) != 1 or not documents[0].is_mapping:
        yield 1, "the file isn't one mapping: write it as one"
        return
    (document,) = documents
    for node in document.all():
        if node.is_alias or node.has_anchor or node.has_tag:
            what = "an alias (*)" if node.is_alias else "an anchor (&) or a tag (!)"
            yield node.line, f"{what}: write the value itself"
    yield from _plain_keys(document, may_merge=False)
    yield from _known(document, _KEYS[name])
    for one in elements(document, "dependencies"):
        yield from _known(one, _OF_DEPENDENCIES)
        yield from _texts(one)
        repository = one.value("repository")
        if repository and not _REPOSITORY.fullmatch(repository.text or ""):
            what = "key repository is neither empty nor http(s):// or oci://"
            cure = "copy that chart to charts/ and leave repository empty"
            yield repository.line, f"{what}: {cure}"
    for one in elements(document, "maintainers"):
        yield from _known(one, _OF_MAINTAINERS)
    yield from _texts(document)


def _known(node: YamlNode, known: frozenset[str]) -> Iterator[Fault]:
    for key, _ in node.items:
        if key.text not in known:
            by_case = next((one for one in known if one.lower() == (key.text or "").lower()), None)
            cure = f"spell it {by_case}" if by_case else "remove it"
            yield key.line, f"{_key(key)} isn't one of Helm's: {cure}"


def _texts(node: YamlNode) -> Iterator[Fault]:
    for key, value in node.items:
        if key.text in _TEXTS and value.text and not value.is_certain:
            yield value.line, f"the value of {_key(key)} may be read as another: quote it"


def _plain_keys(document: YamlNode, *, may_merge: bool) -> Iterator[Fault]:
    for node in document.all():
        for key, _ in node.items:
            if key.text is None:
                yield key.line, "a key that isn't a text: write it as one"
            elif key.has_anchor or key.has_tag:
                yield key.line, f"{_key(key)} has an anchor (&) or a tag (!): remove it"
            elif key.text == MERGE and not may_merge:
                yield key.line, "a merge key (<<): write the keys themselves"
    if (equal := find_equal_keys(document)) is not None:
        what = f"{_key(equal)} and another one of its mapping may be equal once they are read"
        yield equal.line, f"{what}: keep one, and quote keys that are numbers or yes and no"


def _values(content: bytes) -> Iterator[Fault]:
    try:
        documents = read_yaml(content)
    except YamlError as error:
        yield error.line, f"the file {error}: write it as YAML"
        return
    if len(documents) > 1:
        yield documents[1].line, "a second document, which werf doesn't read: remove it"
    for document in documents[:1]:
        yield from _plain_keys(document, may_merge=True)


def _schema(content: bytes) -> Iterator[Fault]:
    found: dict[tuple[str, str], None] = {}

    def look(pairs: list[tuple[str, Any]]) -> None:
        for key, value in pairs:
            if isinstance(value, str) and not _is_local(key, value):
                found[key, value] = None

    try:
        json.loads(content, object_pairs_hook=look)
    except (ValueError, RecursionError):
        yield 1, "the file isn't JSON, or nested too deeply: write it as JSON"
    for key, value in found:
        line = content[: content.find(json.dumps(value).encode()) + 1].count(b"\n") + 1
        what = f'key {key} names another document, which werf would ask for: use "#/…" in this one'
        yield line, what


def _is_local(key: str, value: str) -> bool:
    """Whether a text of a schema names no other document (gojsonschema's references)."""
    match key:
        case "$ref" | "$dynamicRef" | "$recursiveRef":
            return value.startswith("#")
        case "$schema":
            return bool(_DRAFT.fullmatch(value))
        case "$id" | "id":
            return bool(_ID.fullmatch(value))
    return True


def _namesakes(chart: Chart) -> Iterator[str]:
    """Subcharts of which one is drawn, or another one taken where case is ignored."""
    dependencies = [one.alias or one.name for one in chart.dependencies]
    named = {one.name for one in chart.dependencies}
    others = [one.name for one in chart.charts if one.name and one.name not in named]
    for what, names in (
        ("directories", [posixpath.basename(one.path) for one in chart.charts]),
        ("charts", [one.name for one in chart.charts if one.name]),
        ("dependencies", [*dependencies, *others]),
    ):
        known: dict[str, str] = {}
        for name in names:
            if name.casefold() in known:
                shown = f"{shorten_text(known[name.casefold()])} and {shorten_text(name)}"
                twice = f"of two {what} named {shown} one is drawn"
                yield f"{chart.path_of('charts')}: {twice}: rename or remove one"
                break
            known[name.casefold()] = name


def _hidden(chart: Chart) -> Iterator[Fault]:
    """Lines of .helmignore that hide a chart in ``charts/``, metadata or values (Helm's rules.go).

    A template that it hides is judged and not rendered, which is no harm.
    """
    content = chart.files.get(".helmignore", b"")
    lines = enumerate(content.decode(errors="replace").split("\n"), 1)
    rules = [(at, rule) for at, line in lines if (rule := line.strip()) and rule[0] != "#"]
    if len(rules) > IGNORE_RULES or len(content) > CHART_METADATA_BYTES:
        yield 1, f"the file has more than {IGNORE_RULES} patterns: remove some"
        return
    paths: dict[str, bool] = {}  # whether it is a directory
    for one in chart.all():
        if ".tgz/" not in one.path:
            files = (name for name in _READ if name in one.files)
            found = [one.path, *(f"{one.path}/{name}".lstrip("/") for name in files)]
            paths |= {
                path: not path.endswith(".tgz") and path == one.path for path in found if path
            }
    paths |= {path[: found.start()]: True for path in paths for found in re.finditer("/", path)}
    for line, rule in rules:
        hides = _pattern_of(rule)
        if rule.startswith("!") or any(map(hides, paths.items())):
            yield line, "this pattern hides a chart in charts/, or metadata or values: remove it"


def _pattern_of(rule: str) -> Callable[[tuple[str, bool]], bool]:
    """What a rule hides, as Helm's rules.go and Go's filepath.Match have it, or more.

    A class may match a slash, and any character here; leading slashes are cut off one by one.
    """
    directories_only, rule = rule.endswith("/"), rule.removesuffix("/")
    whole, rule = "/" in rule, rule.lstrip("/")
    expression = _GLOB.sub(lambda found: _GLOB_FORMS[found.lastgroup or ""](found), rule)
    pattern = re.compile(expression, re.DOTALL)

    def hides(path: tuple[str, bool]) -> bool:
        name, is_directory = path
        if directories_only and not is_directory:
            return False
        return bool(pattern.fullmatch(name if whole else posixpath.basename(name)))

    return hides


_GLOB: Final = re.compile(
    r"(?P<any>\*+)|(?P<one>\?)|(?P<class>\[(?:\\.|[^\]\\])+\])|\\(?P<escaped>.)|(?P<text>.)",
    re.DOTALL,
)
_GLOB_FORMS: Final[Mapping[str, Callable[[re.Match[str]], str]]] = {
    "any": lambda _: "[^/]*",
    "one": lambda _: "[^/]",
    "class": lambda _: ".",
    "escaped": lambda found: re.escape(found["escaped"]),
    "text": lambda found: re.escape(found["text"]),
}
