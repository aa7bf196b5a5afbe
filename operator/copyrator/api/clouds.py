"""Clouds whose registries take short-lived tokens of an identity, and these registries' hosts.

A token of a cloud goes to these hosts only, and whom it is asked of is derived from the host alone.

Sources: Amazon ECR, "Endpoints and quotas", "Making requests over IPv6", also of ECR Public, and
cloud-provider-aws (ecr-credential-provider) for the isolated partitions; Google, "Artifact
Registry: repository names" and the hosts of its credential helper; Azure, "Registry endpoints" and
its sovereign clouds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Provider(StrEnum):
    """``spec.provider``."""

    AWS = "aws"
    GCP = "gcp"
    AZURE = "azure"


ANN_AWS_ROLE: Final = "eks.amazonaws.com/role-arn"
ANN_AWS_AUDIENCE: Final = "eks.amazonaws.com/audience"
ANN_GCP_ACCOUNT: Final = "iam.gke.io/gcp-service-account"
ANN_GCP_PROVIDER: Final = "operator.werf.dev/gcp-workload-identity-provider"
ANN_GCP_PROVIDER_OF_FLUX: Final = "gcp.auth.fluxcd.io/workload-identity-provider"
ANN_AZURE_CLIENT: Final = "azure.workload.identity/client-id"
ANN_AZURE_TENANT: Final = "azure.workload.identity/tenant-id"
ANNOTATIONS: Final = {
    Provider.AWS: (ANN_AWS_ROLE,),
    Provider.GCP: (ANN_GCP_ACCOUNT, ANN_GCP_PROVIDER, ANN_GCP_PROVIDER_OF_FLUX),
    Provider.AZURE: (ANN_AZURE_CLIENT, ANN_AZURE_TENANT),
}
"""Of a service account: what names its identity; for messages to people."""

ECR_PUBLIC: Final = "public.ecr.aws"
ECR_PUBLIC_DUAL: Final = "ecr-public.aws.com"
"""The same registry, also by IPv6."""
_PARTITIONS: Final = {
    "aws-cn": ("cn-", ("amazonaws.com.cn", "on.amazonwebservices.com.cn")),
    "aws-us-gov": ("us-gov-", ("amazonaws.com", "on.aws")),
    "aws-iso": ("us-iso-", ("c2s.ic.gov", "on.aws.ic.gov")),
    "aws-iso-b": ("us-isob-", ("sc2s.sgov.gov", "on.aws.scloud")),
    "aws-iso-e": ("eu-isoe-", ("cloud.adc-e.uk", "on.cloud-aws.adc-e.uk")),
    "aws-iso-f": ("us-isof-", ("csp.hci.ic.gov", "on.aws.hci.ic.gov")),
    "aws-eusc": ("eusc-", ("amazonaws.eu", "on.amazonwebservices.eu")),
    "aws": ("", ("amazonaws.com", "on.aws")),
}
"""Of AWS: how their regions begin, and the ends of their registries' hosts."""
_ENDS: Final = sorted({end for _, ends in _PARTITIONS.values() for end in ends})
ECR_HOST: Final = re.compile(
    r"(?P<account>[0-9]{12})\.dkr[.-]ecr(?P<fips>-fips)?\."
    r"(?P<region>[a-z]{2,8}(?:-[a-z]{2,12}){1,3}-[0-9]{1,2})\."
    rf"(?P<end>{'|'.join(map(re.escape, _ENDS))})"
)
"""Hosts of a private registry: default, FIPS, dual-stack, and of the other partitions."""
_ECR_LIKE: Final = re.compile(
    r"(?:[^.]+\.)?(?:dkr[.-]ecr|ecr|api\.ecr)(?:-fips)?\..*amazonaws\.(?:com|com\.cn|eu)"
)
_GCP_HOST: Final = re.compile(
    r"(?:[a-z0-9-]{1,63}\.)?(?:pkg\.dev|gcr\.io)|docker\.[a-z0-9-]{1,63}\.rep\.pkg\.dev"
)
_AZURE_HOST: Final = re.compile(
    r"[a-z0-9-]{1,63}(?:\.[a-z0-9]{1,63}\.geo)?\.azurecr\.(?P<cloud>io|cn|us)"
)
_HOSTS: Final = {
    Provider.AWS: ECR_HOST,
    Provider.GCP: _GCP_HOST,
    Provider.AZURE: _AZURE_HOST,
}

