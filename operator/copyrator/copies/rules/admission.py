"""Which rules this operator serves, why it refuses others, and their compiled Jinja2.

Short texts are compiled in this process, one by one with pauses; all others in a child process,
since neither Jinja2 nor Python's compiler can be interrupted. A rule that can't be compiled is not
retried until it is changed. Jinja2 is imported for the first rule that has any.
"""

# ruff: noqa: PLC0415 - late imports are intended, see above

from __future__ import annotations

import asyncio
import importlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from copyrator.api import names
from copyrator.api.conditions import ReadyCondition
from copyrator.api.keys import RuleKey
from copyrator.api.reasons.rules import RuleReason
from copyrator.api.rule_spec import RuleSpec, path_of
from copyrator.api.schema import InvalidSpec
from copyrator.copies.context import CopyContext
from copyrator.copies.rules import ready_conditions
from copyrator.copies.rules.rules import Rule, tenant_refusal
from copyrator.copies.targets.kinds import Kinds
from copyrator.copies.template.rendering import SOURCES, Text, rule_texts
from copyrator.kube import errors
from copyrator.kube.resources import Discovery
from copyrator.settings.config import Settings
from copyrator.workqueue.fairness import TimeSlice
from copyrator.workqueue.isolated import IsolatedError

COMPILED_AT_ONCE: Final = 512
"""Characters of the longest string that is compiled in the operator's own process: of nothing but
Jinja2 it takes 15 ms. A longer one is compiled in the child process."""

COMPILED_HERE: Final = 2_048
"""Characters of all strings of a rule up to which the operator's own process compiles them."""

COMPILED_TOGETHER: Final = 65_536
"""Characters of strings that the child process compiles in one call: two seconds at most."""


def is_served(key: RuleKey, settings: Settings) -> bool:
    """Whether this operator serves a rule of this name and namespace; others aren't parsed."""
    named = settings.rule_name in (None, key.name)
    return named and (key.namespace == settings.namespace or settings.tenant_rules)


def is_managed(rule: Rule, settings: Settings) -> bool:
    """Whether this operator writes anything to the rule at all."""
    if is_served(rule.key, settings):
        return True
    if settings.rule_name not in (None, rule.key.name):
        return False
    # Another operator serves it: both would overwrite each other's status.
    return names.FINALIZER_RULE not in rule.finalizers


def may_end(rule: Rule, settings: Settings, kinds: Kinds) -> bool:
    """Whether this operator removes the finalizer.

    Also of a rule that is no longer served (the settings changed), but not where another operator
    serves it and only that one can list its copies.
    """
    return is_managed(rule, settings) or rule.kind is None or kinds.allows(*rule.kind)


def tenant_of(rule: Rule, settings: Settings) -> str | None:
    """The namespace of an untrusted rule; None for a trusted one."""
    return None if rule.key.namespace == settings.namespace else rule.key.namespace


def refusal(rule: Rule, settings: Settings, kinds: Kinds) -> ReadyCondition | None:
    """Why a rule isn't served, or None; evaluated before anything is watched or read for it."""
    tenant = tenant_of(rule, settings)
    if tenant and not settings.tenant_rules:
        return ready_conditions.not_trusted(settings.namespace)
    if isinstance(rule.spec, InvalidSpec):
        return ready_conditions.invalid(rule.spec)
    if tenant and (why := tenant_refusal(rule.spec, tenant)):
        return ready_conditions.tenant_refused(why)
    if refused := _refused_kind(rule.spec, kinds):
        return ready_conditions.kind_not_allowed(*refused)
    local = (source for source in rule.spec.all_sources if source.kubeconfig is None)
    spaces = (name for source in local for name in source.namespaces)
    if outside := [name for name in dict.fromkeys(spaces) if not settings.serves(name)]:
        return ready_conditions.outside(outside)
    return None


def _refused_kind(spec: RuleSpec, kinds: Kinds) -> tuple[str, str | None] | None:
    """The first kind that isn't allowed, with its apiVersion where the rule has one."""
    wanted = [(spec.kind, spec.api_version)]
    wanted += [(source.kind, source.api_version) for source in spec.all_sources]
    return next((one for one in wanted if not kinds.allows(*one)), None)


