"""Identities of clouds for commands: one's own, or that of a Bundle's service account.

One's own is what the cloud's library finds on this machine: variables, files, its command line, or
the metadata server of a machine in that cloud.
"""

# ruff: noqa: PLC0415 - the clouds' libraries are imported late: not for --help

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from copyrator.api.clouds import ANNOTATIONS, CloudRegistry, Provider, read_registry
from copyrator.api.text import one_line
from copyrator.cli.core.faults import Fault
from copyrator.oci.auth import CloudIdentity, Credential
from copyrator.oci.errors import IdentityMissing, IdentityRefused, IdentityUnavailable
from copyrator.tls import clear_strict_in_libraries

if TYPE_CHECKING:
    from copyrator.api.bundle_spec import BundleSpec
    from copyrator.clouds.calls import Account, Calls, Issue, Issued
    from copyrator.kube.client.client import KubeClient
    from copyrator.oci.client import RegistryClient
    from copyrator.oci.exchange import Repository
    from copyrator.settings.config import Settings

_ANNOTATION_CHARACTERS: Final = 256
"""Of one that is shown; an ARN of a role has fewer."""

LOG_IN: Final = {
    Provider.AWS: "run aws sso login, or set AWS_PROFILE",
    Provider.GCP: "run gcloud auth application-default login",
    Provider.AZURE: "run az login",
}


def own_credential(provider: Provider, repository: Repository) -> Credential:
    """The credential of one's own identity.

    Raises:
        ValueError: the registry isn't one of this cloud.
        Fault: it isn't verified.
    """
    registry = read_registry(provider, repository.registry)
    _require_verified(repository)
    return Credential(cloud=CloudIdentity(registry, ""))


def _require_verified(repository: Repository) -> None:
    """Raise a Fault where a token could be read by others than the registry."""
    if repository.plain_http or not repository.verify or repository.ca is not None:
        raise Fault(
            "a cloud's token is sent to verified registries only: remove --insecure, "
            "--skip-tls-verify and --ca-file"
        )


def bundles_credential(
    spec: BundleSpec, settings: Settings, repository: Repository
) -> Credential | None:
    """The credential of a Bundle's account; None without ``spec.provider``.

    Raises:
        Fault: it uses the operator's own identity, which nobody else has; or its registry isn't
            verified.
    """
    from copyrator.bundles.features.login.identity import identity_of

    identity = identity_of(spec, settings)
    if identity is None:
        return None
    _require_verified(repository)
    if not identity.account:
        raise Fault(
            f"Bundles of the namespace {spec.namespace} use the operator's own identity, which "
            f"commands don't have: set --provider {identity.registry.provider} to use yours"
        )
    return Credential(cloud=identity)


@dataclass(frozen=True, slots=True)
class Registries:
    """A client for registries, and whose identity a cloud gave it a login for."""

    client: RegistryClient
    identities: list[str] = field(default_factory=list)


@asynccontextmanager
async def registries(kube: KubeClient | None = None) -> AsyncIterator[Registries]:
    """A client for registries, closed at the end; `kube` asks for tokens of Bundles' accounts."""
    from copyrator.clouds.logins import SharedLogins, new_issues
    from copyrator.metrics import Metrics
    from copyrator.oci.client import RegistryClient
    from copyrator.oci.transport import ANYWHERE

    metrics = Metrics()
    found = Registries(RegistryClient(metrics=metrics, allowed=ANYWHERE))
    issues = {one: _Noting(one, issue, found.identities) for one, issue in new_issues().items()}
    found.client.use_logins(lambda transport: SharedLogins(transport, kube, metrics, issues=issues))
    try:
        yield found
    finally:
        await found.client.close()


