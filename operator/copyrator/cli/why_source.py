"""The rules whose source an object is."""

from __future__ import annotations

from collections.abc import Mapping

from copyrator.api.counts import count
from copyrator.api.keys import CopyKey
from copyrator.cli.dry_run import DryRun
from copyrator.copies.cache.bindings import SourceBinding
from copyrator.copies.cache.rules import Rule
from copyrator.copies.composed_rules import binding_of


def sources_of(dry_run: DryRun, key: CopyKey) -> dict[str, int]:
    """The rules that copy the object, and how many copies of it each has."""
    found: dict[str, int] = {}
    for rule in dry_run.context.rules:
        for binding in dry_run.context.index.of_rule(rule.owner).values():
            same = binding.compiled.resource == key.kind
            composition = binding.composition
            if composition is not None:
                is_source = composition.is_source(key.kind, key.namespace, key.name)
            else:
                is_source = same and binding.origin == f"{key.namespace}/{key.name}"
            if is_source:
                spaces = list(binding.compiled.targets)
                found[rule.owner] = sum(_has_copy(dry_run, binding, space) for space in spaces)
    return found


def waiting(dry_run: DryRun, rule: Rule) -> str | None:
    """Why the copies of a template with sources stay as they are, or None."""
    binding = binding_of(dry_run.context, rule.owner)
    return binding.composition.fault if binding is not None else None


def origin_of(binding: SourceBinding) -> str:
    """What a copy is made of: ``infra/creds``, ``its template``, ``hub, private (3)``."""
    if binding.composition is not None:
        return binding.composition.to_string()
    return binding.origin or "its template"


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
