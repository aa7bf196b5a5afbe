"""What a tenant's rule may do: less than a trusted one, to prevent privilege escalation.

Anybody who may write rules in the operator's namespace is trusted with all that the operator may
do. A tenant's rule reads only its own namespace, which its author is expected to be able to read,
and writes only where the target's owner consented.
"""

from __future__ import annotations

from typing import Final

from copyrator.api.rule_spec import ConflictPolicy, RuleSpec

TENANT_KINDS: Final = ("ConfigMap", "Secret")
"""Kinds that grant no permissions by themselves; a copied RoleBinding would."""


def tenant_refusal(spec: RuleSpec, home: str) -> str | None:
    """Why a rule of the namespace ``home`` isn't served there, or None.

    Evaluated before anything is watched or read for the rule.
    """
    if spec.source is None:
        return "spec.template is for trusted rules only: it can create any object; use spec.source"
    source = spec.source
    if source.kind not in TENANT_KINDS or source.api_version not in (None, "v1"):
        return (
            f"spec.source.kind is {source.kind}: outside the operator's namespace rules copy "
            f"{' and '.join(TENANT_KINDS)} only"
        )
    elsewhere = [namespace for namespace in source.namespaces if namespace != home]
    if elsewhere:
        where = "namespace" if spec.legacy else "spec.source.namespace"
        return (
            f"{where} names {', '.join(elsewhere)}: outside the operator's namespace a rule's "
            "sources "
            f"must be in its own namespace, {home}"
        )
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
