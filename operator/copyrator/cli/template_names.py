"""Names in a rule's templates that no target has: found without rendering."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from jinja2 import meta, nodes

from copyrator.api.rule_spec import RuleSpec
from copyrator.cli.schema import closest
from copyrator.copies.policy.compiling import ENVIRONMENT
from copyrator.copies.policy.composing import SOURCES
from copyrator.copies.policy.rendering import namespace_context, source_context

_NAMESPACE: Final = tuple(namespace_context("", {}, {}))
_SOURCE: Final = tuple(source_context({}, ""))
_RULE: Final = ("name", "namespace")

OF_TEMPLATE: Final[Mapping[str, Sequence[str]]] = {"namespace": _NAMESPACE, "rule": _RULE}
"""The variables of spec.template and their fields."""
OF_NAME: Final[Mapping[str, Sequence[str]]] = {**OF_TEMPLATE, "source": _SOURCE}
"""Those of spec.transform.name."""


def of_template(rule: RuleSpec) -> Mapping[str, Sequence[str]]:
    """The variables of a rule's template and their fields."""
    if not rule.sources:
        return OF_TEMPLATE
    return {**OF_TEMPLATE, SOURCES: tuple(entry.alias for entry in rule.sources)}


def unknown_names(text: str, known: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """What is wrong with the names in a text that is valid Jinja2, with the remedy."""
    tree = ENVIRONMENT.parse(text)
    undeclared = meta.find_undeclared_variables(tree)
    for name in sorted(undeclared - known.keys() - ENVIRONMENT.globals.keys()):
        yield f"unknown variable {name}{_advice(name, list(known), 'variables')}"
    reads: list[nodes.Getattr | nodes.Getitem] = list(tree.find_all(nodes.Getattr))
    for found in [*reads, *tree.find_all(nodes.Getitem)]:
        owner, field = found.node, _field(found)
        if not isinstance(owner, nodes.Name) or owner.name not in undeclared & known.keys():
            continue
        fields = known[owner.name]
        if field is not None and field not in fields:
            yield f"unknown field {owner.name}.{field}{_advice(field, fields, 'fields')}"


def _field(found: nodes.Getattr | nodes.Getitem) -> str | None:
    if isinstance(found, nodes.Getattr):
        return found.attr
    value = found.arg.value if isinstance(found.arg, nodes.Const) else None
    return value if isinstance(value, str) else None


def _advice(word: str, known: Sequence[str], what: str) -> str:
    close = closest(word, known)
    return f"; did you mean {close}?" if close else f"; known {what}: {', '.join(known)}"
