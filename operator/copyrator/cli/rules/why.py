"""Each rule's reason why an object exists, or doesn't.

The rules whose source an object is.
"""

from __future__ import annotations

from dataclasses import dataclass

from copyrator.api import names
from copyrator.api.keys import CopyKey, RuleKey
from copyrator.api.reasons.rules import FailureReason
from copyrator.api.rollout import RolloutState
from copyrator.api.rule_spec import Mode
from copyrator.api.schema import InvalidSpec
from copyrator.api.text import count, format_time
from copyrator.cli.core.faults import hint
from copyrator.cli.rules.dry_run import DryRun
from copyrator.cli.view.rule import CopyGroup
from copyrator.cli.view.why_copy import CopyVerdict, RuleAnswer
from copyrator.copies.composed.composer import ComposedBinding, ComposeError, binding_of, check
from copyrator.copies.rules.rules import Rule
from copyrator.copies.sources.bindings import CopyRequest, SourceBinding
from copyrator.copies.targets.namespaces import Namespace
from copyrator.copies.targets.planning import Action, Cause, CopyDecision
from copyrator.copies.targets.reconciler import not_a_copy
from copyrator.kube.resources import Resource


def sources_of(dry_run: DryRun, key: CopyKey) -> dict[str, int]:
    """The rules that copy the object, and how many copies of it each has."""
    found: dict[str, int] = {}
    for rule in dry_run.context.rules:
        for binding in dry_run.context.index.of_rule(rule.owner).values():
            same = binding.compiled.resource == key.kind
            if isinstance(binding, ComposedBinding):
                is_source = binding.composition.is_source(key.kind, key.namespace, key.name)
            else:
                is_source = same and binding.origin == f"{key.namespace}/{key.name}"
            if is_source:
                spaces = list(binding.compiled.targets)
                found[rule.owner] = sum(_has_copy(dry_run, binding, space) for space in spaces)
    return found


def composition_fault(dry_run: DryRun, rule: Rule) -> str | None:
    """Why the copies of a template with sources stay as they are, or None."""
    binding = binding_of(dry_run.context, rule.owner)
    return binding.composition.fault if binding is not None else None


def origin_of(binding: SourceBinding) -> str:
    """What a copy is made of: ``infra/creds``, ``its template``, ``hub, private (3)``."""
    if isinstance(binding, ComposedBinding):
        return binding.composition.to_string()
    return binding.origin or "its template"


def _has_copy(dry_run: DryRun, binding: SourceBinding, namespace: str) -> bool:
    home = dry_run.context
    place = home.namespaces.get(namespace)
    if place is None:
        return False
    record = home.kinds[binding.compiled.resource].copies.get((namespace, binding.at(place).name))
    return record is not None and record.owner == binding.compiled.rule.owner


_SENTENCES = {
    Cause.UP_TO_DATE: "It is up to date with the rule {winner}.",
    Cause.UNWANTED: "No rule requires it.",
    Cause.SATISFIED: "An object that isn't a copy exists with the content that the rule {winner} "
    "requires: it counts as ready and isn't changed.",
    Cause.OWNED_BY_OTHER: "It belongs to a rule that isn't served now: it isn't changed.",
    Cause.ABANDONED: "Its rule no longer exists and no other rule requires it: it isn't changed.",
    Cause.IS_SOURCE: "It is the source of a rule, so it is never overwritten.",
    Cause.UNSEALED: "It carries the marks of the rule {winner}, but no valid seal.",
    Cause.BEING_DELETED: "It is being deleted, and has a finalizer of another controller.",
    Cause.PAUSED: "The rule {winner} requires it, but writes nothing now (suspend, mode: Plan, or "
    "not served).",
    Cause.PENDING: "The rule {winner} requires it; the sources of its template are read first.",
    Cause.BROKEN: "The rule {winner} can't render it; see below.",
}


_GROUPS = {
    Cause.UP_TO_DATE: CopyGroup.SYNC,
    Cause.SATISFIED: CopyGroup.SYNC,
    Cause.UNMANAGED: CopyGroup.CONFLICT,
    Cause.OWNED_BY_OTHER: CopyGroup.CONFLICT,
    Cause.UNSEALED: CopyGroup.CONFLICT,
    Cause.BEING_DELETED: CopyGroup.CONFLICT,
    Cause.PAUSED: CopyGroup.PENDING,
    Cause.PENDING: CopyGroup.PENDING,
    Cause.BROKEN: CopyGroup.FAILED,
}


