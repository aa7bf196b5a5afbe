"""Label selectors of a rule's objects and namespaces (anchored globs: globs.py).

A selector is evaluated by the API server (``to_string``), so that other objects cost nothing, and
here (``matches``), for cached objects; the meaning is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final

from copyrator.api.fields import SpecError
from copyrator.api.schema import (
    Form,
    Rule,
    Takes,
    custom,
    entries,
    fail,
    form_reader,
    items,
)
from copyrator.api.texts import LABEL_KEY, LABEL_VALUE

MAX_REQUIREMENTS: Final = 64
"""Labels and expressions of one selector: matched for each namespace and each source."""


class Operator(StrEnum):
    """The operators of ``matchExpressions``."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class Requirement(Form):
    """One condition on one label."""

    RULES = (
        Rule(
            "self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 "
            ": !has(self.values) || size(self.values) == 0",
            "In and NotIn require values; Exists and DoesNotExist allow none",
        ),
    )

    key: Annotated[str, LABEL_KEY]
    """The label's key."""
    operator: Annotated[Operator, Takes({}, required=f"is required: one of {', '.join(Operator)}")]
    """How the label is compared."""
    values: Annotated[frozenset[Annotated[str, LABEL_VALUE]], items(64, noun="values")] = (
        frozenset()
    )
    """Values for In and NotIn."""

    def __post_init__(self) -> None:
        takes_values = self.operator in (Operator.IN, Operator.NOT_IN)
        if takes_values and not self.values:
            fail("values", f"must name at least one value for {self.operator}")
        if not takes_values and self.values:
            fail("values", f"must be removed: {self.operator} takes no values")

    def order(self) -> tuple[str, ...]:
        """By what requirements are sorted."""
        return (self.key, self.operator, *sorted(self.values))

    @property
    def value(self) -> str | None:
        """The one value that the label must have; None where there isn't one."""
        return next(iter(self.values)) if self.operator == "In" and len(self.values) == 1 else None

    def matches(self, labels: Mapping[str, str]) -> bool:
        """As in Kubernetes: ``NotIn`` also holds for an object without the label."""
        value = labels.get(self.key)
        if self.operator is Operator.IN:
            return value in self.values
        if self.operator is Operator.NOT_IN:
            return value not in self.values
        return (value is not None) == (self.operator is Operator.EXISTS)

    def to_string(self) -> str:
        """The form of the ``labelSelector`` parameter."""
        if self.operator is Operator.EXISTS:
            return self.key
        if self.operator is Operator.DOES_NOT_EXIST:
            return f"!{self.key}"
        if self.value is not None:
            return f"{self.key}={self.value}"
        word = "in" if self.operator is Operator.IN else "notin"
        return f"{self.key} {word} ({','.join(sorted(self.values))})"


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements must hold. They are sorted, so equal meanings share one watch."""

    requirements: tuple[Requirement, ...] = ()

    @classmethod
    def from_labels(cls, labels: Mapping[str, str]) -> LabelSelector:
        """A selector for objects with all these labels."""
        return cls.of(_equal(labels))

    @classmethod
    def of(cls, requirements: Iterable[Requirement]) -> LabelSelector:
        """A selector in canonical order."""
        return cls(tuple(sorted(set(requirements), key=Requirement.order)))

    @property
    def empty(self) -> bool:
        """An empty selector matches everything."""
        return not self.requirements

    @property
    def labels(self) -> dict[str, str]:
        """The labels whose value is the same on every matching object."""
        return {want.key: want.value for want in self.requirements if want.value is not None}

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Whether the labels match; None counts as no labels."""
        found = labels or {}
        return all(requirement.matches(found) for requirement in self.requirements)

    def to_string(self) -> str:
        """The form of the ``labelSelector`` parameter; empty selects everything."""
        return ",".join(requirement.to_string() for requirement in self.requirements)


def _equal(labels: Mapping[str, str]) -> list[Requirement]:
    return [Requirement(key, Operator.IN, frozenset((value,))) for key, value in labels.items()]


class SelectorForm(Form):
    """A selector as it is written."""

    match_labels: Annotated[
        Mapping[Annotated[str, LABEL_KEY], Annotated[str, LABEL_VALUE]],
        entries(MAX_REQUIREMENTS),
    ] = {}
    """Labels and values that an object must have."""
    match_expressions: Annotated[tuple[Requirement, ...], items(MAX_REQUIREMENTS)] = ()
    """Requirements on labels, as in Kubernetes."""


def read_selector(raw: Any) -> LabelSelector:
    """Read ``{matchLabels, matchExpressions}``.

    Raises:
        SpecError: with the path below it.
    """
    if isinstance(raw, Mapping):
        for stray in sorted(set(map(str, raw)) - {"matchLabels", "matchExpressions"}):
            fail(stray, "isn't a field of a selector; put labels under matchLabels")
    found = form_reader(SelectorForm)(raw)
    count = len(found.match_labels) + len(found.match_expressions)
    if count > MAX_REQUIREMENTS:
        raise SpecError("", f"has {count} requirements; at most {MAX_REQUIREMENTS} are allowed")
    return LabelSelector.of([*_equal(found.match_labels), *found.match_expressions])


def selecting(empty: str, rules: tuple[Rule, ...] = ()) -> Takes:
    """A selector of at least one label; ``empty`` is said of another."""

    def read(raw: Any) -> LabelSelector:
        found = read_selector(raw)
        if found.empty:
            raise SpecError("", empty)
        return found

    return custom(read, like=SelectorForm, rules=rules)


ANY_LABELS: Final = LabelSelector()
"""The selector that matches everything."""
