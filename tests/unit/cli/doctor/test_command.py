"""What doctor says of the Lease, rules and Bundles, admission policies, signatures, and at last.

A rollout leaves the Lease without a holder for a moment: doctor waits, where a pod is ready.
"""

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import click
import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.unit.cli.fake_server import FakeServer
from tests.unit.cli.view.objects_seen import bundle

from copyrator.api.text import format_micro_time, format_time
from copyrator.bundles.features.signatures.settings import SignaturesSettings
from copyrator.cli.bundles.checks import approval_policy, asks_for_approval, signatures
from copyrator.cli.core.installation import Installation
from copyrator.cli.doctor import check, command
from copyrator.cli.doctor.command import is_overlooked, object_faults
from copyrator.kube import errors
from copyrator.settings.config import Settings
from copyrator.signatures.keyless import MISSING

INSTALLATION = Installation(settings=Settings(), namespace="op")


class Released:
    """A Lease that its holder gave up, and that the next one takes after some looks."""

    def __init__(self, looks: float) -> None:
        self.left = looks
        self.server_time = datetime.now(UTC)

    async def get(self, *_: Any) -> dict[str, Any]:
        self.left -= 1
        spec = {"renewTime": format_micro_time(datetime.now(UTC)), "leaseDurationSeconds": 10}
        return {
            "metadata": {},
            "spec": spec | ({"holderIdentity": "next"} if self.left < 0 else {}),
        }


def checked(looks: float, *, ready: bool, **more: float) -> tuple[bool | None, str]:
    async def check() -> command.Check:
        server = cast("Any", Released(looks))
        lease = command.check_lease(server, INSTALLATION, ready=ready, **more)
        (found,) = [one async for one in lease]
        return found

    found = asyncio.run(check())
    return found.good, found.said


def test_with_a_ready_pod_the_next_holder_has_time():
    assert checked(1, ready=True) == (True, "held by next")


def test_without_one_it_fails_at_once():
    good, said = checked(1, ready=False)
    assert not good
    assert said.startswith("the Lease op/copyrator has no holder: check that the operator is run")


def test_the_time_ends():
    good, _ = checked(float("inf"), ready=True, takeover=0.6)
    assert not good


@pytest.mark.parametrize(
    ("installation", "objects", "code", "said"),
    [
        ([True, True], [True], 0, "All checks passed."),
        ([True, None], [], 0, "No check failed; 1 check marked ? had no clear result."),
        ([False, True], [True], 1, "1 check failed."),
        (
            [False, False, None],
            [None],
            1,
            "2 checks failed; 2 checks marked ? had no clear result.",
        ),
        ([True], [False], 3, "The installation is well; 1 rule or Bundle fails."),
        (
            [None],
            [False, False],
            3,
            "The installation is well; 2 rules or Bundles fail; 1 check marked ? had no clear",
        ),
        ([False], [False], 1, "1 check failed; 1 rule or Bundle fails."),
    ],
)
def test_the_end_tells_failing_objects_from_a_failing_installation(
    installation, objects, code, said, capsys
):
    found = [check.Check("object", good, "x", of_object=True) for good in objects]
    found += [check.Check("check", good, "x") for good in installation]
    ended = 0
    try:
        check.print_checks(found, None)
    except click.exceptions.Exit as end:
        ended = end.exit_code
    *lines, last = capsys.readouterr().out.splitlines()
    assert ended == code
    assert last.startswith(said)
    words = [line.split()[1] for line in lines if line]
    assert words == ["check:"] * len(installation) + ["object:"] * len(objects)


NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "served", "seconds", "overlooked"),
    [
        ("CopyratorRule", None, 31, True),
        ("CopyratorRule", None, 29, False),
        ("CopyratorRule", "other", 31, False),
        ("CopyratorRule", "a", 31, True),
        ("Bundle", "other", 31, True),
    ],
)
def test_an_object_without_a_status_is_overlooked_after_a_while(kind, served, seconds, overlooked):
    created = format_time(NOW - timedelta(seconds=seconds))
    body = {"metadata": {"name": "a", "namespace": "b", "creationTimestamp": created}}
    installation = Installation(settings=Settings(rule_name=served), namespace="b")
    assert is_overlooked(body, kind, installation, NOW) is overlooked


@pytest.mark.parametrize(
    ("status", "reason", "found"),
    [
        ("False", "DeployFailed", [False]),
        ("False", "Suspended", [None]),
        ("False", "AutoupdateDisabled", [None]),
        ("True", "Suspended", []),
        ("Unknown", "Suspended", []),
        ("True", "Deployed", []),
    ],
)
def test_a_suspended_object_is_no_fault(status, reason, found):
    body = bundle("shop", status, reason, message="suspended; before: DeployFailed: no")
    installation = Installation(settings=Settings(), namespace="b")
    checks = list(object_faults([body], "Bundle", installation, NOW))
    assert [one.good for one in checks] == found
    assert all(one.said.startswith(f"{reason}: suspended; before") for one in checks)


NOT_SERVED = (
    "not served as v1 by this API server (Kubernetes 1.30 and later): whoever can edit a Bundle "
    "can also approve its plans; upgrade Kubernetes, see docs/trust.md"
)


class Policies:
    """Answers every request with an error."""

    def __init__(self, error: errors.ApiError) -> None:
        self.error = error

    async def request(self, *_: Any, **__: Any) -> Any:
        raise self.error


