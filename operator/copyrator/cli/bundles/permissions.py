"""What a Bundle's service account lacks, by its status, and the roles that grant it.

A status may be forged by who may write it: entries of another form than the operator's are ignored.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from copyrator.api.schema import InvalidSpec
from copyrator.bundles.jobs.rights import ServiceAccount
from copyrator.cli.core.cluster import Target
from copyrator.cli.core.faults import Fault
from copyrator.cli.core.objects import means, one
from copyrator.cli.core.output import Format, show_all
from copyrator.kube import errors
from copyrator.kube.resources import CLUSTERROLES, ROLES

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus, MissingPermission
from copyrator.api.text import count, time_since
from copyrator.bundles.features.cluster.fields import ClusterSpec
from copyrator.bundles.jobs.rights import (
    EVENTS_NAMESPACE,
    format_permission,
    list_missing,
)
from copyrator.bundles.plans.fields import PlanOutcome, PlanStatus
from copyrator.bundles.plans.rights import is_uninstalled, missing_of, required_permissions
from copyrator.cli.bundles.roles import add_rules, grants, uninstall_permissions
from copyrator.cli.core.faults import hint
from copyrator.cli.view.bundle import BundleView

_CHARTS_ACCOUNT: Final = "werf"
"""The service account that the chart creates in werf.namespaces."""


def explain_permissions(view: BundleView, spec: BundleSpec) -> Iterator[str]:
    """The lines of `why` about missing permissions; none where none is known to be missing."""
    status = view.status
    missing = missing_of(status)
    if not missing:
        return
    if is_uninstalled(status):
        yield from _explain_uninstall(view, spec, missing)
        return
    plan, attempted = status.part(PlanStatus), status.attempted
    found = attempted.finished_at if attempted.missing else plan.made_at or plan.started_at
    account = ServiceAccount.of(spec)
    ago = f" {time_since(found, view.now)} ago" if found else ""
    is_local = account.namespace == spec.project_namespace and not spec.uses(ClusterSpec)
    if is_local and account.name == _CHARTS_ACCOUNT:
        yield (
            f"The chart's value werf.namespaces grants what most charts need: add "
            f"{account.namespace} to it; other kinds are in werf.kinds."
        )
    yield f"The service account {account} lacked permissions{ago}; it cannot"
    yield from (f"  {format_permission(one)}" for one in missing)
    where = {one.namespace for one in status.part(PlanStatus).missing if one.resource == "events"}
    if EVENTS_NAMESPACE in where and spec.project_namespace != EVENTS_NAMESPACE:
        yield f"  Without events in {EVENTS_NAMESPACE} it deploys, but werf shows no Events."
    if more := _unlisted(status):
        yield f"  and {count(more, 'more permission')} that the status doesn't list."
    if unreviewed := status.part(PlanStatus).unreviewed:
        yield f"  What {count(unreviewed, 'more kind')} needs isn't reviewed."
    if _is_by_blind_applies(status):
        yield (
            "Named by the plan's blind applies, one permission each. Whether more are missing "
            f"isn't known: the operator may not review permissions; see: {hint('doctor')}"
        )
    if status.part(PlanStatus).outcome is None:
        anew = view.hint("plan", "--refresh")
        yield f"werf names one permission at a time; a plan names all: {anew}"
    yield f"To grant them: {_roles_hint(view)} | kubectl apply -f -"
    yield f"Then: {_next(view)}"


def _explain_uninstall(
    view: BundleView, spec: BundleSpec, missing: Sequence[MissingPermission]
) -> Iterator[str]:
    yield f"The service account {ServiceAccount.of(spec)} lacks permissions to uninstall; it cannot"
    yield from (f"  {format_permission(one)}" for one in missing)
    yield "werf names one at a time. Besides get, list, watch, delete of its objects it needs"
    yield from (f"  {format_permission(one)}" for one in _needs_of_uninstall(view.status, spec))
    yield "  git in its image, with werf 3"
    yield f"To grant them: {_roles_hint(view)} | kubectl apply -f -"
    yield "Then the uninstall is retried by itself."


def _needs_of_uninstall(status: BundleStatus, spec: BundleSpec) -> tuple[MissingPermission, ...]:
    where = status.deployed.namespace or status.attempted.namespace or spec.project_namespace
    return list_missing(uninstall_permissions(where))


def _is_by_blind_applies(status: BundleStatus) -> bool:
    """Whether they are from the plan's blind applies: reviews count all."""
    plan = status.part(PlanStatus)
    made = plan.outcome == PlanOutcome.PLANNED
    return made and bool(plan.missing) and plan.missing_permissions is None


def _unlisted(status: BundleStatus) -> int:
    listed = sum(len(one.verbs) for one in status.part(PlanStatus).missing)
    return max((status.part(PlanStatus).missing_permissions or 0) - listed, 0)


def _roles_hint(view: BundleView) -> str:
    return hint("why", str(view.name), "--kind", "bundle", "--roles")


