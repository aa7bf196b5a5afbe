"""Checks of kubeconfigs: when a credential ends, and which objects a rule reads by one."""

from __future__ import annotations

import asyncio
import base64
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
)
from tests.unit.cli.fake_server import FakeServer
from tests.unit.signatures.making import key, private_pem, public_pem

from copyrator.api.kubeconfig import Kubeconfig
from copyrator.cli.bundles.checks import attestations
from copyrator.cli.core.installation import Installation
from copyrator.cli.core.remote import (
    _read_by,
    _sources_of,
    credential,
    kubeconfigs,
)
from copyrator.settings.config import Settings

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("left", "good", "said"),
    [
        (None, True, "a token without a known end"),
        (timedelta(days=15), True, "the token ends at 2026-06-16T12:00:00Z"),
        (
            timedelta(days=13),
            None,
            "the token ends at 2026-06-14T12:00:00Z, in 13d; write a new one into the Secret",
        ),
        (
            timedelta(0),
            False,
            "the token ended at 2026-06-01T12:00:00Z; write a new one into the Secret",
        ),
    ],
)
def test_the_end_of_a_credential(left: timedelta | None, good: bool | None, said: str) -> None:
    ends = None if left is None else NOW + left
    found = credential(Kubeconfig(server="https://hub", ca=b"", token="t", ends=ends), NOW)
    assert (found.good, found.said) == (good, said)


def asked(**spec: Any) -> list[tuple[str, str]]:
    """What a rule reads by each Secret."""
    return [
        (ref.secret, str(one))
        for source, ref in _sources_of({"spec": spec})
        if ref is not None
        for one in _read_by(source, "home")
    ]


def test_the_sources_of_a_rule_with_their_kubeconfigs() -> None:
    hub = {"kubeConfig": {"secretName": "hub"}}
    assert asked(source={"name": "creds", **hub}) == [("hub", "Secret home/creds")]
    assert asked(source={"kind": "ConfigMap", "namespaces": ["a", "b"], **hub}) == [
        ("hub", "ConfigMap a/*"),
        ("hub", "ConfigMap b/*"),
    ]
    assert asked(
        sources=[
            {"as": "one", "name": "x", "namespace": "a", **hub},
            {"as": "two", "name": "y", "kubeConfig": {"secretName": "edge", "key": "k"}},
            {"as": "here", "name": "z"},
        ]
    ) == [("hub", "Secret a/x"), ("edge", "Secret home/y")]


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"source": "x", "sources": "y"},
        {"source": {"kubeConfig": "hub"}},
        {"sources": [1, {"kubeConfig": {"secretName": 1}}]},
    ],
)
def test_invalid_rules_are_passed_over(spec: dict[str, Any]) -> None:
    assert asked(**spec) == []


INSTALLATION = Installation(settings=Settings(), namespace="op")


def body(name: str, **spec: Any) -> dict[str, Any]:
    spec = {"registry": "r.example", "repo": "app", **spec}
    return {"metadata": {"namespace": "team", "name": name, "uid": name}, "spec": spec}


def secret(text: str) -> dict[str, Any]:
    return {"data": {"value": base64.b64encode(text.encode()).decode()}}


def test_doctor_names_each_kubeconfig_at_fault_once() -> None:
    named = {name: {"kubeConfig": {"secretName": name}} for name in ("hub", "none")}
    rules = [body("a", source=named["hub"]), body("b", source=named["hub"])]
    server = FakeServer({"secrets/hub": secret("users: [S3cret")})
    bundles = [body("shop", **named["none"])]
    found = asyncio.run(kubeconfigs(cast("Any", server), rules, bundles, NOW))
    assert found.good is False
    assert found.said.startswith(
        "Secret team/hub, key value: it isn't valid YAML in line 2; Secret team/none, key value: "
        "there is no such Secret; see: copyrator remote check SECRET"
    )
    found = asyncio.run(kubeconfigs(cast("Any", FakeServer()), [], [], NOW))
    assert (found.good, found.said) == (True, "no rule or Bundle names another cluster")