PULL_RIGHTS: Final = {
    Provider.AWS: "ecr:BatchGetImage and ecr:GetDownloadUrlForLayer on the repository",
    Provider.GCP: "roles/artifactregistry.reader on the repository",
    Provider.AZURE: "the role AcrPull on the registry",
}
"""What an identity needs to read a repository, for messages."""

_FORMS: Final = {
    Provider.AWS: f"ACCOUNT.dkr.ecr.REGION.amazonaws.com, {ECR_PUBLIC} or {ECR_PUBLIC_DUAL}",
    Provider.GCP: "LOCATION-docker.pkg.dev or gcr.io",
    Provider.AZURE: "NAME.azurecr.io, NAME.azurecr.cn or NAME.azurecr.us",
}


@dataclass(frozen=True, slots=True)
class CloudRegistry:
    """A registry that takes tokens of a cloud, by its host."""

    provider: Provider
    host: str
    """In lower case, without a port."""
    account: str = ""
    """Of Amazon ECR: the registry's account, 12 digits; empty for the public one."""
    region: str = ""
    """Of Amazon ECR; likewise empty."""
    is_fips: bool = False
    domain: str = ""
    """Of Azure: ``io``, ``cn`` or ``us``: the cloud that it is in."""
    partition: str = ""
    """Of AWS: ``aws``, ``aws-cn`` and so on."""


def find_provider(registry: str) -> Provider | None:
    """The provider whose registry a ``host[:port]`` is; None: of none."""
    for provider in Provider:
        try:
            return read_registry(provider, registry).provider
        except ValueError:
            continue
    return None


def read_registry(provider: Provider, registry: str) -> CloudRegistry:
    """The registry of a provider by its ``host[:port]``.

    Raises:
        ValueError: it isn't one; the message says so, and how such hosts look.
    """
    host = registry.lower().removesuffix(":443")
    if provider is Provider.AWS and host in (ECR_PUBLIC, ECR_PUBLIC_DUAL):
        return CloudRegistry(provider, host, partition="aws")
    if provider is Provider.AWS and (found := ECR_HOST.fullmatch(host)):
        return CloudRegistry(
            provider,
            host,
            found["account"],
            region := found["region"],
            found["fips"] is not None,
            partition=_read_partition(host, region, found["end"]),
        )
    if provider is Provider.GCP and _GCP_HOST.fullmatch(host):
        return CloudRegistry(provider, host)
    if provider is Provider.AZURE and (found := _AZURE_HOST.fullmatch(host)):
        return CloudRegistry(provider, host, domain=found["cloud"])
    if provider is Provider.AWS and _ECR_LIKE.fullmatch(host):
        raise ValueError(
            f"{registry[:255]} has no account or region of Amazon ECR in it, by which a token is "
            f"asked for; write {_FORMS[provider]}"
        )
    other = next((one for one, form in _HOSTS.items() if form.fullmatch(host)), None)
    instead = (
        f"set spec.provider to {other}" if other else "use spec.auth in place of spec.provider"
    )
    raise ValueError(
        f"{registry[:255]} isn't a registry of {provider}, so no token of it is sent there; write "
        f"{_FORMS[provider]}, or {instead}"
    )


def _read_partition(host: str, region: str, end: str) -> str:
    """The partition of a region of AWS.

    Raises:
        ValueError: its registries' hosts have another end.
    """
    partition = next(name for name, (start, _) in _PARTITIONS.items() if region.startswith(start))
    ends = _PARTITIONS[partition][1]
    if end in ends:
        return partition
    raise ValueError(
        f"{host} isn't a registry of aws: those of {region} end in {' or '.join(ends)}"
    )