def _next(view: BundleView) -> str:
    plan, attempted = view.status.part(PlanStatus), view.status.attempted
    is_proved = plan.job == attempted.plan_job
    if plan.outcome in (PlanOutcome.PLANNED, PlanOutcome.FAILED) and not is_proved:
        return view.hint("plan", "--refresh")
    return view.hint("reconcile")


def roles_of(
    view: BundleView, spec: BundleSpec, *, is_namespace_missing: bool = False
) -> list[dict[str, Any]]:
    """The roles and bindings that grant what is missing, ready to be applied in this order.

    A Role can't be created in a namespace that doesn't exist: the release's comes first then, and
    werf needn't create it.
    """
    status = view.status
    missing = missing_of(status)
    if missing and is_uninstalled(status):
        missing = (*missing, *_needs_of_uninstall(status, spec))
    elif missing and status.part(PlanStatus).missing_permissions is None:  # not reviewed
        missing = (*missing, *list_missing(required_permissions(spec.project_namespace, {})))
    if not is_namespace_missing or not missing:
        return grants(ServiceAccount.of(spec), spec.name, missing)
    name = spec.project_namespace
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    others = [one for one in missing if one.namespace is not None or one.resource != "namespaces"]
    return [space, *grants(ServiceAccount.of(spec), spec.name, others)]


def manifest(view: BundleView, spec: BundleSpec, roles: Sequence[Mapping[str, Any]]) -> str:
    """Roles as YAML, with what to know about them as comments."""
    status = view.status
    account = ServiceAccount.of(spec)
    to_do = "uninstall" if is_uninstalled(status) else "deploy"
    lines = [
        f"# Grants the service account {account} what it lacks to {to_do} {spec.name}.",
        "# What is needed is decided by its chart: read this before you apply it.",
    ]
    if to_do == "deploy" and (more := _unlisted(status)):
        lines.append(
            f"# {count(more, 'more permission')} aren't listed: apply this, then run "
            f"{view.hint('plan', '--refresh')}, and run `why` again."
        )
    if to_do == "deploy" and _is_by_blind_applies(status):
        lines.append("# By the plan's blind applies, which name one permission each: see `why`.")
    text = yaml.safe_dump_all(roles, sort_keys=False, explicit_start=True)
    return "\n".join((*lines, text.rstrip()))


_ROLES: Final = {one.kind: one for one in (ROLES, CLUSTERROLES)}


async def print_roles(
    target: Target, namespace: str, name: str, kind: str | None, shape: Format | None
) -> None:
    """Print those of a Bundle for ``kubectl apply -f -``, as YAML or, with ``-o json``, as a List.

    Raises:
        Fault: nothing is known to be missing.
    """
    if kind is not None and not means(kind, "bundles"):
        raise click.UsageError("--roles is only for Bundles: --kind bundle")
    from copyrator.bundles.plans.jobs import is_namespace_missing  # noqa: PLC0415 - only for roles
    from copyrator.cli.bundles.plan_log import with_refusals  # noqa: PLC0415 - only for roles

    async with target.connect() as client:
        body = await with_refusals(client, await one(client, "bundles", namespace, name))
        view = BundleView(body, datetime.now(UTC))
        if isinstance(spec := view.spec, InvalidSpec):
            raise Fault(f"Bundle {namespace}/{name}: {spec}")
        is_local = not spec.uses(ClusterSpec)
        is_missing = is_local and await is_namespace_missing(client, spec.project_namespace)
        roles = roles_of(view, spec, is_namespace_missing=is_missing)
        if not roles:
            raise Fault(_nothing(view, ServiceAccount.of(spec)))
        roles = [await _with_granted(client, role) for role in roles]
    click.echo(manifest(view, spec, roles)) if shape is None else show_all(roles, shape)


async def _with_granted(client: KubeClient, role: dict[str, Any]) -> dict[str, Any]:
    """The same object; a role with the rules that it has in the cluster, too."""
    if (resource := _ROLES.get(role["kind"])) is None:
        return role
    place = role["metadata"]
    try:
        there = await client.get(resource, place.get("namespace"), place["name"])
    except errors.NotFound:
        return role
    except errors.Forbidden as error:
        what = f"{role['kind']} {place['name']}"
        click.echo(
            f"Warning: {what} can't be read, so applying this takes away what it grants now: "
            f"{error.message}",
            err=True,
        )
        return role
    return add_rules(role, there.get("rules") or [])


def _nothing(view: BundleView, account: ServiceAccount) -> str:
    if view.status.part(PlanStatus).missing_permissions is not None:
        return f"the service account {account} lacks nothing that the plan was reviewed for"
    anew = view.hint("plan", "--refresh")
    return (
        f"it isn't known what the service account {account} lacks: no plan was made, or the "
        f"operator may not review permissions (see {hint('doctor')}); to make a plan: {anew}"
    )
