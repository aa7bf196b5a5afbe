"""`copyrator create`: a rule or Bundle from flags."""

# ruff: noqa: PLC0415 - the parsers are imported late: not for --help

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from copyrator.api import names
from copyrator.api.clouds import Provider
from copyrator.api.reasons.rules import RuleReason
from copyrator.cli.core.cluster import Target, cluster_options
from copyrator.cli.core.faults import Fault
from copyrator.cli.core.installation import find_installation, operator_namespace_option
from copyrator.cli.core.objects import ObjectOptions
from copyrator.cli.core.output import (
    Choice,
    Format,
    dump,
    object_option,
    prose,
    show,
)
from copyrator.cli.core.waiting import observed, show_end, wait, wait_as_asked, wait_options
from copyrator.cli.view import rows
from copyrator.kube.resources import BUNDLES, RULES
from copyrator.kube.watch.reflector import name_of
from copyrator.settings.config import Settings

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient

RESPONSE: Final = 10.0
"""Seconds in which an operator whose settings aren't known responds to a rule."""
_DEFAULT: Final = "default"
"""The namespace of contexts that choose none."""

_wait = wait_options("it is Ready", response=False)
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
@click.option(
    "--to", multiple=True, required=True, metavar="GLOB", help="Target namespaces; '*' for all."
)
@click.option("--exclude", multiple=True, metavar="GLOB", help="Namespaces to exclude.")
@operator_namespace_option
@_export
@_wait
@object_option
async def rule(
    target: Target,
    name: str,
    *,
    home: str | None,
    export: bool,
    waits: bool,
    timeout: float,  # noqa: ASYNC109 - the option
    shape: Format | None,
    **fields: Any,
) -> None:
    """Copy a source to other namespaces.

    Without -n, and without a namespace of the context other than default, the rule is created in
    the operator's.

    copyrator create rule creds --source default/registry-creds --to 'team-*'
    """
    if bool(fields["source"]) == bool(fields["selector"]):
        raise click.UsageError("set exactly one of --source and --selector")
    body = _body(names.RULE_API_VERSION, names.RULE_KIND, target, name, rule_spec(**fields))
    if export and not target.namespace_option:
        prose(["No namespace is set: apply it in the operator's, or set --namespace."], err=True)
    if not _exports(body, shape, export=export):
        options = ObjectOptions(
            target=target, name=name, what="rules", timeout=timeout, waits=waits, shape=shape
        )
        made = await _create_rule(options, body, home)
        show_end(options, made, f"rule {name_of(made)} created")


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
    targets = {"namespaces": list(to)} | ({"exclude": list(exclude)} if exclude else {})
    return {"source": found, "targets": targets}


@create.command("bundle")
@_name
@cluster_options()
@click.option(
    "--from", "repository", required=True, metavar="REGISTRY/REPO", help="Repository of the bundle."
)
@click.option("--version", metavar="VERSION", help="Tag, 1.2.* or range; default: latest.")
@click.option("--auth", metavar="SECRET", help="Secret with the registry's credentials.")
@click.option(
    "--provider",
    type=Choice([str(one) for one in Provider]),
    help="Cloud whose registry gets tokens of the service account's identity.",
)
@click.option("--values", metavar="CONFIGMAP", help="ConfigMap with values files.")
@click.option("--interval", metavar="DURATION", help="Interval of polls, such as 5m.")
@click.option("--project-namespace", metavar="NAMESPACE", help="Namespace of the release.")
@click.option("--insecure", is_flag=True, help="Use plain HTTP.")
@_export
@_wait
@object_option
async def bundle(
    target: Target,
    name: str,
    *,
    export: bool,
    waits: bool,
    timeout: float,  # noqa: ASYNC109 - the option
    shape: Format | None,
    **fields: Any,
) -> None:
    """Deploy a werf bundle from a registry.

    copyrator create bundle shop --from registry.example.com/team/shop --version '1.*' --export
    """
    body = _body(names.BUNDLE_API_VERSION, names.BUNDLE_KIND, target, name, bundle_spec(**fields))
    if not _exports(body, shape, export=export):
        options = ObjectOptions(target=target, name=name, timeout=timeout, waits=waits, shape=shape)
        async with target.connect() as client:
            made = await client.create(BUNDLES, target.namespace, body)
            made = await _wait_until_ready(client, options, made)
        show_end(options, made, f"bundle {name_of(made)} created")


async def _wait_until_ready(
    client: KubeClient, options: ObjectOptions, made: dict[str, Any]
) -> dict[str, Any]:
    generation = made["metadata"]["generation"]
    return await wait_as_asked(client, options, made, lambda seen: observed(seen) >= generation)


def bundle_spec(*, repository: str, **fields: str | bool | None) -> dict[str, Any]:
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


def _exports(body: dict[str, Any], shape: Format | None, *, export: bool) -> bool:
    """Print the manifest where that is wanted; whether it is.

    Raises:
        Fault: it isn't valid.
    """
    from copyrator.cli.offline.manifests import Manifest
    from copyrator.cli.offline.validate import check

    found = list(check(Manifest("flags", body, {})))
    if found:
        raise Fault("; ".join(f"{problem.field}: {problem.message}" for problem in found))
    if export:
        dump(body, Format.YAML) if shape is None else show(body, shape)
    return export


async def _create_rule(
    options: ObjectOptions, body: dict[str, Any], home: str | None
) -> dict[str, Any]:
    """Create a rule where an operator serves it, and wait until it is Ready where that is asked.

    Raises:
        Fault: none serves it, or where one would isn't known.
    """
    target = options.target
    async with target.connect() as client:
        installation = await find_installation(client, home)
        namespace = target.namespace
        if namespace == _DEFAULT and not target.namespace_option:
            if not home and not installation.found:
                why = installation.denial or "none was found: install one"
                raise Fault(
                    f"the rule would be created in the operator's namespace, and {why}; or set "
                    "--namespace"
                )
            namespace = installation.settings.namespace
        if installation.is_read and namespace not in [one.namespace for one in installation.others]:
            _check_served(installation.settings, namespace, body["metadata"]["name"])
        made = await client.create(RULES, namespace, body)
        trusted = installation.found and namespace == installation.settings.namespace
        if installation.is_read or trusted:
            return await _wait_until_ready(client, options, made)
        # What the operator serves is only known from its response.
        made = await wait(client, "rules", made, RESPONSE, lambda now: bool(rows.ready(now)))
        condition = rows.ready(made)
        if condition.reason == RuleReason.NOT_TRUSTED:
            raise Fault(f"rule {name_of(made)} was created, but {condition.message}")
        return await _wait_until_ready(client, options, made)


def _check_served(settings: Settings, namespace: str, name: str) -> None:
    """Raise a Fault with the remedy if the operator doesn't serve a rule."""
    where = f"a rule in the namespace {namespace} isn't served"
    if settings.rule_name not in (None, name):
        raise Fault(f"the operator serves only the rule named {settings.rule_name} (--rule-name)")
    if namespace != settings.namespace and not settings.tenant_rules:
        raise Fault(
            f"{where}: only those in {settings.namespace} are; create it there with "
            f"-n {settings.namespace}, or run the operator with --tenant-rules"
        )
    if not settings.serves(namespace):
        raise Fault(
            f"{where}: the operator serves only {', '.join(settings.watch_namespaces)} "
            "(--watch-namespaces)"
        )
