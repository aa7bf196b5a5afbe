"""`copyrator doctor`: checks everything that the operator needs."""

# ruff: noqa: PLC0415 - what checks is imported late: not for --help

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from copyrator.api.conditions import PAUSES
from copyrator.api.reasons.rules import RuleReason
from copyrator.api.text import format_time, parse_time, time_since
from copyrator.cli.bundles.registry import asked_by, registry_options, trust_options
from copyrator.cli.core.cluster import Target, cluster_options
from copyrator.cli.core.faults import Fault, hint
from copyrator.cli.core.installation import (
    Installation,
    find_installation,
    is_current,
    own_namespace_option,
    pod_selector,
    renewed,
)
from copyrator.cli.core.objects import RESOURCES, Body, listed_in
from copyrator.cli.core.output import Format, answer_option
from copyrator.cli.doctor.check import Check, find_policy, print_checks, readable, tried
from copyrator.cli.view import rows
from copyrator.cli.view.operator import read_pods
from copyrator.kube import errors
from copyrator.kube.resources import LEASES, RULES, SECRETS
from copyrator.kube.watch.reflector import name_of
from copyrator.oci.errors import AuthenticationFailed, RateLimited, RegistryError, TagNotFound
from copyrator.oci.exchange import Repository
from copyrator.runtime.prerequisites import missing_crds

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient
    from copyrator.oci.client import RegistryClient

LEAST_MINOR = 29
"""Kubernetes 1.29: the first with stable CEL."""
TAKEOVER = 12.0
"""Seconds: a standby takes a Lease over within 11 s of its last renewal (`kube.leader`)."""


@click.command()
@cluster_options(namespace=False)
@own_namespace_option
@trust_options
@registry_options
@answer_option
async def doctor(target: Target, home: str | None, shape: Format | None, **options: Any) -> None:
    """Check the installation: API server, CRDs, Lease, permissions, hash key, registries, objects.

    With the options of `copyrator verify` also the signatures of the images that the pods run.

    Exit codes: 0 no check failed; 1 one of the installation did; 3 only rules or Bundles fail.
    """
    from copyrator.cli.bundles import checks, freeze
    from copyrator.cli.core import notify
    from copyrator.cli.doctor.images import IMAGES, check_images
    from copyrator.cli.doctor.permissions import permission_reviews, workloads

    asked = asked_by(options)
    async with target.connect() as client:
        try:
            found = [await _server(client)]
        except errors.Unreachable as error:
            raise Fault(f"the API server doesn't respond: {error.message}") from None
        crds = await readable("CRDs", _crds(client))
        found += crds
        installation = await find_installation(client, home)
        found.append(_installed(installation))
        behind = await readable("Pods", pods(client, installation))
        ready = any(check.good for check in behind)
        if asked:
            signed = check_images(client, installation, asked, options)
            found += await readable(IMAGES, signed)
        found += behind + await readable("Lease", check_lease(client, installation, ready=ready))
        served = all(check.good for check in crds)
        there, denied = await _listed(client, installation) if served else ({}, [])
        bundles = there.get("bundles")
        plans = served and checks.needs_approval(installation, bundles or ())
        found += [check async for check in _permissions(client, installation, plans=plans)]
        found.append(await _hash_key(client, installation))
        found.append(await marks_policy(client, installation))
        if plans:
            found.append(await checks.approval_policy(client, installation))
            found.append(await checks.guard(client, installation))
            found.append(await permission_reviews(client, installation))
        found += [check async for check in workloads(client, installation, there)]
        for what, bodies in there.items():
            found += objects(what, bodies, installation)
        found += denied
        if served:
            found.append(await checks.signatures(client, installation, bundles))
            found.append(await freeze.check(client, installation, datetime.now(UTC)))
            found.append(await notify.check(client, installation))
        if bundles is not None:
            rules = there.get("rules")
            of_bundles = _of_bundles(client, installation, rules, bundles, plans=plans)
            found += [check async for check in of_bundles]
    print_checks(found, shape)


async def _listed(
    client: KubeClient, installation: Installation
) -> tuple[dict[str, list[dict[str, Any]]], list[Check]]:
    """Rules and Bundles as far as they may be listed, and findings about those that may not."""
    there: dict[str, list[dict[str, Any]]] = {}
    denied: list[Check] = []
    for what, resource in RESOURCES.items():
        try:
            there[what] = await listed_in(client, resource, installation.settings.scopes)
        except errors.Forbidden as error:
            said = f"you have no permission to check them: {error.message}"
            denied.append(Check(what.capitalize(), None, said, of_object=True))
    return there, denied


