"""``spec.provider``: the registry that it needs, and what commands say of the login."""

from __future__ import annotations

import pytest
from tests.builders.bundles import bundle as written
from tests.builders.bundles import parsed, refused
from tests.unit.cli.view.test_bundle import NOW, bundle, cells, described

from copyrator.api.clouds import CloudRegistry, Provider
from copyrator.api.text import detail_lines
from copyrator.bundles.features.login.fields import cloud_of
from copyrator.bundles.features.login.settings import LoginSettings
from copyrator.cli.core.installation import Installation
from copyrator.cli.view.bundle import BundleView, describe_bundle
from copyrator.cli.view.why_bundle import explain_bundle
from copyrator.settings.config import Settings


@pytest.mark.parametrize(
    ("spec", "shown"),
    [({}, "-"), ({"auth": "creds"}, "Secret creds"), ({"provider": "aws"}, "aws")],
)
def test_a_list_shows_how_a_registry_is_logged_in_to(spec: dict[str, str], shown: str) -> None:
    assert cells(bundle(spec))["LOGIN"] == shown


@pytest.mark.parametrize(
    ("own", "who"), [((), "ServiceAccount apps/werf"), (("app*",), "the operator's own identity")]
)
def test_describe_and_why_say_whose_token_the_registry_gets(own: tuple[str, ...], who: str) -> None:
    body = bundle({"registry": "shop.azurecr.io", "provider": "azure"})
    settings = Settings(features=(LoginSettings(operator_identity_namespaces=own),))
    view = BundleView(body, NOW, Installation(settings=settings, namespace="copyrator"))
    assert f"Logs in as:    {who} (azure)" in detail_lines(describe_bundle(view))
    assert f"shop.azurecr.io gets tokens of {who} (azure)." in list(explain_bundle(view))
    assert not described(bundle(), "Logs in as")


AZURE = {"registry": "shop.azurecr.io", "provider": "azure"}


def test_a_bundle_has_the_registry_of_its_provider() -> None:
    registry = CloudRegistry(Provider.AZURE, "shop.azurecr.io", domain="io")
    assert cloud_of(parsed(written(**AZURE))) == registry
    assert cloud_of(parsed(written(registry="shop.azurecr.io"))) is None


def test_the_registry_must_be_of_the_provider() -> None:
    found = refused(written(provider="azure"))
    assert found.path == "spec.registry"
    assert "isn't a registry of azure" in found.message
    other = refused(written(provider="azure", registry="europe-docker.pkg.dev"))
    assert other.message.endswith("or set spec.provider to gcp")
    assert "aws, gcp" in refused(written(provider="ibm")).message
