"""`copyrator create`: a rule or Bundle from flags, printed or created."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from copyrator.api import names
from copyrator.cli.core.cluster import Target, cluster_options, run
from copyrator.cli.core.faults import Fault
from copyrator.cli.core.objects import RESOURCES
from copyrator.cli.core.output import Format, dump, object_option, show, show_result
from copyrator.cli.offline.manifests import Manifest
from copyrator.cli.offline.validate import check
from copyrator.kube.watch.store import name_of

_export = click.option("--export", is_flag=True, help="Print the manifest; nothing is created.")
_name = click.argument("name")


@click.group()
def create() -> None:
    """Create a rule or Bundle from flags; with --export only print its manifest."""


@create.command("rule")
@_name
@cluster_options()
@click.option("--kind", default="Secret", show_default=True, help="Kind of the source.")
@click.option("--source", metavar="[NAMESPACE/]NAME", help="Name of the source.")
@click.option("--selector", metavar="LABELS", help="Label selector of the sources: a=b,c=d.")
@click.option(
    "--from", "place", metavar="NAMESPACE", help="Namespace of the source; default: the rule's."
)
@click.option("--to", multiple=True, metavar="GLOB", help="Target namespaces; default: all.")
@click.option("--exclude", multiple=True, metavar="GLOB", help="Namespaces to exclude.")
@_export
@object_option
def rule(target: Target, name: str, *, export: bool, shape: Format | None, **options: Any) -> None:
    """Copy a source to other namespaces.

    copyrator create rule creds --source default/registry-creds --to 'team-*' --export
    """
    if bool(options["source"]) == bool(options["selector"]):
        raise click.UsageError("set exactly one of --source and --selector")
    body = _body(names.RULE_API_VERSION, names.RULE_KIND, target, name, rule_spec(**options))
    _finish(target, "rules", body, shape, export=export)


def rule_spec(
    *,
    kind: str,
    source: str | None,
    selector: str | None,
    place: str | None,
    to: tuple[str, ...],
    exclude: tuple[str, ...],
) -> dict[str, Any]:
    """The spec of a rule from its options."""
    before, _, name = (source or "").rpartition("/")
    found: dict[str, Any] = {"kind": kind}
    if namespace := place or before:
        found["namespace"] = namespace
    if selector:
        pairs = [pair.partition("=") for pair in selector.split(",")]
        found["selector"] = {"matchLabels": {key.strip(): value for key, _, value in pairs}}
    else:
        found["name"] = name
    spec: dict[str, Any] = {"source": found}
    if targets := {k: list(v) for k, v in (("namespaces", to), ("exclude", exclude)) if v}:
        spec["targets"] = targets
    return spec


@create.command("bundle")
@_name
@cluster_options()
@click.option(
    "--from", "repository", required=True, metavar="REGISTRY/REPO", help="Repository of the bundle."
)
@click.option("--version", metavar="VERSION", help="Tag, 1.2.* or range; default: latest.")
@click.option("--auth", metavar="SECRET", help="Secret with the registry's credentials.")
@click.option("--values", metavar="CONFIGMAP", help="ConfigMap with values files.")
@click.option("--interval", metavar="DURATION", help="Interval of polls, such as 5m.")
@click.option("--project-namespace", metavar="NAMESPACE", help="Namespace of the release.")
@_export
@object_option
def bundle(
    target: Target, name: str, *, export: bool, shape: Format | None, **options: Any
) -> None:
    """Deploy a werf bundle from a registry.

    copyrator create bundle shop --from registry.example.com/team/shop --version '1.*' --export
    """
    body = _body(names.BUNDLE_API_VERSION, names.BUNDLE_KIND, target, name, bundle_spec(**options))
    _finish(target, "bundles", body, shape, export=export)


def bundle_spec(*, repository: str, **fields: str | None) -> dict[str, Any]:
    """The spec of a Bundle from its options."""
    registry, _, repo = repository.partition("/")
    given = {name: value for name, value in fields.items() if value}
    return {"registry": registry, "repo": repo, **given}


def _body(
    version: str, kind: str, target: Target, name: str, spec: Mapping[str, Any]
) -> dict[str, Any]:
    metadata = {"name": name}
    if target.namespace_option:
        metadata["namespace"] = target.namespace_option
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": dict(spec)}


def _finish(
    target: Target, what: str, body: dict[str, Any], shape: Format | None, *, export: bool
) -> None:
    """Print the manifest, or create the object.

    Raises:
        Fault: it isn't valid.
    """
    found = [finding.problem for finding in check(Manifest("flags", body, {}))]
    if found:
        raise Fault("; ".join(f"{problem.field}: {problem.message}" for problem in found))
    if export:
        dump(body, Format.YAML) if shape is None else show(body, shape)
        return
    made = run(_create(target, what, body))
    show_result(made, f"{what.removesuffix('s')} {name_of(made)} created.", shape)


async def _create(target: Target, what: str, body: dict[str, Any]) -> dict[str, Any]:
    async with target.connect() as client:
        return await client.create(RESOURCES[what], target.namespace, body)