def test_doctor_names_keys_that_cant_be_used_and_statements_that_arent_pushed() -> None:
    keys = {"environment": "staging", "cosign": {"keysFrom": {"kind": "ConfigMap", "name": "keys"}}}
    shop = body("shop", promoteFrom={"attestations": [keys]})
    key_from = {"secretName": "attest-key", "key": "key.pem"}
    staging = body("staging", attest={"environment": "staging", "keyFrom": key_from})
    attested = {"type": "Attested", "status": "True", "reason": "Attested", "message": "x"}
    staging["status"] = {"conditions": [attested]}

    def found(objects: Any = None) -> tuple[bool | None, str]:
        server, bundles = cast("Any", FakeServer(objects)), [shop, staging, body("other")]
        check = asyncio.run(attestations(server, INSTALLATION, bundles))
        return check.good, check.said

    missing = "Bundle team/staging: Secret team/attest-key of spec.attest doesn't exist; create it"
    assert found() == (
        False,
        f"Bundle team/shop: ConfigMap team/keys doesn't exist: create it; {missing}",
    )
    pem = base64.b64encode(private_pem(key("P-384"))).decode()
    there = {
        "configmaps/keys": {"data": {"a.pem": public_pem(key("P-256")).decode()}},
        "secrets/attest-key": {"data": {"key.pem": pem}},
    }
    fine = (True, "1 Bundle attests, and 1 is promoted by attestations")
    assert found(there) == fine
    attested |= {"status": "False", "reason": "AttestationWithdrawn"}
    assert found(there) == fine
    attested |= {"reason": "AttestKeyInvalid", "message": "key.pem is a public key"}
    assert found(there) == (
        False,
        "Bundle team/staging: AttestKeyInvalid: key.pem is a public key",
    )


def test_doctor_names_the_fault_of_a_key_that_attests_and_nothing_of_it() -> None:
    def found(pushes: dict[str, Any], secret: str = "", **data: bytes) -> tuple[bool | None, str]:
        staging = body("staging", attest={"environment": "staging", **pushes})
        texts = {name: base64.b64encode(content).decode() for name, content in data.items()}
        there = {f"secrets/{secret}": {"data": texts}} if secret else {}
        server = cast("Any", FakeServer(there))
        check = asyncio.run(attestations(server, INSTALLATION, [staging]))
        return check.good, check.said

    own = {"keyFrom": {"secretName": "attest-key", "key": "pem", "passwordKey": "password"}}
    where = "Bundle team/staging: Secret team/attest-key of spec.attest"
    private, fine = key("P-256"), (True, "1 Bundle attests, and 0 are promoted by attestations")
    encrypted = private.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"S3cret")
    )
    assert found(own) == (False, f"{where} doesn't exist; create it")
    assert found(own, "attest-key", pem=encrypted) == (
        False,
        f"{where} has no key password; add it",
    )
    assert found(own, "attest-key", pem=encrypted, password=b"S3cret") == fine
    good, said = found(own, "attest-key", pem=public_pem(private), password=b"S3cret")
    assert (good, "is a public key: store the private key" in said) == (False, True)
    good, said = found(own, "attest-key", pem=b"S3cret", password=b"x")
    assert (good, "S3cret" in said) == (False, False)
    operators_own = {"keyFrom": {"operator": True}}
    operators = "Bundle team/staging: Secret op/copyrator-attest-key of spec.attest"
    assert found(operators_own) == (False, f"{operators} doesn't exist; create it")
    assert found(operators_own, "copyrator-attest-key", **{"key.pem": private_pem(private)}) == fine
    good, said = found(operators_own, "copyrator-attest-key", **{"key.pem": encrypted})
    assert (good, "is encrypted, and there is no password" in said) == (False, True)
