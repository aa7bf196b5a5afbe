"""Why an object exists or doesn't: typed parts, and the lines of `copyrator why`. Pure.

`copyrator.cli.rules.why` finds them out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from copyrator.api import names
from copyrator.api.text import GROUP, Detail, count, some, time_since
from copyrator.cli.view.rule import CertificateRow, CopyGroup


@dataclass(frozen=True, slots=True)
class CopyVerdict:
    """What the operator does about an object now."""

    text: str
    """A sentence."""
    group: CopyGroup | None = None
    """The state of a copy that is wanted; None where it is unwanted, or unknown."""


@dataclass(frozen=True, slots=True)
class RuleAnswer:
    """What a rule requires at the place of an object, or why nothing."""

    rule: str
    """``namespace/name``."""
    text: str
    is_owner: bool = False
    """Whether the object carries its marks."""


@dataclass(frozen=True, slots=True)
class CopyAnswer:
    """Why an object, which needn't exist, is as it is."""

    kind: str
    namespace: str
    name: str
    metadata: Mapping[str, Any] | None
    """None where it doesn't exist."""
    owner: str | None
    """The rule whose marks it carries."""
    verdict: CopyVerdict
    made_of: str = ""
    """The sources of the template that makes it; empty where there is none."""
    certificates: Sequence[CertificateRow] = ()
    sources: Mapping[str, int] = field(default_factory=dict)
    """The rules whose source it is, and how many copies of it each has."""
    first: RuleAnswer | None = None
    """Of the rule that owns it, or would make it."""
    others: Sequence[RuleAnswer] = ()

    @property
    def shown(self) -> str:
        """``Secret team-a/creds``."""
        return f"{self.kind} {self.namespace}/{self.name}"

    @property
    def head(self) -> str:
        """Whether it exists, and whose it is."""
        if self.metadata is None:
            return f"{self.shown} doesn't exist."
        made = f"carries the marks of the rule {self.owner}" if self.owner else _NOT_MADE
        return f"{self.shown} exists and {made}."

    @property
    def answers(self) -> list[RuleAnswer]:
        """Of all rules."""
        return [*([self.first] if self.first else ()), *self.others]

    @property
    def facts(self) -> list[str]:
        """All but the answers of the rules, as sentences."""
        certificates = (f"Certificate: {row.line}" for row in self.certificates)
        return [self.head, self.verdict.text, *certificates]


_NOT_MADE = "wasn't created by a rule"


def describe_writes(metadata: Mapping[str, Any], now: datetime) -> Iterator[Detail]:
    """When an object was created and written, and by whom else."""
    yield Detail("Age", time_since(metadata.get("creationTimestamp"), now))
    written: dict[str, str] = {}
    for entry in metadata.get("managedFields") or ():
        manager, time = str(entry.get("manager")), str(entry.get("time") or "")
        written[manager] = max(written.get(manager, ""), time)
    if ours := written.pop(names.FIELD_MANAGER, None):
        yield Detail("Written", f"{time_since(ours, now)} ago")
    for manager, time in sorted(written.items()):
        yield Detail("Managers", f"{manager}, {time_since(time, now)} ago")


def group_answers(found: Iterable[RuleAnswer]) -> list[list[RuleAnswer]]:
    """Those of rules with the same answer together; that of the owner alone."""
    same: dict[tuple[str, bool], list[RuleAnswer]] = {}
    for one in found:
        same.setdefault((one.text, one.is_owner), []).append(one)
    return list(same.values())


def explain(found: Sequence[RuleAnswer]) -> Iterator[str]:
    """A line for each rule's answer; rules with the same one share a line."""
    if not found:
        yield "No rules found that you have permission to list; create one (docs/rules.md)."
    for group in group_answers(found):
        if len(group) >= GROUP:
            yield f"{some((one.rule for one in group), 'rules')}: {group[0].text}"
            continue
        for one in group:
            yield f"rule {one.rule}{' (its owner)' if one.is_owner else ''}: {one.text}"


def count_rules(found: Sequence[RuleAnswer]) -> str:
    """How many rules these are, and how many of them require the object."""
    wanting = sum(one.text.startswith("requires it") for one in found)
    also = f", {wanting} of which {'requires' if wanting == 1 else 'require'} it, too"
    return f"{count(len(found), 'other rule')}{also if wanting else ''}"