@dataclass(frozen=True, slots=True)
class ExplainedObject:
    """The requested object."""

    dry_run: DryRun
    resource: Resource
    namespace: str
    name: str

    @property
    def key(self) -> CopyKey:
        """Its key for the planner."""
        return CopyKey(self.resource.key, self.namespace, self.name)

    @property
    def place(self) -> Namespace | None:
        """Its namespace, where that exists."""
        return self.dry_run.context.namespaces.get(self.namespace)


async def verdict_of(asked: ExplainedObject) -> CopyVerdict:
    """What the operator does about this object now."""
    context, place = asked.dry_run.context, asked.place
    if place is None:
        return CopyVerdict(f"The namespace {asked.namespace} doesn't exist.")
    if place.terminating:
        said = "is being deleted: nothing is created or changed in it."
        return CopyVerdict(f"The namespace {place.name} {said}")
    if asked.resource.key not in context.kinds:
        if any(
            not isinstance(one.spec, InvalidSpec)
            and one.spec.kind == asked.resource.kind
            and asked.dry_run.elsewhere(one)
            for one in context.rules
        ):
            said = "What its rules require can't be read here; see below."
            return CopyVerdict(said, CopyGroup.UNKNOWN)
        return CopyVerdict("No rule that the operator serves is for this kind.")
    return await _verdict_in(asked, place)


async def _verdict_in(asked: ExplainedObject, place: Namespace) -> CopyVerdict:
    context = asked.dry_run.context
    plan = asked.dry_run.context.plan(asked.key)
    record = context.record(asked.key)
    owner = context.rules.by_owner(record.owner) if record else None
    if owner is not None and (elsewhere := asked.dry_run.elsewhere(owner)):
        said = f"It is a copy of the rule {owner.owner}: {elsewhere}."
        return CopyVerdict(said, CopyGroup.UNKNOWN)
    if contested := _contested(asked, plan):
        return CopyVerdict(contested, CopyGroup.CONFLICT)
    if plan.act in (Action.CREATE, Action.REPLACE, Action.ADOPT, Action.RESEAL):
        return await _attempt(asked, plan)
    if plan.act in (Action.DELETE, Action.RELEASE, Action.ASK_OWNER):
        return CopyVerdict("Its rule no longer requires it: it will be deleted.")
    said, group = (
        _sentence(plan.why, plan.winner.owner if plan.winner else ""),
        _GROUPS.get(plan.why),
    )
    if plan.why is Cause.UNWANTED:
        if sources := sources_of(asked.dry_run, asked.key):
            rules = [f"{rule} ({count(many, 'copy', 'copies')})" for rule, many in sources.items()]
            which = f"rule{'s' if len(rules) > 1 else ''} {', '.join(rules)}"
            said = f"It is the source of the {which}."
        elif broken := _broken(asked, place):
            said, group = broken, CopyGroup.FAILED
    elif plan.why is Cause.UNMANAGED and plan.winner:
        said = (
            f"The rule {plan.winner.owner} requires it, but {not_a_copy(plan.winner.on_conflict)}."
        )
    elif missing := _missing(plan):
        said, group = missing, CopyGroup.FAILED
    made_of = _composed_of(plan)
    return CopyVerdict(f"{said} It is made from {made_of}." if made_of else said, group)


def _contested(asked: ExplainedObject, plan: CopyDecision[CopyRequest]) -> str | None:
    """That others change it back, as the operator's status says: a dry run can't see that."""
    if plan.winner is None:
        return None
    said = asked.dry_run.reported(plan.winner.rule.key, asked.namespace, asked.name)
    reason, _, message = said.partition(": ")
    if reason != FailureReason.CONFLICT_PERSISTS:
        return None
    return f"The rule {plan.winner.owner} requires it, but {message} ({reason})."


def _missing(plan: CopyDecision[CopyRequest]) -> str | None:
    """That its template can't be rendered, or None: a source is missing, or there are too many."""
    if plan.why is not Cause.PENDING or plan.winner is None:
        return None
    binding = plan.winner.binding
    if not isinstance(binding, ComposedBinding):
        return None
    try:
        check(binding.composition)
    except ComposeError:
        return f"The rule {plan.winner.owner} requires it, but can't render it; see below."
    return None


def composed_of(asked: ExplainedObject) -> str:
    """The sources of the template that makes it: ``hub, private (3)``; empty where it has none."""
    if asked.resource.key not in asked.dry_run.context.kinds:
        return ""
    return _composed_of(asked.dry_run.context.plan(asked.key))