async def _of_bundles(
    client: KubeClient,
    installation: Installation,
    rules: Sequence[Body] | None,
    bundles: Sequence[Body],
    *,
    plans: bool,
) -> AsyncIterator[Check]:
    """What Bundles need."""
    from copyrator.cli.bundles.checks import CLOUDS, attestations, clouds, network
    from copyrator.cli.core.remote import kubeconfigs
    from copyrator.cli.doctor.permissions import consent_reviews

    if plans:
        yield await network(client, installation, bundles)
    if (consent := await consent_reviews(client, installation, bundles)) is not None:
        yield consent
    yield await _references(client, installation, bundles)
    if rules is not None:
        yield await kubeconfigs(client, rules, bundles, datetime.now(UTC))
    yield await attestations(client, installation, bundles)
    for check in await readable(CLOUDS, clouds(client, installation, bundles)):
        yield check
    for check in await _registries(bundles):
        yield check


async def _server(client: KubeClient) -> Check:
    version = await client.request("GET", "/version")
    minor = int("".join(filter(str.isdigit, str(version.get("minor", "0")))) or 0)
    said = f"{version.get('gitVersion')} at {client.connection.host}"
    if minor < LEAST_MINOR:
        return Check("API server", False, f"{said}; Copyrator needs 1.{LEAST_MINOR} or later")
    return Check("API server", True, said)


async def _crds(client: KubeClient) -> AsyncIterator[Check]:
    sentences = await missing_crds(client)
    for sentence in sentences:
        yield Check("CRDs", False, sentence)
    if not sentences:
        yield Check("CRDs", True, "both are established and served")


def _installed(installation: Installation) -> Check:
    if installation.image is None:
        return Check(
            "Deployment", None, "not found; the operator may be running outside the cluster"
        )
    said = f"{installation.namespace}/copyrator, {installation.image}"
    if installation.others:
        others = ", ".join(one.namespace for one in installation.others)
        return Check("Deployment", False, f"{said}; another one is in {others}: remove one")
    return Check("Deployment", True, said)


async def check_lease(
    client: KubeClient, installation: Installation, *, ready: bool, takeover: float = TAKEOVER
) -> AsyncIterator[Check]:
    """With a ready pod, a Lease without a holder is about to be taken (a rollout): it has time."""
    last = asyncio.get_running_loop().time() + (takeover if ready else 0)
    while True:
        lease: Body = {}
        with suppress(errors.NotFound):
            place = installation.lease_namespace
            lease = await client.get(LEASES, place, installation.settings.lease_name)
        holder = (lease.get("spec") or {}).get("holderIdentity")
        if holder and is_current(lease, client.server_time):
            yield Check("Lease", True, f"held by {holder}")
            return
        if asyncio.get_running_loop().time() >= last:
            break
        await asyncio.sleep(0.5)
    state = "has no holder"
    if holder and (time := renewed(lease)):
        since = time_since(format_time(time), client.server_time)
        state = f"is held by {holder}, which hasn't renewed it for {since}"
    yield Check(
        "Lease",
        False,
        f"the Lease {installation.lease} {state}: check that the operator is running: "
        f"kubectl -n {installation.namespace} get pods; with --no-leader-election there is no "
        "Lease",
    )


async def _permissions(
    client: KubeClient, installation: Installation, *, plans: bool
) -> AsyncIterator[Check]:
    from copyrator.cli.doctor.permissions import missing_permissions

    user = installation.user
    who = user or "you"
    try:
        missing = await missing_permissions(client, installation.settings, user, plans=plans)
    except errors.ApiError as error:
        yield Check("Permissions", None, f"can't review those of {who}: {error.message}")
        return
    if missing and user is None:
        more = f" and {len(missing) - 1} more" if missing[1:] else ""
        said = (
            f"the operator's account isn't known without a Deployment; you cannot {missing[0][0]}"
            f"{more} of the permissions that it needs"
        )
        yield Check("Permissions", None, said)
        return
    for permission, remedy in missing:
        yield Check("Permissions", False, f"{who} cannot {permission}: {remedy}")
    if not missing:
        yield Check("Permissions", True, f"all required permissions are granted to {who}")


async def _hash_key(client: KubeClient, installation: Installation) -> Check:
    from copyrator.copies.seal.hash_key import SECRET_NAME

    where = f"{installation.settings.namespace}/{SECRET_NAME}"
    try:
        await client.get(SECRETS, installation.settings.namespace, SECRET_NAME)
    except errors.NotFound:
        said = f"{where} doesn't exist; the operator creates it at its first start"
        return Check("Hash key", None, said)
    except errors.ApiError as error:
        return Check("Hash key", None, f"{where} can't be read: {error.message}")
    return Check("Hash key", True, where)


REFERENCES = "Values and auth"


@tried(REFERENCES, "can't be read")
async def _references(
    client: KubeClient, installation: Installation, bundles: Sequence[Body]
) -> Check:
    """Whether edits of values and credentials take effect at once; if not, it isn't a failure."""
    from copyrator.cli.doctor.permissions import polled_references

    polled = await polled_references(client, installation, bundles)
    said = polled.sentence(installation.user or "you")
    return Check(REFERENCES, None if polled.refs else True, said)


