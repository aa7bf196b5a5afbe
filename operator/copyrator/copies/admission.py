"""Which rules this operator serves, and the conditions of those that it refuses."""

from __future__ import annotations

from copyrator.api import names
from copyrator.api.conditions import ReadyCondition
from copyrator.api.fields import InvalidSpec
from copyrator.api.keys import RuleKey
from copyrator.api.rule_spec import RuleSpec
from copyrator.copies import ready_conditions
from copyrator.copies.cache.rules import Rule
from copyrator.copies.kinds import Kinds
from copyrator.copies.policy.trust import tenant_refusal
from copyrator.settings.config import Settings


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
    if not kinds.allows(rule.spec.kind, rule.spec.api_version):
        return ready_conditions.kind_not_allowed(rule.spec.kind, rule.spec.api_version)
    return _sources_refusal(rule.spec, settings, kinds)


def _sources_refusal(spec: RuleSpec, settings: Settings, kinds: Kinds) -> ReadyCondition | None:
    """Why the sources of a rule can't be read, or None."""
    for source in spec.all_sources:
        if not kinds.allows(source.kind, source.api_version):
            return ready_conditions.kind_not_allowed(source.kind, source.api_version)
    spaces = (name for source in spec.all_sources for name in source.namespaces)
    if outside := [name for name in dict.fromkeys(spaces) if not settings.serves(name)]:
        return ready_conditions.outside(outside)
    return None
