"""The rules whose source an object is."""

from __future__ import annotations

from collections.abc import Mapping

from copyrator.api.counts import count
from copyrator.api.keys import CopyKey
from copyrator.cli.dry_run import DryRun
from copyrator.copies.cache.bindings import SourceBinding


def sources_of(dry_run: DryRun, key: CopyKey) -> dict[str, int]:
    """The rules that copy the object, and how many copies of it each has."""
    found: dict[str, int] = {}
    for rule in dry_run.context.rules:
        for binding in dry_run.context.index.of_rule(rule.owner).values():
            same = binding.compiled.resource == key.kind
            if same and binding.origin == f"{key.namespace}/{key.name}":
                spaces = list(binding.compiled.targets)
                found[rule.owner] = sum(_has_copy(dry_run, binding, space) for space in spaces)
    return found


def _has_copy(dry_run: DryRun, binding: SourceBinding, namespace: str) -> bool:
    home = dry_run.context.home
    place = home.namespaces.get(namespace)
    if place is None:
        return False
    record = home.kinds[binding.compiled.resource].copies.get((namespace, binding.at(place).name))
    return record is not None and record.owner == binding.compiled.rule.owner


def as_sentence(sources: Mapping[str, int]) -> str | None:
    """The rules, each with its number of copies."""
    if not sources:
        return None
    rules = [f"{rule} ({count(number, 'copy', 'copies')})" for rule, number in sources.items()]
    return f"It is the source of the rule{'s' if len(rules) > 1 else ''} {', '.join(rules)}."
