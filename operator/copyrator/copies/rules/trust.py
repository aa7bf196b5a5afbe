"""What the template of a tenant's copy names may contain: known variables and a few filters.

A tenant's text is processed in a process that serves all tenants. So that nothing in it can take
long or make long texts, its allowed parts are listed here; all else is refused before it is
compiled.

What a tenant's rule may do: less than a trusted one, to prevent privilege escalation.

Anybody who may write rules in the operator's namespace is trusted with all that the operator may
do. A tenant's rule reads only its own namespace, which its author is expected to be able to read,
and writes only where the target's owner consented.
"""

from __future__ import annotations

from typing import Final

import jinja2
from jinja2 import nodes

from copyrator.api.rule_spec import ConflictPolicy, RuleSpec
from copyrator.copies.template.compiling import ENVIRONMENT, is_jinja

TENANT_NAME_TEXT: Final = 1_024  # limit: rules
"""Characters of spec.transform.name of a tenant's rule, as in the CRD: parsing that many takes 10
ms at most."""

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


TENANT_FILTERS: Final = ("d", "default", "lower", "replace", "trim", "truncate", "upper")
"""Filters that a tenant's name may use, with constants as arguments."""

TENANT_VARIABLES: Final = ("namespace", "rule", "source")
"""Variables that a tenant's name may use."""

_HINT: Final = (
    f"outside the operator's namespace it may contain {', '.join(TENANT_VARIABLES)} with their "
    "fields "
    f"and the filters {', '.join(TENANT_FILTERS)}"
)

_ALLOWED: Final = (
    nodes.Const,
    nodes.Filter,
    nodes.Getattr,
    nodes.Getitem,
    nodes.Keyword,
    nodes.Name,
    nodes.Output,
    nodes.TemplateData,
)

_WORDS: Final[dict[type[nodes.Node], str]] = {
    nodes.Call: "a call",
    nodes.CondExpr: "a condition",
    nodes.Compare: "a comparison",
    nodes.Concat: "the operator ~",
    nodes.For: "a loop",
    nodes.If: "a condition",
    nodes.Macro: "a macro",
    nodes.Test: "a test",
    nodes.Assign: "set",
    nodes.AssignBlock: "set",
    nodes.List: "a list",
    nodes.Tuple: "a list",
    nodes.Dict: "a map",
}


def name_refusal(text: str) -> str | None:
    """Why a tenant's rule may not have this ``spec.transform.name``, or None.

    What isn't valid Jinja2 is left to the compiler, which reports the error.
    """
    if len(text) > TENANT_NAME_TEXT:
        return f"spec.transform.name is longer than {TENANT_NAME_TEXT} characters; shorten it"
    if not is_jinja(text):
        return None
    try:
        tree = ENVIRONMENT.parse(text)
    except (jinja2.TemplateError, ValueError, RecursionError):
        return None
    pending: list[nodes.Node] = list(tree.iter_child_nodes())
    while pending:
        node = pending.pop()
        if (fault := _fault(node)) is not None:
            return f"spec.transform.name uses {fault}: {_HINT}"
        pending += node.iter_child_nodes()
    return None


def _fault(node: nodes.Node) -> str | None:
    """What of this node, without its children, isn't allowed; None where all is."""
    fault = None
    match node:
        case nodes.Name(name=name) if name not in TENANT_VARIABLES:
            fault = f"the name {name[:40]!r}"
        case nodes.Const(value=value) if not isinstance(value, str | int):
            fault = "a number with a fraction"
        case nodes.Getitem() if not isinstance(node.arg, nodes.Const):
            fault = "a part that isn't named by a constant"
        case nodes.Filter(name=name) if name not in TENANT_FILTERS:
            fault = f"the filter {str(name)[:40]!r}"
        case nodes.Filter() if node.node is None or not _has_constants(node):
            fault = "a filter whose arguments aren't constants"
        case nodes.BinExpr() | nodes.UnaryExpr():
            fault = _WORDS.get(type(node), "an operator")
        case _ if not isinstance(node, _ALLOWED):
            fault = _WORDS.get(type(node), type(node).__name__)
    return fault


def _has_constants(node: nodes.Filter) -> bool:
    values = [*node.args, *(keyword.value for keyword in node.kwargs)]
    return (
        node.dyn_args is None
        and node.dyn_kwargs is None
        and all(isinstance(value, nodes.Const) for value in values)
    )
