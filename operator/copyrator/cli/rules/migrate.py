"""`copyrator migrate`: rules that replace other copying tools' annotations.

A rule has one list of globs and one selector, which both must match. So the requests of several
annotations on one source become one rule where possible, and else rules that exclude each other's
namespaces: no two have one name or target.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
import yaml

from copyrator.api.selectors import LabelSelector, Operator, Requirement
from copyrator.api.text import count
from copyrator.cli.core.cluster import Target, cluster_options, run
from copyrator.cli.core.installation import find_installation, own_namespace_option
from copyrator.cli.core.objects import annotations_of, listed
from copyrator.cli.core.output import Format, object_option, reference, show_all
from copyrator.cli.rules.migrate_tools import (
    DATA_KINDS,
    NOWHERE,
    MigratedRule,
    RequestedCopies,
    bundle_rules,
    cluster_secret,
    import_requests,
    requests,
)
from copyrator.kube import errors
from copyrator.kube.resources import (
    CONFIGMAPS,
    NAMESPACES,
    ROLEBINDINGS,
    ROLES,
    SECRETS,
    SERVICEACCOUNTS,
    Resource,
)
from copyrator.kube.watch.reflector import name_of

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient


_NEGATED = {
    Operator.IN: Operator.NOT_IN,
    Operator.NOT_IN: Operator.IN,
    Operator.EXISTS: Operator.DOES_NOT_EXIST,
    Operator.DOES_NOT_EXIST: Operator.EXISTS,
}


def migrations(requests: Iterable[RequestedCopies]) -> list[MigratedRule]:
    """The rules that together do what the annotations request, each with a name of its own."""
    by_copy: dict[tuple[str, ...], list[RequestedCopies]] = {}
    for request in requests:
        source = request.kind, request.namespace, request.name
        by_copy.setdefault((*source, request.copy_name or request.name), []).append(request)
    taken = Counter(group[0].base_name for group in by_copy.values())
    found: list[MigratedRule] = []
    for copied, group in by_copy.items():
        name = group[0].base_name
        if taken[name] > 1:  # a-b/c and a/b-c: the same names in every run
            name += f"-{hashlib.sha256('/'.join(copied).encode()).hexdigest()[:6]}"
        for number, request in enumerate(_disjoint(list(_unite(group)), name), start=1):
            found.append(request.rule(name if number == 1 else f"{name}-{number}"))
    return found


def _unite(group: Sequence[RequestedCopies]) -> Iterator[RequestedCopies]:
    """Equal requests once, lists of namespaces as one; the whole cluster includes all others."""
    if all_of_it := [request for request in group if request.everywhere]:
        yield _combine(all_of_it[0], group)
        return
    listed = [request for request in group if not request.exclude and request.selector.empty]
    if listed:
        globs = dict.fromkeys(glob for request in listed for glob in request.namespaces)
        if len(globs) > 1:
            globs.pop(NOWHERE, None)
        yield replace(_combine(listed[0], listed), namespaces=tuple(globs))
    others: dict[tuple[Any, ...], list[RequestedCopies]] = {}
    for request in group:
        if request not in listed:
            where = (tuple(request.namespaces), tuple(request.exclude), request.selector)
            others.setdefault(where, []).append(request)
    for same in others.values():
        yield _combine(same[0], same)


def _combine(first: RequestedCopies, group: Sequence[RequestedCopies]) -> RequestedCopies:
    """`first`, with the tools and remarks of all."""
    tools = dict.fromkeys(request.tool for request in group)
    remarks = dict.fromkeys(remark for request in group for remark in request.remarks)
    return replace(first, tool=", ".join(tools), remarks=tuple(remarks))


def _disjoint(requests: Sequence[RequestedCopies], name: str) -> Iterator[RequestedCopies]:
    """Each without the namespaces of those before it: two rules for one copy are a conflict."""
    for position, request in enumerate(requests):
        for number, earlier in enumerate(requests[:position], start=1):
            request = _without(request, earlier, name if number == 1 else f"{name}-{number}")  # noqa: PLW2901
        yield request


def _without(request: RequestedCopies, earlier: RequestedCopies, name: str) -> RequestedCopies:
    requirements = earlier.selector.requirements
    if not requirements and not earlier.exclude:
        globs = [glob for glob in earlier.namespaces if glob != NOWHERE]
        return replace(request, exclude=(*request.exclude, *globs))
    if len(requirements) == 1 and not earlier.namespaces and not earlier.exclude:
        (one,) = requirements
        negated = Requirement(one.key, _NEGATED[one.operator], one.values)
        return replace(
            request, selector=LabelSelector.of((*request.selector.requirements, negated))
        )
    remark = (
        f"in a namespace that the rule {name} also targets, one of the two rules reports a conflict"
    )
    return replace(request, remarks=(*request.remarks, remark))


CLUSTER_SECRETS = Resource(
    "clustersecret.io", "v2", "clustersecrets", "ClusterSecret", namespaced=False
)

TRUST_BUNDLES = Resource("trust.cert-manager.io", "v1alpha1", "bundles", "Bundle", namespaced=False)
SECRET_IMPORTS = Resource("secretgen.carvel.dev", "v1alpha1", "secretimports", "SecretImport")
SECRET_EXPORTS = Resource("secretgen.carvel.dev", "v1alpha1", "secretexports", "SecretExport")
PLACEHOLDER = "secretgen.carvel.dev/image-pull-secret"
"""Annotation of Secrets that secretgen fills with all registries' credentials."""