def _composed_of(plan: CopyDecision[CopyRequest]) -> str:
    if plan.winner is None or not isinstance(plan.winner.binding, ComposedBinding):
        return ""
    return origin_of(plan.winner.binding)


def _broken(asked: ExplainedObject, place: Namespace) -> str | None:
    """A rule whose copy in the namespace can't be rendered: its name may be unknown."""
    context = asked.dry_run.context
    for rule in context.rules:
        for binding in context.index.of_rule(rule.owner).values():
            same = binding.compiled.resource == asked.resource.key
            if same and binding.covers(place) and (problem := binding.at(place).problem):
                return f"The rule {rule.owner} can't render its copy there: {problem}"
    return None


async def _attempt(asked: ExplainedObject, plan: CopyDecision[CopyRequest]) -> CopyVerdict:
    """Try the write as a dry run, to find what refuses it."""
    dry_run = asked.dry_run
    owner = plan.winner.owner if plan.winner else ""
    if plan.why is Cause.CHANGED and plan.winner and dry_run.key_known:
        reported = dry_run.views.get(plan.winner.rule.key)
        if reported is not None and reported.rollout is not None:
            said = waits_for_rollout(owner, reported.rollout)
            return CopyVerdict(said, CopyGroup.LATER)
    await dry_run.act(asked.key)
    winner = plan.winner.rule.key if plan.winner else RuleKey("", "")
    said = dry_run.reported(winner, asked.namespace, asked.name)
    if problem := dry_run.context.problems.get(asked.key):
        fault = f"{problem.reason}: {problem.text}"
        tried = dry_run.actor.tried(said if said != fault else "")
        is_conflict = problem.reason is FailureReason.CONFLICT
        group = CopyGroup.CONFLICT if is_conflict else CopyGroup.FAILED
        said = f"The rule {owner} requires it, but the write fails: {fault}{tried}"
        return CopyVerdict(said, group)
    tried = dry_run.actor.tried(said)
    if dry_run.context.plan(asked.key).why is Cause.SATISFIED:
        return CopyVerdict(_sentence(Cause.SATISFIED, owner), CopyGroup.SYNC)
    if tried and said:
        said = f"The rule {owner} requires it, and a dry run of the write succeeds{tried}."
        return CopyVerdict(said, CopyGroup.PENDING)
    if plan.act is Action.REPLACE and not dry_run.key_known:
        return CopyVerdict(
            f"It belongs to the rule {owner}; more can't be determined without the operator's "
            "hash key.",
            CopyGroup.UNKNOWN,
        )
    found = "doesn't exist" if plan.act is Action.CREATE else "isn't up to date"
    return CopyVerdict(
        f"The rule {owner} requires it, and a dry run of the write succeeds{tried}; if it still "
        f"{found} in a few seconds, check that the operator is running: {hint('doctor')}",
        CopyGroup.PENDING,
    )


def waits_for_rollout(owner: str, state: RolloutState) -> str:
    """Why a copy of a rule may not have the new content yet."""
    text = (
        f"It doesn't have the new content: the rule {owner} changes its copies in steps, and "
        f"the step of this copy hasn't begun (step {state.step}"
    )
    if state.stopped is not None:
        who = state.stopped
        return f"{text}); the rollout is stopped by {who.kind} {who.namespace}/{who.name}."
    due = f", the next one is due at {format_time(state.next_at)}" if state.next_at else ""
    return f"{text}{due})."


def _sentence(why: Cause, winner: str) -> str:
    return _SENTENCES.get(why, why.value).format(winner=winner or "?")


def deciding_rule(asked: ExplainedObject, owner: str | None) -> str | None:
    """The rule that owns the object, or that would make it; None where there is none."""
    context = asked.dry_run.context
    if owner is not None and context.rules.by_owner(owner):
        return owner
    if asked.place is None or asked.resource.key not in context.kinds:
        return None
    winner = context.plan(asked.key).winner
    return winner.owner if winner else None


def answers(asked: ExplainedObject, owner: str | None) -> list[RuleAnswer]:
    """What each rule requires there, or why nothing; the rule that decides about it comes first."""
    first = deciding_rule(asked, owner)
    rules = sorted(asked.dry_run.context.rules, key=lambda one: (one.owner != first, one.owner))
    return [RuleAnswer(one.owner, _of_rule(asked, one), one.owner == owner) for one in rules]


