"""The rules that exist, as of their last event, and what a tenant's rule may do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

from copyrator.api import names
from copyrator.api.keys import ObjectName, RuleKey
from copyrator.api.rule_spec import ConflictPolicy, RuleSpec, Source, copies_kind, parse_rule
from copyrator.api.rule_status import NO_STATUS, RuleStatus, read_rule_status
from copyrator.api.schema import InvalidSpec, map_in, text_in

NOT_READ: Final = InvalidSpec("spec", "isn't parsed: this operator doesn't serve the rule")
"""In place of a spec that isn't parsed."""


@dataclass(slots=True, eq=False)
class Rule:
    """One CopyratorRule."""

    key: RuleKey
    uid: str
    resource_version: str
    generation: int
    created: str
    """creationTimestamp; RFC 3339 in UTC, so it sorts as text."""
    deleting: bool
    finalizers: tuple[str, ...]
    spec: RuleSpec | InvalidSpec
    """NOT_READ of a rule that this operator doesn't serve."""
    kind: tuple[str, str | None] | None
    """Kind and apiVersion of its copies, also where the spec isn't read; None where unknown."""
    orphans: bool
    """``spec.deletionPolicy: Orphan`` where it can be read, even of an invalid rule."""
    requested: str | None = None
    """Values of the annotations in _REQUESTS; likewise the next five."""
    reseal: str | None = None
    confirmed: str | None = None
    source_cluster: str | None = None
    resume: str | None = None
    finish: str | None = None
    status: RuleStatus = field(default=NO_STATUS, repr=False)

    @property
    def owner(self) -> str:
        """``namespace/name``, as in the annotation of its copies."""
        return f"{self.key.namespace}/{self.key.name}"

    @property
    def precedence(self) -> tuple[str, str]:
        """Sort key: for a free target the older rule wins."""
        return (self.created, self.owner)

    @property
    def is_observed(self) -> bool:
        """Whether its status is for this generation, so that it still holds after a restart."""
        return self.status.observed_generation == self.generation

    def is_equivalent_to(self, other: Rule) -> bool:
        """Whether a later state of the rule has no relevant change, such as of its status only."""
        return _RELEVANT(self) == _RELEVANT(other)

    @classmethod
    def from_body(cls, body: Mapping[str, Any], *, served: bool = True) -> Rule:
        """Decode a CopyratorRule.

        Where it isn't `served` the spec isn't parsed; only what its deletion needs is read.

        Raises:
            KeyError: it has no name or no namespace.
        """
        metadata = body["metadata"]
        parsed = parse_rule(body) if served else NOT_READ
        if isinstance(parsed, RuleSpec):
            kind: tuple[str, str | None] | None = (parsed.kind, parsed.api_version)
        else:
            kind = None if served else copies_kind(body)
        finalizers = metadata.get("finalizers")
        noted = metadata.get("annotations") or {}
        generation = metadata.get("generation")
        return cls(
            key=RuleKey(metadata["namespace"], metadata["name"]),
            uid=text_in(metadata, "uid"),
            resource_version=text_in(metadata, "resourceVersion"),
            generation=generation if isinstance(generation, int) else 1,
            created=text_in(metadata, "creationTimestamp"),
            deleting=bool(metadata.get("deletionTimestamp")),
            finalizers=tuple(one for one in finalizers or () if isinstance(one, str)),
            spec=parsed,
            kind=kind,
            orphans=map_in(body, "spec").get("deletionPolicy") == "Orphan",
            status=read_rule_status(body),
            **{
                name: text_in(noted, annotation)[: names.RULE_REQUEST] or None
                for name, annotation in _REQUESTS.items()
            },
        )


_REQUESTS: Final = {
    "requested": names.ANN_RULE_REQUESTED_AT,
    "reseal": names.ANN_RULE_RESEAL_AT,
    "confirmed": names.ANN_CONFIRM_DELETE,
    "source_cluster": names.ANN_SOURCE_CLUSTER,
    "resume": names.ANN_ROLLOUT_RESUME,
    "finish": names.ANN_ROLLOUT_FINISH,
}
"""Fields of a Rule with the value of an annotation."""
_RELEVANT: Final = attrgetter("uid", "generation", "deleting", "finalizers", "status", *_REQUESTS)