COPIED = (CONFIGMAPS, SECRETS, SERVICEACCOUNTS, ROLES, ROLEBINDINGS)
"""What one of these tools copies."""


@click.command()
@cluster_options(namespace=False)
@own_namespace_option
@click.option(
    "--trust-namespace",
    metavar="NAMESPACE",
    default="cert-manager",
    show_default=True,
    help="Namespace of the sources of trust-manager's Bundles.",
)
@object_option
def migrate(target: Target, home: str | None, trust_namespace: str, shape: Format | None) -> None:
    """Print rules that replace the annotations of other copying tools.

    It reads the annotations of kubernetes-replicator, reflector and
    config-syncer (metadata only), ClusterSecrets, trust-manager's Bundles, and secretgen's
    SecretImports and SecretExports. Nothing is changed. The rules adopt the copies
    that the tools made; docs/adoption.md has the order of steps.
    """
    found, where = run(_find(target, home, trust_namespace))
    if not found:
        if shape in (Format.JSON, Format.YAML):
            show_all([], shape)
        click.echo("No object in this cluster is copied by these tools.", err=True)
        return
    if shape is None:
        _print_with_remarks(found, where)
    elif shape is Format.NAME:
        click.echo("\n".join(reference(one.manifest(where)) for one in found))
    else:
        show_all([one.manifest(where) for one in found], shape)
    tools = ", ".join(sorted({tool for one in found for tool in one.tool.split(", ")}))
    click.echo(
        f"{count(len(found), 'rule')} in place of {tools}. Stop the old tool first, then apply "
        "them: docs/adoption.md",
        err=True,
    )


def _print_with_remarks(found: Sequence[MigratedRule], where: str) -> None:
    for one in found:
        click.echo("---")
        click.echo(f"# {one.tool}: {one.replaces}")
        for remark in one.remarks:
            click.echo(f"# NOTE: {remark}")
        click.echo(yaml.safe_dump(one.manifest(where), sort_keys=False).rstrip())


async def _find(
    target: Target, home: str | None, trust_namespace: str
) -> tuple[list[MigratedRule], str]:
    async with target.connect() as client:
        installation = await find_installation(client, home)
        spaces = await listed(client, NAMESPACES, None, metadata_only=True)
        known = [name_of(body).name for body in spaces]
        found: list[RequestedCopies] = []
        for resource in COPIED:
            try:
                bodies = await listed(client, resource, None, metadata_only=True)
            except errors.Forbidden as error:
                if resource.kind in DATA_KINDS:
                    raise
                click.echo(f"Skipping {resource.plural}: {error}", err=True)
                continue
            found += requests(resource.kind, bodies, known)
            _tell_placeholders(bodies)
        for body in await _all(client, CLUSTER_SECRETS):
            found.append(cluster_secret(body, known))
        exports = await _all(client, SECRET_EXPORTS)
        found += import_requests(await _all(client, SECRET_IMPORTS), exports)
        bundles = [
            rule
            for body in await _all(client, TRUST_BUNDLES)
            for rule in bundle_rules(body, trust_namespace)
        ]
    return [*migrations(found), *bundles], installation.settings.namespace


async def _all(client: KubeClient, resource: Resource) -> list[dict[str, Any]]:
    """All objects of a tool's kind; none where the tool isn't installed."""
    with suppress(errors.NotFound, errors.Forbidden):
        return await listed(client, resource, None)
    return []


def _tell_placeholders(bodies: Sequence[Mapping[str, Any]]) -> None:
    for body in bodies:
        if PLACEHOLDER in annotations_of(body):
            click.echo(
                f"Secret {name_of(body)} is filled by secretgen with "
                "all exported registries' credentials: write one rule with spec.sources and "
                "merge_dockerconfig instead (docs/composed.md)",
                err=True,
            )