def _of_rule(asked: ExplainedObject, rule: Rule) -> str:
    if verdict := asked.dry_run.refusal(rule):
        return f"isn't served: {verdict.reason}: {verdict.message}"
    return _of_served(asked, rule)


def _of_served(asked: ExplainedObject, rule: Rule) -> str:
    spec = rule.spec
    assert not isinstance(spec, InvalidSpec)
    if spec.kind != asked.resource.kind:
        return f"copies objects of kind {spec.kind}"
    if rule.deleting:
        return "is being deleted"
    place = asked.place
    if place is None:
        return "the namespace doesn't exist"
    bindings = list(asked.dry_run.context.index.of_rule(rule.owner).values())
    if not bindings:
        missing = asked.dry_run.elsewhere(rule) or ": ".join(asked.dry_run.no_source(rule))
        return _paused(rule) + missing
    if any(binding.origin == f"{asked.namespace}/{asked.name}" for binding in bindings):
        return _paused(rule) + "this is its source"
    said = (
        composition_fault(asked.dry_run, rule)
        or _outside(bindings[0], place)
        or _of_bindings(asked, rule, bindings, place)
    )
    return _paused(rule) + said


def _paused(rule: Rule) -> str:
    spec = rule.spec
    assert not isinstance(spec, InvalidSpec)
    if spec.suspend:
        return "is suspended; otherwise: "
    return "writes nothing (mode: Plan); otherwise: " if spec.mode is Mode.PLAN else ""


def _of_bindings(
    asked: ExplainedObject, rule: Rule, bindings: list[SourceBinding], place: Namespace
) -> str:
    made = {binding.at(place).name: binding for binding in bindings}
    if asked.name not in made:
        broken = [binding.at(place).problem for binding in bindings if binding.at(place).problem]
        shown = ", ".join(sorted(name for name in made if name)[:3])
        return (
            f"can't be rendered: {broken[0]}"
            if broken
            else f"creates {shown} there, not this object"
        )
    binding = made[asked.name]
    plan = asked.dry_run.context.plan(asked.key)
    if not binding.covers(place):
        return _uncovered(binding, place)
    if problem := binding.at(place).problem:
        return f"can't be rendered: {problem}"
    if plan.winner and plan.winner.owner != rule.owner:
        return f"requires it, but it belongs to the rule {plan.winner.owner}"
    return f"requires it, from {origin_of(binding)}"


def _outside(binding: SourceBinding, place: Namespace) -> str | None:
    """Why the namespace isn't a target of the rule, or None."""
    targets = binding.compiled.targets
    wanted = targets.targets
    if place.labels.get(names.LABEL_IGNORE) == "true":
        return f"{place.name} excludes all rules by the label {names.LABEL_IGNORE}"
    if wanted.namespaces.patterns and not wanted.namespaces.matches(place.name):
        shown = ", ".join(wanted.namespaces.patterns)
        return f"{place.name} doesn't match spec.targets.namespaces ({shown})"
    if wanted.exclude.matches(place.name):
        return f"{place.name} is in spec.targets.exclude ({', '.join(wanted.exclude.patterns)})"
    if not wanted.selector.matches(place.labels):
        return f"{place.name}'s labels don't match {wanted.selector.to_string()}"
    return None if targets.is_accepted_by(place) else _unaccepted(place, targets.tenant)


def _unaccepted(place: Namespace, tenant: str | None) -> str:
    if place.consent and place.consent.problem:
        return f"{place.name}'s annotation {names.ANN_ALLOW_FROM} {place.consent.problem}"
    return (
        f"{place.name} doesn't accept copies from {tenant}: its owner must name that namespace in "
        "the "
        f"annotation {names.ANN_ALLOW_FROM}"
    )


def _uncovered(binding: SourceBinding, place: Namespace) -> str:
    source = binding.source
    if isinstance(binding, ComposedBinding):
        if (origin := binding.forbidding(place.name)) is None:
            return "this is one of its sources"
        return f"the annotation {names.ANN_ALLOW_TO} of {origin} doesn't name {place.name}"
    if source and source.namespace == place.name:
        return "this is its source"
    if source and source.consent and not source.allows(place.name):
        why = source.consent.problem or f"doesn't name {place.name}"
        return f"the annotation {names.ANN_ALLOW_TO} of {binding.origin} {why}"
    return "doesn't select this namespace"
