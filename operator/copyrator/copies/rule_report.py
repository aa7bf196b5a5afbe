"""Reports a served rule in its status."""

from __future__ import annotations

import dataclasses
from typing import Final

from copyrator.api.certificates import Certificate, soonest
from copyrator.api.rule_spec import RuleSpec
from copyrator.api.rule_status import read_dropped
from copyrator.copies import ready_conditions
from copyrator.copies.cache.rules import Rule
from copyrator.copies.composed_rules import binding_of
from copyrator.copies.context import CopyContext
from copyrator.copies.rule_state import RuleState
from copyrator.copies.source_watches import unused_sources
from copyrator.copies.status import write_status
from copyrator.copies.summarize import RuleSummary
from copyrator.workqueue.fairness import TimeSlice


async def report(context: CopyContext, state: RuleState, rule: Rule, summary: RuleSummary) -> None:
    """Write what a summary found.

    Raises:
        ApiError: the status can't be written.
    """
    compiled = state.compiled
    assert compiled is not None
    spec, composed = compiled.spec, binding_of(context, rule.owner)
    unused = ""
    if composed is not None:
        sources = composed.composition.count()
    else:
        sources = len(context.index.of_rule(rule.owner)) if spec.source is not None else 0
        unused = "" if sources else unused_sources(context, state)
    assert context.home.namespace_watch is not None
    condition = ready_conditions.watch_fault(
        [
            *state.sources,
            context.home.kinds[compiled.resource].registration,
            context.home.namespace_watch,
        ]
    ) or ready_conditions.summarized(
        compiled,
        summary,
        sources,
        unused,
        ready_conditions.Waits(state.unconfirmed, state.rollout, state.rollout_fault),
    )
    found = ready_conditions.facts(spec, summary, sources=sources, targets=len(compiled.targets))
    found = dataclasses.replace(
        found,
        certificates=await _certificates(context, rule),
        rollout=state.rollout,
        dropped=dropped_fields(state, rule, spec),
    )
    if composed is not None:
        composition = composed.composition
        found = dataclasses.replace(
            found,
            overridden=tuple(composition.overridden),
            passed_over=tuple(composition.passed_over),
            composed_of=composition.to_string(),
        )
    await write_status(context, state, rule, condition, found)


def dropped_fields(state: RuleState, rule: Rule, spec: RuleSpec) -> list[str]:
    """The fields that copies are written without.

    Of a template's metadata only some is written at all; the rest is known from the API server,
    and as long as nothing was written, from the status.
    """
    metadata = spec.template.body["metadata"] if spec.template else {}
    ours = {f"metadata.{key}" for key, value in metadata.items() if value and key not in _WRITTEN}
    known = state.dropped
    if known is None:
        known = {one for one in read_dropped(rule.status) if not one.startswith("metadata.")}
    return sorted(known | ours)


_WRITTEN: Final = frozenset({"name", "namespace", "labels", "annotations"})


async def _certificates(context: CopyContext, rule: Rule) -> tuple[Certificate, ...]:
    """Of all sources; each is read once a change."""
    turn = TimeSlice()
    found: tuple[Certificate, ...] = ()
    for binding in list(context.index.of_rule(rule.owner).values()):
        if binding.certificates:
            found = soonest((*found, *binding.certificates))
        await turn.pause()
    return found