class _Noting:
    """Asks a cloud, with one's own identity as its library finds it; notes whose it is."""

    def __init__(self, provider: Provider, issue: Issue, identities: list[str]) -> None:
        self._provider, self._issue, self._identities = provider, issue, identities

    async def __call__(
        self, calls: Calls, registry: CloudRegistry, account: Account | None, *, writes: bool
    ) -> Issued:
        """As ``Issue``."""
        if account is not None:
            issued = await self._issue(calls, registry, account, writes=writes)
            who = f"{account}{shown_annotations(self._provider, account.annotations)}"
        else:
            issued, named = await _OWN[self._provider](calls, registry)
            who = f"your own identity of {self._provider}{named and f': {named}'}"
        if who not in self._identities:
            self._identities.append(who)
        return issued


def shown_annotations(provider: Provider, annotations: Mapping[str, str]) -> str:
    """What an account is in the cloud, by its annotations."""
    values = filter(None, map(annotations.get, ANNOTATIONS[provider]))
    found = [one_line(value, _ANNOTATION_CHARACTERS) for value in values]
    return f" ({', '.join(found)})" if found else ""


async def _own_aws(calls: Calls, registry: CloudRegistry) -> tuple[Issued, str]:
    from copyrator.clouds import aws

    def look() -> None:
        from botocore.session import Session

        if Session().get_credentials() is None:
            raise _missing(Provider.AWS)

    def ask() -> str:
        from botocore.session import Session

        try:
            client = Session().create_client("sts", registry.region or aws.PUBLIC_REGION)
            return str(client.get_caller_identity()["Arn"])
        except Exception:  # the login is there; whose it is, is of use to people only
            return ""

    await calls.run(Provider.AWS, look)
    issued = await aws.issue(calls, registry, None, writes=False)
    return issued, await calls.run(Provider.AWS, ask)


async def _own_gcp(calls: Calls, _: CloudRegistry) -> tuple[Issued, str]:
    from copyrator.clouds.calls import Issued
    from copyrator.clouds.gcp import READ_SCOPES, USERNAME

    def ask() -> Any:
        from google.auth import default, exceptions
        from google.auth.transport.requests import Request

        clear_strict_in_libraries()
        try:
            credentials, _ = default(scopes=READ_SCOPES)
            credentials.refresh(Request())
        except exceptions.DefaultCredentialsError:
            raise _missing(Provider.GCP) from None
        except exceptions.TransportError:
            raise IdentityUnavailable("Google's token server can't be reached") from None
        except exceptions.GoogleAuthError:
            text = f"{Provider.GCP} refuses your own identity; {LOG_IN[Provider.GCP]}"
            raise IdentityRefused(text) from None
        return credentials

    found = await calls.run(Provider.GCP, ask)
    who = getattr(found, "service_account_email", "") or getattr(found, "account", "")
    expires = (found.expiry or datetime.now(UTC) + timedelta(hours=1)).replace(tzinfo=UTC)
    return Issued(USERNAME, str(found.token), expires), str(who or "")


async def _own_azure(calls: Calls, registry: CloudRegistry) -> tuple[Issued, str]:
    from copyrator.clouds import azure

    def ask() -> str:
        from azure.core.exceptions import ClientAuthenticationError, ServiceRequestError
        from azure.identity import DefaultAzureCredential

        for name in ("azure", "msal"):  # they tell at length what isn't there
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        clear_strict_in_libraries()
        authority = azure.AUTHORITIES[registry.domain]
        try:
            with DefaultAzureCredential(authority=authority) as credential:
                return credential.get_token(azure.SCOPE).token
        except ServiceRequestError:
            raise IdentityUnavailable(f"{authority} can't be reached") from None
        except ClientAuthenticationError:  # also where there is none
            raise _missing(Provider.AZURE) from None

    token = await calls.run(Provider.AZURE, ask)
    claims = azure.claims(token)
    who = next((str(claims[one]) for one in ("upn", "appid", "oid") if claims.get(one)), "")
    tenant = str(claims.get("tid", ""))
    return await azure.exchange(calls, registry, "your own identity", tenant, token), who


_OWN: Final = {
    Provider.AWS: _own_aws,
    Provider.GCP: _own_gcp,
    Provider.AZURE: _own_azure,
}


def _missing(provider: Provider) -> IdentityMissing:
    text = f"you have no identity of {provider} here that can be used; {LOG_IN[provider]}"
    return IdentityMissing(text)