def installed(**settings: Any) -> Installation:
    return Installation(settings=Settings(**settings), namespace="op")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (errors.NotFound(), NOT_SERVED),
        (errors.Forbidden("no"), "can't be listed: no"),
    ],
    ids=["Kubernetes 1.29", "forbidden"],
)
def test_a_policy_that_cant_be_there_or_seen_is_a_warning(error: errors.ApiError, said: str):
    check = asyncio.run(approval_policy(cast("Any", Policies(error)), installed()))
    assert (check.what, check.good, check.said) == ("Approval policy", None, said)


@pytest.mark.parametrize(
    ("approval", "asked"),
    [(None, False), ({}, False), ({"mode": "Never"}, False), ({"mode": "OnRisk"}, True)],
)
def test_a_bundle_asks_for_approval_by_its_mode(approval: Any, asked: bool):
    assert asks_for_approval({"spec": {"approval": approval} if approval else {}}) is asked


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


def config_map(name: str, data: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


def policy(**fields: Any) -> dict[str, str]:
    return {"policy.yaml": yaml.safe_dump(fields)}


def verified(name: str, verified: str) -> dict[str, Any]:
    conditions = [{"type": "Verified", "status": verified, "reason": "x", "message": "x"}]
    return {
        "metadata": {"name": name, "namespace": "team"},
        "status": {"conditions": conditions},
    }


def signatures_of(
    objects: Any = None, bundles: Any = (), **settings: Any
) -> tuple[bool | None, str]:
    """With ConfigMaps of this data, or an error in place of one."""
    server = FakeServer(
        {
            f"configmaps/{name}": data if isinstance(data, Exception) else config_map(name, data)
            for name, data in (objects or {}).items()
        }
    )
    installation = Installation(settings=Settings(namespace="op", **settings), namespace="op")
    found = asyncio.run(signatures(cast("Any", server), installation, bundles))
    assert found.what == "Signatures"
    return found.good, found.said


WITH = f"ConfigMap op/{NAME}"


POLICIES: dict[str, tuple[dict[str, Any], bool | None, str]] = {
    "none": ({}, True, NONE),
    "valid": ({NAME: policy(default="Deny")}, True, f"{WITH} has 0 entries, default Deny"),
    "with keys": (
        {NAME: policy(entries=[ENTRY]), "keys": KEYS},
        *(True, f"{WITH} has 1 entry, default Allow"),
    ),
    "keys missing": (
        {NAME: policy(entries=[ENTRY])},
        *(False, f"{WITH}: ConfigMap op/keys doesn't exist: create it"),
    ),
    "keys forbidden": (
        {NAME: policy(entries=[ENTRY]), "keys": errors.Forbidden("no")},
        *(None, f"{WITH} or its keys can't be read: no"),
    ),
    "forbidden": (
        {NAME: errors.Forbidden("no")},
        *(None, f"{WITH} or its keys can't be read: no"),
    ),
    "no YAML": (
        {NAME: {"policy.yaml": "a: ["}},
        *(False, f"{WITH}: policy.yaml: isn't valid YAML in line 1; nothing new is deployed"),
    ),
    "empty": (
        {NAME: {}},
        *(False, f"{WITH}: policy.yaml: is missing from its data; nothing new is deployed"),
    ),
}


@pytest.mark.parametrize(("objects", "good", "said"), POLICIES.values(), ids=POLICIES)
def test_the_policy_is_read_as_the_operator_reads_it(objects, good, said):
    assert signatures_of(objects) == (good, f"{said}; {FINE}")


def test_a_policy_that_the_settings_require_has_to_be_there():
    required = {"features": (SignaturesSettings(require_signature_policy=True),)}
    said = f"{WITH} doesn't exist, and the operator's settings require it: nothing new is deployed"
    assert signatures_of({}, **required) == (False, f"{said}; {FINE}")


def test_bundles_that_run_what_isnt_trusted_are_counted_and_some_named():
    one = [verified("a", "False"), verified("b", "True"), verified("c", "Unknown")]
    assert signatures_of(bundles=one) == (
        False,
        f"{NONE}; 1 Bundle runs a version that isn't trusted: team/a",
    )
    many = [verified(name, "False") for name in "edcba"]
    assert signatures_of(bundles=many) == (
        False,
        f"{NONE}; 5 Bundles run versions that aren't trusted: team/a, team/b, team/c, and 2 more",
    )


def test_the_policy_is_judged_where_bundles_may_not_be_listed():
    server = cast("Any", FakeServer())
    check = asyncio.run(signatures(server, installed(namespace="op"), None))
    assert (check.good, check.said) == (True, NONE)


def test_keyless_entries_cant_be_judged_where_only_the_operator_has_the_extra(monkeypatch):
    identity = {
        "issuer": "https://x",
        "subjectPattern": ".*",
        "trustedRootFrom": {"kind": "ConfigMap", "name": "root"},
    }
    entry = {**ENTRY, "anyOf": [{"cosign": identity}]}
    there = {NAME: policy(entries=[entry]), "root": {"root.json": "{}"}}
    assert signatures_of(there)[0] is False
    monkeypatch.setitem(sys.modules, "sigstore.models", None)
    good, said = signatures_of(there)
    assert good is None
    assert MISSING in said