async def name_group(
    condition: ReadyCondition, spec: RuleSpec, kinds: Kinds, discovery: Discovery
) -> ReadyCondition:
    """A refusal that names the API group of a kind that isn't allowed, as the cluster serves it."""
    refused = _refused_kind(spec, kinds)
    if condition.reason != RuleReason.KIND_UNAVAILABLE or refused is None or refused[1]:
        return condition
    try:
        resource = await discovery.resolve(refused[0])
    except (errors.KindUnavailable, errors.AmbiguousKind) as error:
        return ready_conditions.kind_unavailable(error)
    except errors.ApiError:
        return condition
    return ready_conditions.kind_not_allowed(resource.kind, resource.api_version)


_NAME = "spec.template.metadata.name"
LIMITS_AGAIN = 600.0
"""Seconds before a text that exceeded the child process's limits is retried.

Memory may have been short.
"""


@dataclass(frozen=True, slots=True)
class _Fault:
    """Why a rule can't be compiled."""

    uid: str
    generation: int
    condition: ReadyCondition
    until: float
    """Loop time."""


class RuleCompiler:
    """Compiles rules, and caches why a rule can't be compiled."""

    def __init__(self, context: CopyContext) -> None:
        self._context = context
        self._faults: dict[RuleKey, _Fault] = {}

    def forget(self, key: RuleKey) -> None:
        """Drop what is cached of a deleted rule."""
        self._faults.pop(key, None)

    async def compile(self, rule: Rule, spec: RuleSpec) -> Mapping[str, Text] | ReadyCondition:
        """All compiled Jinja2 texts of a rule, or why they can't be compiled."""
        fault = self._faults.get(rule.key)
        if (
            fault is not None
            and (fault.uid, fault.generation) == (rule.uid, rule.generation)
            and self._context.monotonic() < fault.until
        ):
            return fault.condition
        self._faults.pop(rule.key, None)
        if not (spec.template or spec.transform.name):
            return {}
        # The first time it takes some 40 ms, which is too long for the event loop.
        await asyncio.to_thread(importlib.import_module, "copyrator.copies.template.compiling")
        until = math.inf
        try:
            found = await self._texts(rule, spec)
        except IsolatedError as error:
            path = "spec.template" if spec.template else "spec.transform.name"
            problem = InvalidSpec(path, f"can't be compiled: {error}; shorten its Jinja2")
            found = ready_conditions.invalid(problem)
            until = self._context.monotonic() + LIMITS_AGAIN
        if isinstance(found, ReadyCondition):
            self._faults[rule.key] = _Fault(rule.uid, rule.generation, found, until)
        return found

    async def _texts(self, rule: Rule, spec: RuleSpec) -> dict[str, Text] | ReadyCondition:
        from copyrator.copies.template.compiling import compile_texts, name_refusal

        places = {text: place for place, text in rule_texts(spec)}
        name = spec.transform.name if tenant_of(rule, self._context.settings) else None
        if name and (why := name_refusal(name)):
            return ready_conditions.tenant_refused(why)
        own_name = spec.template.body["metadata"]["name"] if spec.template else None
        lengths = [len(text) for text in places]
        here = sum(lengths) <= COMPILED_HERE and max(lengths, default=0) <= COMPILED_AT_ONCE
        slice_ = TimeSlice()
        found: dict[str, Text] = {}
        for batch in [[text] for text in places] if here else _batches(places):
            if here:
                answers = compile_texts(batch)
            else:
                answers = await self._context.isolated.call(
                    compile_texts, rule.key.namespace, batch
                )
            for text, answer in answers.items():
                if isinstance(answer, str):
                    return ready_conditions.invalid(InvalidSpec(path_of(places[text]), answer))
                if SOURCES in answer.names and text == own_name:
                    why = "can't depend on sources: the names of copies are fixed"
                    return ready_conditions.invalid(InvalidSpec(_NAME, why))
                found[text] = Text(text, answer)
                await slice_.pause()
        return found


def _batches(texts: Mapping[str, object]) -> list[list[str]]:
    """The texts in batches, each of which the child process compiles in one call."""
    batches: list[list[str]] = []
    left = 0
    for text in texts:
        if len(text) > left:
            batches.append([])
            left = COMPILED_TOGETHER
        batches[-1].append(text)
        left -= len(text)
    return batches
