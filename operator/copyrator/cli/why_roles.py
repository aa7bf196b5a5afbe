"""`copyrator why --roles`: what grants a Bundle's service account the permissions that it lacks."""

from __future__ import annotations

import click

from copyrator.api.bundle import parse_bundle
from copyrator.api.bundle_spec import BundleDefaults
from copyrator.api.bundle_status import parse_status
from copyrator.api.fields import InvalidSpec
from copyrator.bundles.plan.permissions import is_namespace_missing
from copyrator.bundles.plan.rights import ServiceAccount
from copyrator.cli.blind_applies import with_refusals
from copyrator.cli.bundle_permissions import Body, manifest, roles_of
from copyrator.cli.cluster import Target, run
from copyrator.cli.faults import Fault
from copyrator.cli.hints import hint, hint_about
from copyrator.cli.objects import one
from copyrator.cli.output import Format, dump


def print_roles(
    target: Target, namespace: str, name: str, kind: str | None, shape: Format | None
) -> None:
    """Print them for ``kubectl apply -f -``, as YAML or, with ``-o json``, as a List.

    Raises:
        Fault: nothing is known to be missing.
    """
    if kind is not None and kind.lower() not in ("bundle", "bundles"):
        raise click.UsageError("--roles is only for Bundles: --kind bundle")
    body, is_missing = run(_looked_at(target, namespace, name))
    spec = parse_bundle(body, BundleDefaults())
    if isinstance(spec, InvalidSpec):
        raise Fault(f"Bundle {namespace}/{name}: {spec}")
    roles = roles_of(body, spec, is_namespace_missing=is_missing)
    if not roles:
        raise Fault(_nothing(body, ServiceAccount.of(spec)))
    if shape is None:
        click.echo(manifest(body, spec, roles))
    else:
        dump({"apiVersion": "v1", "kind": "List", "items": roles}, shape)


async def _looked_at(target: Target, namespace: str, name: str) -> tuple[Body, bool]:
    async with target.connect() as client:
        body = await with_refusals(client, await one(client, "bundles", namespace, name))
        spec = parse_bundle(body, BundleDefaults())
        where = namespace if isinstance(spec, InvalidSpec) else spec.project_namespace
        return body, await is_namespace_missing(client, where)


def _nothing(body: Body, account: ServiceAccount) -> str:
    plan = parse_status(body).plan
    if plan.missing_permissions is not None:
        return f"the service account {account} lacks nothing that the plan was reviewed for"
    anew = hint_about("plan", "bundle", body, "--refresh")
    return (
        f"it isn't known what the service account {account} lacks: no plan was made, or the "
        f"operator may not review permissions (see {hint('doctor')}); to make a plan: {anew}"
    )
