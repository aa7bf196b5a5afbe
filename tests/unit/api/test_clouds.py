"""Which hosts are a cloud's registries: its tokens go nowhere else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copyrator.api.clouds import CloudRegistry, Provider, find_provider, read_registry

ACCOUNT = "123456789012"
ECR = f"{ACCOUNT}.dkr.ecr.eu-central-1.amazonaws.com"


@pytest.mark.parametrize(
    ("host", "region", "fips"),
    [
        (ECR, "eu-central-1", False),
        (f"{ECR}:443", "eu-central-1", False),
        (ECR.upper(), "eu-central-1", False),
        (f"{ACCOUNT}.dkr.ecr-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1", True),
        (f"{ACCOUNT}.dkr-ecr.us-east-1.on.aws", "us-east-1", False),
        (f"{ACCOUNT}.dkr-ecr-fips.us-east-1.on.aws", "us-east-1", True),
        (f"{ACCOUNT}.dkr.ecr.cn-north-1.amazonaws.com.cn", "cn-north-1", False),
        (f"{ACCOUNT}.dkr-ecr.cn-north-1.on.amazonwebservices.com.cn", "cn-north-1", False),
        (f"{ACCOUNT}.dkr.ecr.eusc-de-east-1.amazonaws.eu", "eusc-de-east-1", False),
        (f"{ACCOUNT}.dkr.ecr-fips.ca-central-1.amazonaws.com", "ca-central-1", True),
        (f"{ACCOUNT}.dkr-ecr-fips.us-gov-west-1.on.aws", "us-gov-west-1", True),
        (f"{ACCOUNT}.dkr.ecr.cn-northwest-1.amazonaws.com.cn", "cn-northwest-1", False),
        (f"{ACCOUNT}.dkr-ecr.eusc-de-east-1.on.amazonwebservices.eu", "eusc-de-east-1", False),
        (f"{ACCOUNT}.dkr.ecr.us-iso-east-1.c2s.ic.gov", "us-iso-east-1", False),
        (f"{ACCOUNT}.dkr-ecr.us-iso-west-1.on.aws.ic.gov", "us-iso-west-1", False),
        (f"{ACCOUNT}.dkr-ecr.us-isob-east-1.on.aws.scloud", "us-isob-east-1", False),
        (f"{ACCOUNT}.dkr-ecr.us-isof-south-1.on.aws.hci.ic.gov", "us-isof-south-1", False),
        (f"{ACCOUNT}.dkr-ecr.eu-isoe-west-1.on.cloud-aws.adc-e.uk", "eu-isoe-west-1", False),
    ],
)
def test_a_registry_of_ecr_says_its_account_and_region(host: str, region: str, fips: bool) -> None:
    name = host.lower().removesuffix(":443")
    partitions = {
        "us-gov": "aws-us-gov",
        "cn-north": "aws-cn",
        "cn-northwest": "aws-cn",
        "eusc-de": "aws-eusc",
        "us-iso": "aws-iso",
        "us-isob": "aws-iso-b",
        "eu-isoe": "aws-iso-e",
        "us-isof": "aws-iso-f",
    }
    partition = partitions.get("-".join(region.split("-")[:2]), "aws")
    expected = CloudRegistry(Provider.AWS, name, ACCOUNT, region, fips, partition=partition)
    assert read_registry(Provider.AWS, host) == expected


@pytest.mark.parametrize(
    ("provider", "host"),
    [
        (Provider.GCP, "europe-docker.pkg.dev"),
        (Provider.GCP, "us-east1-docker.pkg.dev"),
        (Provider.GCP, "gcr.io"),
        (Provider.GCP, "eu.gcr.io"),
        (Provider.GCP, "docker.me-central2.rep.pkg.dev"),
    ],
)
def test_other_registries(provider: Provider, host: str) -> None:
    assert read_registry(provider, host) == CloudRegistry(provider, host)
    for public in ("public.ecr.aws", "ecr-public.aws.com"):
        expected = CloudRegistry(Provider.AWS, public, partition="aws")
        assert read_registry(Provider.AWS, public) == expected
        assert find_provider(public.upper()) is Provider.AWS


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("shop.azurecr.io", "io"),
        ("shop-abc123.azurecr.io", "io"),
        ("shop.azurecr.cn", "cn"),
        ("shop.azurecr.us", "us"),
        ("shop.eastus.geo.azurecr.io", "io"),
    ],
)
def test_a_registry_of_azure_says_its_cloud(host: str, domain: str) -> None:
    assert read_registry(Provider.AZURE, host).domain == domain


OTHERS = [
    (Provider.AWS, f"{ECR}.evil.example"),
    (Provider.AWS, f"evil.{ECR}"),
    (Provider.AWS, f"{ECR}:444"),
    (Provider.AWS, f"{ECR}:443:443"),
    (Provider.AWS, f"{ECR}."),
    (Provider.AWS, "12345678901.dkr.ecr.eu-central-1.amazonaws.com"),
    (Provider.AWS, f"{ACCOUNT}.dkr.ecr.evil.example.eu-central-1.amazonaws.com"),
    (Provider.AWS, f"{ACCOUNT}.dkr.ecr.eu-central-1.evil.com"),
    (Provider.AWS, f"{ACCOUNT}.dkr-ecr.eu-central-1.on.aws.example"),
    (Provider.AWS, f"{ACCOUNT}.dkr.ecr.cn-north-1.amazonaws.com"),
    (Provider.AWS, f"{ACCOUNT}.dkr.ecr.eu-central-1.amazonaws.com.cn"),
    (Provider.AWS, f"{ACCOUNT}.dkr.ecr.us-iso-east-1.sc2s.sgov.gov"),
    (Provider.AWS, f"{ACCOUNT}.dkr.ecr.eusc-de-east-1.amazonaws.com"),
    (Provider.AWS, "\u0661" * 12 + ".dkr.ecr.eu-central-1.amazonaws.com"),
    (Provider.AWS, "public.ecr.aws.example"),
    (Provider.AWS, "gallery.ecr.aws"),
    (Provider.AWS, "ecr-public.aws.com.example"),
    (Provider.AWS, "evil.ecr-public.aws.com"),
    (Provider.AWS, "evilecr-public.aws.com"),
    (Provider.AWS, "ecr-public.aws"),
    (Provider.AWS, "ecr-public.us-east-1.api.aws"),
    (Provider.AWS, f"{ACCOUNT}.dkr-ecr.us-iso-west-1.on.aws"),
    (Provider.AWS, f"{ACCOUNT}.dkr-ecr.us-east-1.on.aws.ic.gov"),
    (Provider.AWS, f"{ACCOUNT}.dkr-ecr.cn-north-1.on.aws"),
    (Provider.AWS, "shop.azurecr.io"),
    (Provider.GCP, "pkg.dev.example"),
    (Provider.GCP, "evilpkg.dev"),
    (Provider.GCP, "evilgcr.io"),
    (Provider.GCP, "a.b.pkg.dev"),
    (Provider.GCP, "docker.a.b.rep.pkg.dev"),
    (Provider.GCP, "python.us-east1.rep.pkg.dev"),
    (Provider.GCP, "docker.us-east1.rep.pkg.dev.example"),
    (Provider.GCP, "europe-docker.pkg.dev:8443"),
    (Provider.AZURE, "azurecr.io"),
    (Provider.AZURE, "shop.azurecr.io.example"),
    (Provider.AZURE, "shop.azurecr.com"),
    (Provider.AZURE, "a.b.azurecr.io"),
    (Provider.AZURE, "shopazurecr.io"),
    (Provider.AZURE, "169.254.169.254"),
]


@pytest.mark.parametrize(("provider", "host"), OTHERS)
def test_no_other_host_gets_a_token(provider: Provider, host: str) -> None:
    with pytest.raises(ValueError, match=f"(isn't a registry of {provider}|no account or region)"):
        read_registry(provider, host)


@given(st.sampled_from(Provider), st.text(max_size=80))
def test_of_any_text_only_whole_names_are_taken(provider: Provider, text: str) -> None:
    try:
        found = read_registry(provider, text)
    except ValueError:
        return
    ends = ("amazonaws.com", ".aws", ".aws.com", ".pkg.dev", "gcr.io", ".azurecr.io", ".azurecr.cn")
    assert found.host.endswith(ends)
