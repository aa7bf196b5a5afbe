"""``spec.provider``: the registry that it needs, and the fields that it excludes."""

from __future__ import annotations

from tests.builders.bundles import bundle, parsed, refused

from copyrator.api.clouds import CloudRegistry, Provider
from copyrator.bundles.features.login.fields import cloud_of

AZURE = {"registry": "shop.azurecr.io", "provider": "azure"}


def test_a_bundle_has_the_registry_of_its_provider() -> None:
    registry = CloudRegistry(Provider.AZURE, "shop.azurecr.io", domain="io")
    assert cloud_of(parsed(bundle(**AZURE))) == registry
    assert cloud_of(parsed(bundle(registry="shop.azurecr.io"))) is None


def test_the_registry_must_be_of_the_provider() -> None:
    found = refused(bundle(provider="azure"))
    assert found.path == "spec.registry"
    assert "isn't a registry of azure" in found.message
    other = refused(bundle(provider="azure", registry="europe-docker.pkg.dev"))
    assert other.message.endswith("or set spec.provider to gcp")
    assert "aws, gcp" in refused(bundle(provider="ibm")).message