async def _registries(bundles: Sequence[Body]) -> list[Check]:
    """One request to each registry, from this machine and without credentials."""
    from copyrator.api.schema import InvalidSpec
    from copyrator.bundles.fields import BundleDefaults, parse_bundle
    from copyrator.metrics import Metrics
    from copyrator.oci.client import RegistryClient
    from copyrator.oci.transport import ANYWHERE

    asked: dict[str, tuple[Repository, Mapping[str, Any]]] = {}
    for body in bundles:
        spec = parse_bundle(body, BundleDefaults())
        if not isinstance(spec, InvalidSpec) and not spec.ca_secret:
            repository = Repository(
                spec.registry,
                spec.repo,
                plain_http=spec.insecure,
                verify=not spec.skip_tls_verify,
            )
            asked.setdefault(repository.origin, (repository, body["spec"]))
    oci = RegistryClient(metrics=Metrics(), timeout=10.0, allowed=ANYWHERE)
    try:
        return await asyncio.gather(*(_registry(oci, *one) for one in asked.values()))
    finally:
        await oci.close()


async def _registry(oci: RegistryClient, repository: Repository, spec: Mapping[str, Any]) -> Check:
    from copyrator.api.version_range import ExactTag, parse_version

    version = parse_version(str(spec.get("version") or "latest"))
    tag = version.tag if isinstance(version, ExactTag) else "latest"
    what = f"Registry {repository.origin}"
    try:
        await oci.digest(repository, tag, None)
    except TagNotFound:
        return Check(what, True, "responds")
    except (AuthenticationFailed, RateLimited) as error:
        return Check(what, True, f"responds ({error.reason} to a request without credentials)")
    except RegistryError as error:
        return Check(what, False, f"from this machine: {error.message}")
    return Check(what, True, "responds")


MARKS_DOMAIN = "copyrator.flant.com"
"""Suffix of the name of the policy about marks, after the release's namespace."""
MARKS = "Admission policy"


@tried(MARKS, "can't be listed")
async def marks_policy(client: KubeClient, installation: Installation) -> Check:
    """The policy about marks."""
    consequence = "a user who can edit a copy can also change its marks"
    name, said = await find_policy(
        client, installation, MARKS_DOMAIN, consequence, "rules.admissionPolicy"
    )
    if name:
        return Check(MARKS, True, f"{name} protects the marks of copies")
    return Check(MARKS, None, said)


PATIENCE = 30.0
"""Seconds after which an object without a status counts as not reconciled."""


async def pods(client: KubeClient, installation: Installation) -> AsyncIterator[Check]:
    """Whether a pod is ready behind the Deployment, and if not, what its containers wait for."""
    if installation.manifest is None:
        return
    state = await read_pods(client, installation.manifest)
    if state.wanted == 0:
        yield Check(
            "Pods", None, state.describe(f"{installation.namespace}/{installation.deployment}")
        )
        return
    said = f"{state.ready} of {state.wanted} ready"
    if state.ready:
        yield Check("Pods", True, said)
        return
    reasons = f": {'; '.join(state.reasons)}" if state.reasons else ""
    selector = pod_selector(installation.manifest)
    look = f"kubectl -n {installation.namespace} describe pods -l {selector}"
    yield Check("Pods", False, f"{said}{reasons}; see: {look}")


def objects(what: str, bodies: Sequence[Body], installation: Installation) -> list[Check]:
    """Rules or Bundles that fail, and those that the operator hasn't reconciled."""
    kind, now = RESOURCES[what].kind, datetime.now(UTC)
    said = f"{len(bodies)} found, none failing ({hint('get', what, '-A')})"
    wrong = list(object_faults(bodies, kind, installation, now))
    return wrong or [Check(what.capitalize(), True, said, of_object=True)]


def object_faults(
    bodies: Sequence[Body], kind: str, installation: Installation, now: datetime
) -> Iterator[Check]:
    """What isn't well with rules or Bundles; a suspended one is only information."""
    for body in bodies:
        shown = f"{kind} {name_of(body)}"
        condition = rows.ready(body)
        said = f"{condition.reason}: {rows.trouble(body)}"
        is_failing = condition.is_false
        if is_failing and condition.reason not in PAUSES:
            yield Check(shown, False, said, of_object=True)
        elif failed := rows.failed_poll(body):
            yield Check(shown, None, failed, of_object=True)
        elif is_failing or condition.reason == RuleReason.NO_TARGETS:
            yield Check(shown, None, said, of_object=True)
        elif not condition and is_overlooked(body, kind, installation, now):
            said = "not reconciled yet: the operator isn't running, or can't list this kind"
            yield Check(shown, False, said)


def is_overlooked(body: Body, kind: str, installation: Installation, now: datetime) -> bool:
    """Whether an object without a status should have one by now."""
    named = installation.settings.rule_name
    if kind == RULES.kind and named not in (None, name_of(body).name):
        return False
    created = parse_time(body["metadata"].get("creationTimestamp"))
    return created is not None and (now - created).total_seconds() > PATIENCE
