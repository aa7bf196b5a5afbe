"""Which rules this operator serves, and what it says of one that it doesn't."""

from __future__ import annotations

from copyrator.api.conditions import Verdict
from copyrator.api.rule import InvalidSpec
from copyrator.config import Settings
from copyrator.reconcile import verdicts
from copyrator.reconcile.kinds import Kinds
from copyrator.registry.rules import Rule
from copyrator.rules.trust import tenant_refusal


def tenant_of(rule: Rule, settings: Settings) -> str | None:
    """The namespace of a rule that isn't trusted; None for one that is."""
    return None if rule.key.namespace == settings.namespace else rule.key.namespace


def refusal(rule: Rule, settings: Settings, kinds: Kinds) -> Verdict | None:
    """Why a rule isn't served, or None; judged before anything is watched or read in its name."""
    tenant = tenant_of(rule, settings)
    if tenant and not settings.tenant_rules:
        return verdicts.not_trusted(settings.namespace)
    if isinstance(rule.spec, InvalidSpec):
        return verdicts.invalid(rule.spec)
    if tenant and (why := tenant_refusal(rule.spec, tenant)):
        return verdicts.tenant_refused(why)
    if not kinds.allows(rule.spec.kind, rule.spec.api_version):
        return verdicts.kind_not_allowed(rule.spec.kind)
    sources = rule.spec.source.namespaces if rule.spec.source else ()
    if outside := [name for name in sources if not settings.serves(name)]:
        return verdicts.outside(outside)
    return None
