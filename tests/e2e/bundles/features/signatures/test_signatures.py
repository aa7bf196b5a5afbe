"""Only what has a trusted signature is deployed, and what isn't trusted any more is named."""

import secrets
from typing import Any

import pytest
from tests.e2e.bundles.conftest import Operator, Team, stays
from tests.e2e.operator_process import until

from localcluster.signing import attach, new_key, public_key, sign

pytestmark = pytest.mark.usefixtures("operator")

KEYS = {"anyOf": [{"cosign": {"keysFrom": {"kind": "ConfigMap", "name": "keys"}}}]}


class Signer:
    """Somebody with a key, who signs what a team publishes."""

    def __init__(self, team: Team) -> None:
        self.key = new_key()
        self._team = team

    def sign(self, digest: str, **options: Any) -> None:
        sign(self.key, self._team.cluster.registry, self._team.repo, digest, **options)

    def attach(self, digest: str) -> None:
        attach(self.key, self._team.cluster.registry, self._team.repo, digest)


def trust(team: Team, *signers: Signer, name: str = "keys") -> None:
    """Make or replace the ConfigMap with the keys of those who are trusted."""
    data = {f"{number}.pub": public_key(one.key) for number, one in enumerate(signers)}
    if team.get("configmaps", name) is None:
        team.create("configmaps", name, data=data)
    else:
        change = [{"op": "replace", "path": "/data", "value": data}]
        team.api.patch(team.path("configmaps", name), change, "json-patch")


def verified(team: Team) -> tuple[str, str]:
    found = team.condition("shop", "Verified")
    return found.get("status", ""), found.get("reason", "")


def look_now(team: Team) -> None:
    team.annotate("shop", requestedAt=secrets.token_hex(4))


def untrusted(operator: Operator) -> int:
    """The gauge of running versions that aren't trusted."""
    assert operator.process is not None
    _, text = operator.process.get("/metrics")
    return int(float(text.partition("\ncopyrator_bundles_untrusted ")[2].split()[0]))


def event_reasons(team: Team) -> set[str]:
    events = team.api.get(team.path("events"), fieldSelector="involvedObject.name=shop")["items"]
    return {event["reason"] for event in events}


def rejected(team: Team) -> dict[str, str]:
    found = team.status("shop").get("available", {}).get("rejected", [])
    return {one["version"]: one["reason"] for one in found}


def test_only_signed_versions_are_deployed_and_keys_rotate_and_are_withdrawn(
    team: Team, operator: Operator
) -> None:
    """One Bundle, from its first version, which isn't signed, to a key that leaks."""
    ann, mallory = Signer(team), Signer(team)
    trust(team, ann)
    first = team.publish("1.0.0", "first")
    team.bundle("shop", version="1.0.*", verify=KEYS)
    condition = team.wait_reason("shop", "Unsigned")
    assert condition["status"] == "False"
    assert first in condition["message"]
    assert team.condition("shop", "UpdatePending")["reason"] == "Unsigned"
    stays(5, lambda: team.jobs("shop") == [], "nothing is deployed unsigned")

    # The highest signed version is deployed, and others are named.
    second, third = team.publish("1.0.1", "second"), team.publish("1.0.2", "third")
    mallory.sign(second)
    ann.sign(third, signed=first)  # copied over from another digest
    ann.sign(first)
    team.wait_deployed("shop", first)
    assert verified(team) == ("True", "Verified")
    assert "cosign keys of ConfigMap" in team.condition("shop", "Verified")["message"]
    until(lambda: team.condition("shop")["status"] == "True", "it is ready")
    until(
        lambda: rejected(team) == {"1.0.2": "SignatureInvalid", "1.0.1": "SignatureInvalid"},
        lambda: str(rejected(team)),
    )
    pending = team.condition("shop", "UpdatePending")
    assert (pending["status"], pending["reason"]) == ("True", "SignatureInvalid")
    assert third in pending["message"]

    # A key more, by which the next one is signed: nothing stands still meanwhile.
    bob = Signer(team)
    trust(team, ann, bob)
    bob.attach(second)  # as cosign 3 does
    team.wait_deployed("shop", second)
    assert rejected(team) == {"1.0.2": "SignatureInvalid"}

    trust(team, ann)  # the new one leaked
    until(lambda: verified(team) == ("False", "SignatureInvalid"), "it isn't trusted")
    assert "1.0.1 stays deployed" in team.condition("shop", "Verified")["message"]
    assert team.condition("shop")["status"] == "True"
    assert team.release("shop")["text"] == "second"
    until(lambda: "SignatureInvalid" in event_reasons(team), "an Event, after the status")
    until(lambda: untrusted(operator) == 1)
    jobs = len(team.jobs("shop"))
    look_now(team)
    stays(4, lambda: len(team.jobs("shop")) == jobs, "a request passes over no signature")

    trust(team, bob)
    until(lambda: verified(team) == ("True", "Verified"), "it is trusted again")
    until(lambda: untrusted(operator) == 0)
