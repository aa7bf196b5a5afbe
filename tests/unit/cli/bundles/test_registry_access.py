"""With which credentials `skip` asks a Bundle's registry."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from copyrator.api.bundle import parse_bundle
from copyrator.api.bundle_spec import BundleDefaults, BundleSpec
from copyrator.api.clouds import ANN_AWS_ROLE, Provider
from copyrator.cli.bundles.clouds import shown_annotations
from copyrator.cli.bundles.registry import access_of
from copyrator.cli.core import installation
from copyrator.cli.core.faults import Fault
from copyrator.cli.core.installation import Installation
from copyrator.kube.errors import Forbidden
from copyrator.settings.config import Settings

NO_OPTIONS: dict[str, Any] = {
    "insecure": False,
    "skip_tls_verify": False,
    "ca_file": None,
    "auth_file": None,
}
HOST = "registry.example.com"
PASSWORD = {"username": "ann", "password": "sentinel"}
AUTHS = {"auths": {HOST: {"username": "ann", "password": "sentinel"}}}
DOCKER = {".dockerconfigjson": json.dumps(AUTHS)}


class Client:
    """An API server with these Secrets; None: they may not be read."""

    def __init__(self, secrets: dict[str, dict[str, str]] | None, **annotations: str) -> None:
        self.secrets = secrets
        self.annotations = annotations

    async def get(self, _resource: Any, namespace: str, name: str) -> dict[str, Any]:
        assert namespace == "team"
        if self.secrets is None:
            raise Forbidden(f"get secrets {name} is forbidden")
        data = {key: b64encode(text.encode()).decode() for key, text in self.secrets[name].items()}
        return {"metadata": {"annotations": self.annotations}, "data": data}


def spec(**fields: Any) -> BundleSpec:
    body = {
        "metadata": {"name": "shop", "namespace": "team"},
        "spec": {"registry": HOST, "repo": "app", **fields},
    }
    found = parse_bundle(body, BundleDefaults())
    assert isinstance(found, BundleSpec)
    return found


def read(client: Client, found: BundleSpec, options: dict[str, Any] = NO_OPTIONS) -> Any:
    return asyncio.run(access_of(client, found, options))  # type: ignore[arg-type]


def installed(
    monkeypatch: pytest.MonkeyPatch, *floors: tuple[str, str], is_read: bool = True
) -> None:
    async def find(_client: Any) -> Installation:
        settings = Settings(namespace="home", require_approval=floors)
        return Installation(settings=settings, namespace="home", found=is_read)

    monkeypatch.setattr(installation, "find_installation", find)


def test_the_secrets_of_the_bundle_are_used_as_the_operator_uses_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed(monkeypatch, ("production", "Always"))
    client = Client({"login": PASSWORD, "ca": {"ca.crt": "PEM"}})
    repository, credential = read(client, spec(auth="login", caSecret="ca", insecure=True))
    assert (repository.registry, repository.name, repository.ca) == (HOST, "app", b"PEM")
    assert repository.plain_http
    assert credential.username == "ann"
    assert read(Client(None), spec()) == (read(client, spec())[0], None), "nothing is read"


def test_options_come_before_secrets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed(monkeypatch)
    (tmp_path / "ca").write_text("MINE")
    (tmp_path / "auth").write_text(json.dumps({"auths": {HOST: {"auth": "Ym9iOnNlY3JldA=="}}}))
    options = {**NO_OPTIONS, "ca_file": tmp_path / "ca", "auth_file": tmp_path / "auth"}
    repository, credential = read(Client(None), spec(auth="login", caSecret="ca"), options)
    assert (repository.ca, credential.username) == (b"MINE", "bob")


@pytest.mark.parametrize("place", ["team", "release"])
def test_a_password_goes_only_where_its_secret_says_where_an_approval_is_required(
    monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    installed(monkeypatch, (place, "OnRisk"))
    found = spec(auth="login", project_namespace="release")
    with pytest.raises(Fault, match=rf"isn't sent to {HOST}.*or set --auth-file") as caught:
        read(Client({"login": PASSWORD}), found)
    assert "sentinel" not in str(caught.value)
    named = Client({"login": PASSWORD}, **{"operator.werf.dev/registry": HOST})
    assert read(named, found)[1].username == "ann"
    assert read(Client({"login": DOCKER}), found)[1].username == "ann", "it names its hosts"


def test_where_the_settings_cannot_be_read_a_password_is_not_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed(monkeypatch, is_read=False)
    with pytest.raises(Fault, match=r"which may forbid .* can't be read: set --auth-file"):
        read(Client({"login": PASSWORD}), spec(auth="login"))
    assert read(Client({"login": DOCKER}), spec(auth="login"))[1].username == "ann"


@pytest.mark.parametrize(
    ("secrets", "text"),
    [
        (None, "get secrets login is forbidden: set --auth-file"),
        ({"login": {"username": "ann"}, "ca": {}}, "Secret team/login of spec.auth"),
        ({"login": PASSWORD, "ca": {}}, "Secret team/ca of spec.caSecret has no key ca.crt"),
    ],
)
def test_what_is_missing_is_named_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, secrets: dict[str, dict[str, str]] | None, text: str
) -> None:
    installed(monkeypatch)
    with pytest.raises(Fault) as caught:
        read(Client(secrets), spec(auth="login", caSecret="ca"))
    assert text in str(caught.value)
    assert "name the digest" in str(caught.value)


def test_annotations_are_shown_on_one_line() -> None:
    """Or whoever edits an account could write lines of `doctor`."""
    role = "arn\n[OK] all: is well\x1b[2J" + "x" * 300_000
    shown = shown_annotations(Provider.AWS, {ANN_AWS_ROLE: role, "other": "not shown"})
    assert shown.startswith(" (arn [OK] all: is well [2Jxx")
    assert shown.isprintable()
    assert len(shown) < 300
