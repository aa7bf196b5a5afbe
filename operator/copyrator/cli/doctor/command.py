"""`copyrator doctor`: checks everything that the operator needs."""

# ruff: noqa: PLC0415 - what checks is imported late: not for --help

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from copyrator.cli.core.cluster import Target, cluster_options, run
from copyrator.cli.core.faults import Fault
from copyrator.cli.core.installation import (
    Installation,
    find_installation,
    holder_of,
    own_namespace_option,
)
from copyrator.cli.core.objects import listed
from copyrator.cli.core.output import Format, answer_option
from copyrator.cli.doctor.check import Check, print_checks, readable
from copyrator.kube import errors
from copyrator.kube.resources import BUNDLES, SECRETS
from copyrator.oci.errors import AuthenticationFailed, RateLimited, RegistryError, TagNotFound
from copyrator.oci.reference import Repository
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
@answer_option
def doctor(target: Target, home: str | None, shape: Format | None) -> None:
    """Check the installation: API server, CRDs, Lease, permissions, hash key, registries, objects.

    Exit code: 0 no check failed; 1 at least one did.
    """
    print_checks(run(_checks(target, home)), shape)


async def _checks(target: Target, home: str | None) -> list[Check]:
    from copyrator.cli.bundles import freeze
    from copyrator.cli.core import notify
    from copyrator.cli.doctor.network import network
    from copyrator.cli.doctor.objects import (
        CLOUDS,
        approval_policy,
        clouds,
        marks_policy,
        objects,
        plans_are_asked,
        pods,
        signatures,
    )
    from copyrator.cli.doctor.permissions import consent_reviews, permission_reviews, workloads
    from copyrator.cli.doctor.remote import attestations, kubeconfigs

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
        found += behind + await readable("Lease", check_lease(client, installation, ready=ready))
        served = all(check.good for check in crds)
        plans = served and await plans_are_asked(client, installation)
        found += [check async for check in _permissions(client, installation, plans=plans)]
        found.append(await _hash_key(client, installation))
        found.append(await marks_policy(client, installation))
        if plans:
            found.append(await approval_policy(client, installation))
            found.append(await permission_reviews(client, installation))
            found.append(await network(client, installation))
        if served:
            if (consent := await consent_reviews(client, installation)) is not None:
                found.append(consent)
            found += [check async for check in workloads(client, installation)]
            found += [check async for check in objects(client, installation)]
            found.append(await _references(client, installation))
            found.append(await signatures(client, installation))
            found.append(await freeze.check(client, installation, datetime.now(UTC)))
            found.append(await notify.check(client, installation))
            found.append(await kubeconfigs(client, installation, datetime.now(UTC)))
            found.append(await attestations(client, installation))
            found += await readable(CLOUDS, clouds(client, installation))
            found += await readable("Registries", _registries(client))
    return found


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
        others = ", ".join(installation.others)
        return Check("Deployment", False, f"{said}; another one is in {others}: remove one")
    return Check("Deployment", True, said)


async def check_lease(
    client: KubeClient, installation: Installation, *, ready: bool, takeover: float = TAKEOVER
) -> AsyncIterator[Check]:
    """With a ready pod, a Lease without a holder is about to be taken (a rollout): it has time."""
    last = asyncio.get_running_loop().time() + (takeover if ready else 0)
    while True:
        if holder := await holder_of(client, installation.namespace, denied=False):
            yield Check("Lease", True, f"held by {holder}")
            return
        if asyncio.get_running_loop().time() >= last:
            break
        await asyncio.sleep(0.5)
    yield Check(
        "Lease",
        False,
        f"the Lease {installation.namespace}/copyrator has no holder: check that the operator is "
        "running: "
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


async def _references(client: KubeClient, installation: Installation) -> Check:
    """Whether edits of values and credentials take effect at once; if not, it isn't a failure."""
    from copyrator.cli.doctor.permissions import polled_references

    what = "Values and auth"
    try:
        polled = await polled_references(client, installation)
    except errors.ApiError as error:
        return Check(what, None, f"can't be read: {error.message}")
    said = polled.sentence(installation.user or "you")
    return Check(what, None if polled.refs else True, said)


async def _registries(client: KubeClient) -> AsyncIterator[Check]:
    """One request to each registry, from this machine and without credentials."""
    from copyrator.api.bundle import parse_bundle
    from copyrator.api.bundle_spec import BundleDefaults
    from copyrator.api.fields import InvalidSpec
    from copyrator.metrics import Metrics
    from copyrator.oci.client import RegistryClient
    from copyrator.oci.hosts import ANYWHERE

    asked: dict[str, tuple[Repository, Mapping[str, Any]]] = {}
    for body in await listed(client, BUNDLES, None):
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
        for check in await asyncio.gather(*(_registry(oci, *one) for one in asked.values())):
            yield check
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
