"""Which statement `copyrator attest withdraw` withdraws, and what it says where there is none."""

from __future__ import annotations

from typing import Any

import pytest

from copyrator.cli.bundles.attest import _attested
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
