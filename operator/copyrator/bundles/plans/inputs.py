"""What a plan was made of besides the chart, as hashes that tell what changed since another. Pure.

Of each values file, of each top-level key of a ConfigMap's file, and of each variable a keyed hash
is recorded with the plan. The hashes of two plans tell what changed, by name; no value is recorded.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
import yaml

from copyrator.api.text import quoted
from copyrator.bundles.plans.fields import MAX_CHANGED

PLAN_INPUT_FILE_KEYS: Final = 100
"""Top-level keys of one values file whose changes are named, else only the file is named."""

Hashes = Mapping[str, str]
"""Keyed hashes by name."""

MORE: Final = "and {} more"
_KEY: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,62}")
"""A top-level key as charts have them; in a file with others no keys are named."""
_PLAIN: Final = re.compile(r"[!-~]{1,253}")
_NAMED: Final = 20
"""Keys of a file that are named."""
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class FileHash(msgspec.Struct, frozen=True, array_like=True):
    """The hash of a values file, and those of its top-level keys; None where they aren't known."""

    whole: str
    keys: Hashes | None = None


class SourceHash(msgspec.Struct, frozen=True, array_like=True):
    """A values source, such as ``ConfigMap shop-values``, and its files; None: too many."""

    name: str
    whole: str
    files: Mapping[str, FileHash] | None = None


class Inputs(msgspec.Struct, frozen=True):
    """The values sources in their order, and the variables."""

    sources: tuple[SourceHash, ...] = ()
    env: Hashes = {}

    def to_text(self) -> str:
        """The record, as ``read_inputs`` reads it."""
        return msgspec.json.encode(self, order="deterministic").decode()


def read_inputs(text: str) -> Inputs:
    """Parse ``Inputs.to_text``; only records with a valid signature are parsed."""
    return msgspec.json.decode(text, type=Inputs)


def key_hashes(key: bytes, content: bytes) -> Hashes | None:
    """The hashes of a YAML file's top-level keys; None where it isn't one map with plain keys.

    They are of the parsed content, so that comments and layout don't matter. An alias counts as its
    name: what it refers to is part of the key in which it stands.

    Args:
        key: of the hashes.
        content: hostile; its caller bounds it, and the time.
    """
    keys: dict[str, hashlib.blake2b] = {}
    try:
        for name, event in _entries(content.decode()):
            if name not in keys and len(keys) >= PLAN_INPUT_FILE_KEYS:
                return None
            part = keys.setdefault(name, hashlib.blake2b(key=key, digest_size=16))
            part.update(_content_of(event))
    except (yaml.YAMLError, RecursionError, ValueError):
        return None
    return {name: one.hexdigest() for name, one in keys.items()}


def _entries(text: str) -> Iterator[tuple[str, yaml.Event]]:
    """The events of each top-level key's value, with the key.

    Raises:
        ValueError: it isn't one map with plain keys.
    """
    depth, documents = 0, 0
    key: str | None = None
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
        if not isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
            continue
        if depth == 0:
            if documents > 1 or not isinstance(event, yaml.MappingStartEvent):
                raise ValueError("it isn't one map")
            depth = 1
        elif key is not None:
            yield key, event
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            key = key if depth > 1 else None
        elif isinstance(event, yaml.MappingEndEvent):
            depth = 0
        else:
            key = event.value if isinstance(event, yaml.ScalarEvent) else ""
            if not _KEY.fullmatch(key):
                raise ValueError("a key isn't plain")


def _content_of(event: yaml.Event) -> bytes:
    """What of an event belongs to the content, unambiguously."""
    value = [getattr(event, name, None) for name in ("anchor", "tag", "implicit", "value")]
    return f"{type(event).__name__}{value!r}\n".encode("utf-8", "backslashreplace")


def key_hashes_of(key: bytes, files: Mapping[str, bytes]) -> dict[str, Hashes | None]:
    """As ``key_hashes`` of some files, for one call in a child process."""
    return {name: key_hashes(key, content) for name, content in files.items()}


def find_changes(before: Inputs, now: Inputs) -> tuple[str, ...]:
    """What differs, by name: ``ConfigMap shop-values values.yaml: image, replicas``.

    Returns:
        At most MAX_CHANGED texts; the last one says how many more there are.
    """
    found = [*_compare_sources(before.sources, now.sources)]
    found += (f"spec.env.{one}" for one in _compare_hashes(before.env, now.env))
    if len(found) > MAX_CHANGED:
        found[MAX_CHANGED - 1 :] = [MORE.format(len(found) - MAX_CHANGED + 1)]
    return tuple(found)


def _compare_sources(before: Sequence[SourceHash], now: Sequence[SourceHash]) -> Iterator[str]:
    old, new = ({one.name: one for one in some} for some in (before, now))
    for name, source in new.items():
        if name not in old:
            yield f"{name} (added)"
        elif source.whole != old[name].whole:
            yield from _compare_files(old[name], source)
    yield from (f"{name} (removed)" for name in old if name not in new)
    if [name for name in old if name in new] != [name for name in new if name in old]:
        yield "the order of the values' sources"


def _compare_files(before: SourceHash, now: SourceHash) -> Iterator[str]:
    if before.files is None or now.files is None:
        yield now.name
        return
    for name in sorted(before.files.keys() | now.files.keys()):
        old, new = before.files.get(name), now.files.get(name)
        place = f"{now.name} {_quote_name(name)}"
        if old is None or new is None:
            yield f"{place} ({'added' if old is None else 'removed'})"
        elif old.whole != new.whole:
            keys = [] if None in (old.keys, new.keys) else list(_compare_hashes(old.keys, new.keys))
            if len(keys) > _NAMED:
                keys[_NAMED:] = [MORE.format(len(keys) - _NAMED)]
            yield f"{place}: {', '.join(keys)}" if keys else place


def _compare_hashes(before: Hashes | None, now: Hashes | None) -> Iterator[str]:
    """The names whose hashes differ, each with what happened to it."""
    old, new = before or {}, now or {}
    for name in sorted(old.keys() | new.keys()):
        if name not in old or name not in new:
            yield f"{_quote_name(name)} ({'added' if name not in old else 'removed'})"
        elif old[name] != new[name]:
            yield _quote_name(name)


def _quote_name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else quoted(name)
