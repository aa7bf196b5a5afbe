"""What doctor says of the signature policy, its keys, and what runs without being trusted."""

import asyncio
import sys
from typing import Any, cast

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from copyrator.cli.core.installation import Installation
from copyrator.cli.doctor.objects import signatures
from copyrator.kube import errors
from copyrator.kube.client.client import Page
from copyrator.kube.client.pages import Items
from copyrator.settings.config import Settings
from copyrator.signatures.keyless import MISSING

NAME = "copyrator-signature-policy"
ENTRY = {
    "repositories": ["r.example.com/*"],
    "anyOf": [{"cosign": {"keysFrom": {"kind": "ConfigMap", "name": "keys"}}}],
}
NONE = "no policy of the operator: only spec.verify of Bundles requires signatures"
FINE = "no running version is untrusted"


def public_key() -> str:
    key = ec.generate_private_key(ec.SECP256R1()).public_key()
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


KEYS = {"cosign.pub": public_key()}


class Server:
    """Has the ConfigMaps of the operator's namespace, or an error in place of one, and Bundles."""

    def __init__(self, *bundles: dict[str, Any], **objects: Any) -> None:
        self.bundles = bundles
        self.objects = {name.replace("_", "-"): value for name, value in objects.items()}

    async def get(self, resource: Any, namespace: str, name: str) -> dict[str, Any]:
        assert (resource.kind, namespace) == ("ConfigMap", "op")
        found = self.objects.get(name, errors.NotFound())
        if isinstance(found, Exception):
            raise found
        return {"metadata": {"name": name}, "data": found}

    async def list_pages(self, *_: Any, **__: Any) -> Any:
        if "bundles" in self.objects:
            raise self.objects["bundles"]
        yield Page(items=cast("Items", list(self.bundles)), resource_version="1")


def policy(**fields: Any) -> dict[str, str]:
    return {"policy.yaml": yaml.safe_dump(fields)}


def bundle(name: str, verified: str) -> dict[str, Any]:
    conditions = [{"type": "Verified", "status": verified, "reason": "x", "message": "x"}]
    return {
        "metadata": {"name": name, "namespace": "team"},
        "status": {"conditions": conditions},
    }


def check(server: Server, **settings: Any) -> tuple[bool | None, str]:
    installation = Installation(settings=Settings(namespace="op", **settings), namespace="op")
    found = asyncio.run(signatures(cast("Any", server), installation))
    assert found.what == "Signatures"
    return found.good, found.said


REQUIRED = "doesn't exist, and the operator's settings require it"
WITH = f"ConfigMap op/{NAME}"


@pytest.mark.parametrize(
    ("objects", "settings", "good", "said"),
    [
        ({}, {}, True, NONE),
        (
            {},
            {"require_signature_policy": True},
            False,
            f"{WITH} {REQUIRED}: nothing new is deployed",
        ),
        ({NAME: policy(default="Deny")}, {}, True, f"{WITH} has 0 entries, default Deny"),
        (
            {NAME: policy(entries=[ENTRY]), "keys": KEYS},
            {},
            True,
            f"{WITH} has 1 entry, default Allow",
        ),
        (
            {NAME: policy(entries=[ENTRY])},
            {},
            False,
            f"{WITH}: ConfigMap op/keys doesn't exist: create it",
        ),
        (
            {NAME: policy(entries=[ENTRY]), "keys": errors.Forbidden("no")},
            {},
            None,
            f"{WITH} or its keys can't be read: no",
        ),
        ({NAME: errors.Forbidden("no")}, {}, None, f"{WITH} or its keys can't be read: no"),
        (
            {NAME: {"policy.yaml": "a: ["}},
            {},
            False,
            f"{WITH}: policy.yaml: isn't valid YAML in line 1; nothing new is deployed",
        ),
        (
            {NAME: {}},
            {},
            False,
            f"{WITH}: policy.yaml: is missing from its data; nothing new is deployed",
        ),
        (
            {NAME: {"policy.yaml": "#" * 65537}},
            {},
            False,
            f"{WITH}: policy.yaml: has over 65,536 characters; nothing new is deployed",
        ),
    ],
    ids=[
        "none", "none, but required", "valid", "with keys", "keys missing", "keys forbidden",
        "forbidden", "no YAML", "empty", "too large",
    ],
)  # fmt: skip
def test_the_policy_is_read_as_the_operator_reads_it(objects, settings, good, said):
    server = Server()
    server.objects = objects
    assert check(server, **settings) == (good, f"{said}; {FINE}")


def test_bundles_that_run_what_isnt_trusted_are_counted_and_some_named():
    one = Server(bundle("a", "False"), bundle("b", "True"), bundle("c", "Unknown"))
    assert check(one) == (
        False,
        f"{NONE}; 1 Bundle runs a version that isn't trusted: team/a",
    )
    many = Server(*(bundle(name, "False") for name in "edcba"))
    assert check(many) == (
        False,
        f"{NONE}; 5 Bundles run versions that aren't trusted: team/a, team/b, team/c, and 2 more",
    )


def test_bundles_that_may_not_be_listed_are_a_warning():
    assert check(Server(bundles=errors.Forbidden("no"))) == (
        None,
        f"{NONE}; Bundles can't be listed: no",
    )


def test_keyless_entries_cant_be_judged_where_only_the_operator_has_the_extra(monkeypatch):
    identity = {
        "issuer": "https://x",
        "subjectPattern": ".*",
        "trustedRootFrom": {"kind": "ConfigMap", "name": "root"},
    }
    entry = {**ENTRY, "anyOf": [{"cosign": identity}]}
    server = Server()
    server.objects = {NAME: policy(entries=[entry]), "root": {"root.json": "{}"}}
    assert check(server)[0] is False
    monkeypatch.setitem(sys.modules, "sigstore.models", None)
    good, said = check(server)
    assert good is None
    assert MISSING in said