class RuleCache:
    """Every CopyratorRule by its key and by ``namespace/name``."""

    def __init__(self) -> None:
        self._rules: dict[RuleKey, Rule] = {}
        self._by_owner: dict[str, Rule] = {}
        self._kubeconfigs: dict[RuleKey, frozenset[ObjectName]] = {}
        self.observer: Callable[[Rule, bool], None] | None = None
        """Is called with each rule that is stored (True), or gone; must take little time."""

    def __len__(self) -> int:
        return len(self._rules)

    def __iter__(self) -> Iterator[Rule]:
        return iter(list(self._rules.values()))

    def get(self, key: RuleKey) -> Rule | None:
        """The rule, or None where it doesn't exist."""
        return self._rules.get(key)

    def by_owner(self, owner: str) -> Rule | None:
        """The rule that a copy's annotation names."""
        return self._by_owner.get(owner)

    def put(self, rule: Rule) -> bool:
        """Store a rule from an event or a response.

        Returns:
            False for one that is older than the stored one: events and responses come in any order.
        """
        known = self._rules.get(rule.key)
        if known is not None and known.uid == rule.uid and _is_older(rule, known):
            return False
        if known is not None and known.uid != rule.uid and self.observer is not None:
            self.observer(known, False)
        self._rules[rule.key] = rule
        self._by_owner[rule.owner] = rule
        self._kubeconfigs.pop(rule.key, None)
        if isinstance(rule.spec, RuleSpec) and (found := rule.spec.kubeconfigs):
            place = rule.key.namespace
            secrets = frozenset(ObjectName(place, one.secret) for one in found)
            self._kubeconfigs[rule.key] = secrets
        if self.observer is not None:
            self.observer(rule, True)
        return True

    def drop(self, key: RuleKey, uid: str | None = None) -> Rule | None:
        """Remove a rule; with ``uid`` only that one, not its successor of the same name."""
        known = self._rules.get(key)
        if known is None or (uid and known.uid != uid):
            return None
        del self._rules[key]
        del self._by_owner[known.owner]
        self._kubeconfigs.pop(key, None)
        if self.observer is not None:
            self.observer(known, False)
        return known

    def is_kubeconfig(self, secret: ObjectName) -> bool:
        """Whether a rule names this Secret as the kubeconfig of another cluster."""
        return any(secret in named for named in self._kubeconfigs.values())


TENANT_KINDS: Final = ("ConfigMap", "Secret")
"""Kinds that grant no permissions by themselves; a copied RoleBinding would."""


def tenant_refusal(spec: RuleSpec, home: str) -> str | None:
    """Why a rule of the namespace ``home`` isn't served there, or None.

    Evaluated before anything is watched or read for the rule. It prevents privilege escalation:
    anybody who may write rules in the operator's namespace is trusted with all that the operator
    may do; a tenant's rule reads only its own namespace, which its author is expected to be able to
    read, and writes only where the target's owner consented.
    """
    if spec.source is None:
        return "spec.template is for trusted rules only: it can create any object; use spec.source"
    source = spec.source
    if why := _source_refusal(
        source, home, "namespace" if spec.legacy else "spec.source.namespace"
    ):
        return why
    if spec.on_conflict is ConflictPolicy.OVERWRITE:
        return (
            "spec.onConflict: Overwrite is for trusted rules only: accepting copies doesn't "
            "allow overwriting a namespace's objects; use Skip or Adopt"
        )
    if spec.rollout is not None and spec.rollout.reads_consumers:
        return (
            "spec.rollout.health and restart are for trusted rules only: they read workloads of "
            "other namespaces; remove both"
        )
    return None


def _source_refusal(source: Source, home: str, field: str) -> str | None:
    """Why a tenant's rule may not read this source, or None; `field` has its namespaces."""
    if source.kubeconfig is not None:
        return (
            "spec.source.kubeConfig is for trusted rules only: connections to other clusters are "
            "the operator's; move the rule to the operator's namespace"
        )
    if source.kind not in TENANT_KINDS or source.api_version not in (None, "v1"):
        return (
            f"spec.source.kind is {source.kind}: outside the operator's namespace rules copy "
            f"{' and '.join(TENANT_KINDS)} only"
        )
    elsewhere = [namespace for namespace in source.namespaces if namespace != home]
    if elsewhere:
        return (
            f"{field} names {', '.join(elsewhere)}: outside the operator's namespace a rule's "
            f"sources must be in its own namespace, {home}"
        )
    return None


def _is_older(one: Rule, other: Rule) -> bool:
    first, second = one.resource_version, other.resource_version
    return first.isdigit() and second.isdigit() and int(first) < int(second)
