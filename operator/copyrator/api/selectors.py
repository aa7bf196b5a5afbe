"""Label selectors of a rule's objects and namespaces (anchored globs: globs.py).

A selector is evaluated by the API server (``to_string``), so that other objects cost nothing, and
here (``matches``), for cached objects; the meaning is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from copyrator.api import syntax
from copyrator.api.fields import Fields, SpecError, check_text

MAX_REQUIREMENTS: Final = 64
"""Labels and expressions of one selector: matched for each namespace and each source."""

MAX_REQUIREMENT_VALUES: Final = 64
"""Values of one expression of a selector."""


class Operator(StrEnum):
    """The operators of ``matchExpressions``."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


@dataclass(frozen=True, slots=True, order=True)
class Requirement:
    """One condition on one label; ``values`` are sorted and unique."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()
    _known: frozenset[str | None] = field(
        default=frozenset(), init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "_known", frozenset(self.values))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """As in Kubernetes: ``NotIn`` also holds for an object without the label."""
        value = labels.get(self.key)
        if self.operator is Operator.IN:
            return value in self._known
        if self.operator is Operator.NOT_IN:
            return value not in self._known
        return (value is not None) == (self.operator is Operator.EXISTS)

    def to_string(self) -> str:
        """The form of the ``labelSelector`` parameter."""
        if self.operator is Operator.EXISTS:
            return self.key
        if self.operator is Operator.DOES_NOT_EXIST:
            return f"!{self.key}"
        if self.operator is Operator.IN and len(self.values) == 1:
            return f"{self.key}={self.values[0]}"
        word = "in" if self.operator is Operator.IN else "notin"
        return f"{self.key} {word} ({','.join(self.values)})"


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements must hold. They are sorted, so equal meanings share one watch."""

    requirements: tuple[Requirement, ...] = ()

    @classmethod
    def from_labels(cls, labels: Mapping[str, str]) -> LabelSelector:
        """A selector for objects with all these labels."""
        return cls.of(Requirement(key, Operator.IN, (value,)) for key, value in labels.items())

    @classmethod
    def of(cls, requirements: Iterable[Requirement]) -> LabelSelector:
        """A selector in canonical order."""
        return cls(tuple(sorted(set(requirements))))

    @property
    def empty(self) -> bool:
        """An empty selector matches everything."""
        return not self.requirements

    @property
    def labels(self) -> dict[str, str]:
        """The labels whose value is the same on every matching object."""
        return {
            want.key: want.values[0]
            for want in self.requirements
            if want.operator is Operator.IN and len(want.values) == 1
        }

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Whether the labels match; None counts as no labels."""
        found = labels or {}
        return all(requirement.matches(found) for requirement in self.requirements)

    def to_string(self) -> str:
        """The form of the ``labelSelector`` parameter; empty selects everything."""
        return ",".join(requirement.to_string() for requirement in self.requirements)


def parse_selector(raw: Any, path: str) -> LabelSelector:
    """Parse ``{matchLabels, matchExpressions}``.

    Raises:
        SpecError: naming the field at fault.
    """
    fields = Fields(raw, path)
    known = {"matchLabels", "matchExpressions"}
    if stray := sorted(set(map(str, fields.raw)) - known):
        raise SpecError(
            f"{path}.{stray[0]}",
            "isn't a field of a selector; put labels under matchLabels",
        )
    count = len(fields.sub("matchLabels").raw) + len(fields.items("matchExpressions"))
    if count > MAX_REQUIREMENTS:
        raise SpecError(path, f"has {count} requirements; at most {MAX_REQUIREMENTS} are allowed")
    labels = fields.text_map("matchLabels", syntax.label_key, syntax.label_value)
    wanted = [Requirement(key, Operator.IN, (value,)) for key, value in labels.items()]
    wanted += map(_parse_expression, fields.maps("matchExpressions", MAX_REQUIREMENTS))
    return LabelSelector.of(wanted)


def _parse_expression(fields: Fields) -> Requirement:
    key = fields.required_text("key", syntax.label_key)
    if not fields.has("operator"):
        fields.fail("operator", "is required: one of In, NotIn, Exists, DoesNotExist")
    operator = fields.choice("operator", Operator, Operator.IN)
    path = fields.at("values")
    if len(fields.items("values")) > MAX_REQUIREMENT_VALUES:
        fields.fail("values", f"must name at most {MAX_REQUIREMENT_VALUES} values")
    values = {
        check_text(item, f"{path}[{i}]", syntax.label_value) if item != "" else ""
        for i, item in enumerate(fields.items("values"))
    }
    takes_values = operator in (Operator.IN, Operator.NOT_IN)
    if takes_values and not values:
        fields.fail("values", f"must name at least one value for {operator}")
    if not takes_values and values:
        fields.fail("values", f"must be removed: {operator} takes no values")
    return Requirement(key, operator, tuple(sorted(values)))


ANY_LABELS: Final = LabelSelector()
"""The selector that matches everything."""
