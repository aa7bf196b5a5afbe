"""Which statement `copyrator attest withdraw` withdraws, and what it says where there is none."""

from __future__ import annotations

from typing import Any

import pytest

from copyrator.cli.bundles.attest import _attested, is_due
from copyrator.cli.core.faults import Fault

OLD, NEW = "sha256:" + "0" * 64, "sha256:" + "1" * 64


def bundle(deployed: str = NEW, **states: str) -> dict[str, Any]:
    """A Bundle that has attested 1.0 and 2.0."""
    records = [
        {"digest": digest, "version": version, "environment": "staging", "state": state}
        for (version, digest), state in zip(
            {"1.0": OLD, "2.0": NEW}.items(), states.values(), strict=False
        )
    ]
    return {
        "metadata": {"namespace": "team", "name": "shop"},
        "status": {"deployed": {"digest": deployed, "version": "2.0"}, "attest": records},
    }


def test_the_deployed_version_or_the_one_that_is_named() -> None:
    found = bundle(first="Attested", second="Attesting")
    assert _attested(found, None).digest == NEW
    assert _attested(found, "1.0").digest == OLD
    assert _attested(bundle(first="Attested", second="Withdrawing"), None).digest == NEW


@pytest.mark.parametrize(
    ("body", "version", "said"),
    [
        (bundle(), None, "there is no attestation of the deployed version$"),
        (
            bundle(first="Attested"),
            None,
            "no attestation of the deployed version; of 1.0 there is: add --version",
        ),
        (bundle(first="Attested"), "3.0", "there is no attestation of 3.0; of 1.0 there is"),
        (bundle(first="Withdrawn"), "1.0", "bundle team/shop: 1.0 is withdrawn already"),
        (bundle(first="Attested", second="Withdrawn"), None, "2.0 is withdrawn already"),
    ],
)
def test_what_isnt_attested_cant_be_withdrawn(
    body: dict[str, Any], version: str | None, said: str
) -> None:
    with pytest.raises(Fault, match=said):
        _attested(body, version)


@pytest.mark.parametrize(
    ("attest", "more", "waits"),
    [
        pytest.param({}, {}, True, id="right after a deploy"),
        pytest.param({"after": "0s"}, {}, True, id="nothing has to stand"),
        pytest.param({"after": "24h"}, {}, False, id="it has to stand for a day"),
        pytest.param({}, {"version": "1.0"}, False, id="another version than the deployed one"),
        pytest.param({}, {"version": "2.0"}, True, id="the deployed one by its name"),
        pytest.param({}, {"first": "Attested"}, True, id="only the former version is attested"),
        pytest.param({}, {"second": "Attesting"}, False, id="it is recorded"),
        pytest.param({}, {"fault": "AttestKeyInvalid"}, False, id="it can't be attested"),
        pytest.param({}, {"held": "it burns"}, False, id="it is held"),
        pytest.param(None, {}, False, id="nothing is attested at all"),
    ],
)
def test_a_statement_that_is_about_to_be_made_is_waited_for(
    attest: dict[str, str] | None, more: dict[str, str], waits: bool
) -> None:
    states = {"first": more.get("first", "Withdrawn"), "second": more.get("second", "")}
    body = bundle(**states)
    body["spec"] = {} if attest is None else {"attest": {"environment": "staging", **attest}}
    body["status"]["attest"] = [one for one in body["status"]["attest"] if one["state"]]
    if fault := more.get("fault"):
        body["status"]["conditions"] = [{"type": "Attested", "status": "False", "reason": fault}]
    if held := more.get("held"):
        body["metadata"]["annotations"] = {"operator.werf.dev/hold": held}
    assert is_due(body, more.get("version")) is waits
