"""Manifests in files, with the lines of their fields."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from copyrator.cli.core.faults import Fault

Step = str | int
SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Manifest:
    """One document of a file."""

    source: str
    body: dict[str, Any]
    lines: Mapping[tuple[Step, ...], int] = field(repr=False)
    """Line, from 1, of each field by its path."""

    @property
    def kind(self) -> str:
        """The object's kind."""
        return str(self.body.get("kind") or "")

    @property
    def name(self) -> str:
        """The object's name."""
        return str((self.body.get("metadata") or {}).get("name") or "")

    @property
    def namespace(self) -> str:
        """The namespace in its metadata; empty where there is none."""
        return str((self.body.get("metadata") or {}).get("namespace") or "")

    @property
    def where(self) -> str:
        """``file:line`` of its beginning, and its kind and name."""
        return f"{self.source}:{self.lines.get((), 1)}: {self.kind} {self.name}"

    def line(self, path: Sequence[Step]) -> int:
        """The line of a field; for an absent one, of its nearest parent."""
        for length in range(len(path), -1, -1):
            if (found := self.lines.get(tuple(path[:length]))) is not None:
                return found
        return 1


def read_manifests(names: Sequence[str]) -> list[Manifest]:
    """All documents of files and directories; ``-`` is the standard input.

    Raises:
        Fault: a file doesn't exist or isn't YAML; the message has the line.
    """
    found: list[Manifest] = []
    for name in names:
        for source, text in _texts(name):
            found += _documents(source, text)
    return found


def _texts(name: str) -> Iterator[tuple[str, str]]:
    if name == "-":
        yield "stdin", sys.stdin.read()
        return
    path = Path(name)
    if not path.exists():
        raise Fault(f"{name}: no such file; give a manifest, a directory or -")
    files = [path]
    if path.is_dir():
        files = sorted(one for one in path.rglob("*") if one.suffix in SUFFIXES)
        if not files:
            raise Fault(f"{name}: the directory has no manifests (*.yaml, *.yml, *.json)")
    for file in files:
        try:
            yield str(file), file.read_text()
        except UnicodeDecodeError:
            raise Fault(f"{file}: isn't a text file; check the path") from None


def _documents(source: str, text: str) -> Iterator[Manifest]:
    try:
        for node in yaml.compose_all(text, Loader=yaml.SafeLoader):
            lines: dict[tuple[Step, ...], int] = {}
            body = _read(node, (), lines)
            for one in body.get("items") or [] if isinstance(body, dict) and _is_list(body) else []:
                yield Manifest(source, one, lines)
            if isinstance(body, dict) and not _is_list(body):
                yield Manifest(source, body, lines)
            elif body is not None and not isinstance(body, dict):
                raise Fault(f"{source}:{lines[()]}: isn't a map, so it isn't a manifest")
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise Fault(f"{source}:{line}: isn't YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise Fault(f"{source}: isn't YAML: {error}") from None


def _is_list(body: Mapping[str, Any]) -> bool:
    return body.get("kind") == "List" and isinstance(body.get("items"), list)


def _read(
    node: yaml.Node | None, path: tuple[Step, ...], lines: dict[tuple[Step, ...], int]
) -> Any:
    """The value of a node, as the safe loader makes it; records the lines."""
    if node is None:
        return None
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        value: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(_scalar(key_node))
            if key in value:
                line = key_node.start_mark.line + 1
                raise Fault(f"line {line}: the key {key} occurs twice; remove one")
            lines[(*path, key)] = key_node.start_mark.line + 1
            value[key] = _read(value_node, (*path, key), lines)
        return value
    if isinstance(node, yaml.SequenceNode):
        return [_read(item, (*path, index), lines) for index, item in enumerate(node.value)]
    return _scalar(node)


def _scalar(node: yaml.Node) -> Any:
    constructor = yaml.SafeLoader("")
    found = constructor.construct_object(node, deep=True)
    return found if isinstance(found, str | int | float | bool | None) else str(node.value)
