"""`resolve` judges by a Bundle's gates, says which it can't judge, and names its own options."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import aiohttp
import pytest
from multidict import CIMultiDict
from tests.unit.cli.fake_server import FakeServer
from tests.unit.signatures.making import key, public_pem

from copyrator.api.bundle_status import Rejected
from copyrator.api.keys import BundleKey
from copyrator.api.reasons.bundles import Rejection
from copyrator.api.text import format_time
from copyrator.api.version_range import VersionRange, parse_version
from copyrator.bundles.engine.gate import Candidate, Waiting
from copyrator.bundles.evidence.signers import NOTHING_ASKED
from copyrator.bundles.features.promotion.attesters import Attesters
from copyrator.bundles.tags import Choice, Selection, explain
from copyrator.cli.bundles.registry import SignatureJudge, credential_of, in_options
from copyrator.cli.bundles.resolve import BundleGates, ResolvedTag, _explain, _range, _read
from copyrator.cli.core.faults import Fault
from copyrator.cli.core.installation import Installation
from copyrator.kube import errors
from copyrator.oci.auth import Credential, RequestScope, access_error, credential_error
from copyrator.oci.client import repository_error
from copyrator.oci.exchange import Repository, Response
from copyrator.oci.transport import connection_error
from copyrator.settings.config import Settings
from copyrator.signatures.model import DeployedEvidence, DeployedStatement

NOW = datetime.now(UTC).replace(microsecond=0)
OLD, NEW = "sha256:" + "0" * 64, "sha256:" + "1" * 64
CHOSEN = Candidate("1.1.0", NEW)
LEASE = {
    "metadata": {"annotations": {"copyrator.flant.com/seen-time": "2026-01-01T00:00:00Z"}},
    "spec": {"renewTime": format_time(NOW)},
}


def ago(seconds: int) -> str:
    return format_time(NOW - timedelta(seconds=seconds))


def bundle(
    name: str = "shop", status: Any = None, annotations: Any = None, **spec: Any
) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": "team",
        "uid": name,
        "resourceVersion": "1",
        "generation": 1,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "annotations": annotations or {},
    }
    spec = {"registry": "r.example", "repo": "app", "version": "1.*", **spec}
    there = {"version": "1.0.0", "digest": OLD, "reference": "r.example/app"}
    return {"metadata": metadata, "spec": spec, "status": {"deployed": there, **(status or {})}}


def gates(shop: dict[str, Any], **objects: Any) -> BundleGates:
    """``configmaps_keys``: the ConfigMap keys."""
    named = {"bundles_shop": shop, "leases_copyrator": LEASE, **objects}
    server = FakeServer(
        {key.replace("_", "/", 1).replace("_", "-"): found for key, found in named.items()}
    )
    installation = Installation(settings=Settings(), namespace="op")
    return asyncio.run(_read(cast("Any", server), installation, BundleKey("team", "shop")))


def rows(found: BundleGates, *, signed: bool = False) -> dict[str, tuple[str, str, str]]:
    return {
        one["name"]: (one["state"], one.get("reason", ""), one.get("message", ""))
        for one in found.document(CHOSEN, signed=signed)
    }


@pytest.mark.needs("age")
def test_a_young_version_waits_and_an_old_one_passes() -> None:
    seen = {"candidates": [{"version": "1.1.0", "digest": NEW, "firstSeen": ago(3600)}]}
    (result,) = gates(bundle(status=seen, minAge="5h")).versions(CHOSEN)
    assert isinstance(result.verdict, Waiting)
    assert result.verdict.until == NOW + timedelta(hours=4)
    (result,) = gates(bundle(status=seen, minAge="30m")).versions(CHOSEN)
    assert not result.objects


def staging(since: int, **annotations: str) -> dict[str, Any]:
    soak = [{"digest": NEW, "version": "1.1.0", "since": ago(since)}]
    return bundle("staging", status={"soak": soak}, annotations=annotations)


PROMOTED = {"promoteFrom": {"bundles": [{"name": "staging"}], "soak": "1h"}}


@pytest.mark.needs("promotion")
@pytest.mark.parametrize(("since", "state"), [(60, "Waiting"), (4000, "Passed")])
def test_the_soak_in_the_other_bundle_is_judged(since: int, state: str) -> None:
    found = gates(bundle(**PROMOTED), bundles_staging=staging(since))
    assert rows(found)["promotion"][0] == state


@pytest.mark.needs("promotion")
@pytest.mark.parametrize(
    ("objects", "said"),
    [
        ({"bundles_staging": errors.Forbidden("get bundles is forbidden")}, "Bundle team/staging"),
        ({"leases_copyrator": errors.Forbidden("get leases is forbidden")}, "isn't known"),
        ({"leases_copyrator": {"metadata": {}}}, "has no record"),
    ],
)
def test_a_soak_is_not_judged_where_something_cannot_be_read(
    objects: dict[str, Any], said: str
) -> None:
    found = gates(bundle(**PROMOTED), **{"bundles_staging": staging(9999), **objects})
    state, _, message = rows(found)["promotion"]
    assert state == "NotJudged"
    assert said in message
    assert found.versions(CHOSEN) == (), "so that it turns nothing down"


PUBLIC = public_pem(key("P-256")).decode()
KEYS = {"metadata": {"name": "staging-keys"}, "data": {"staging.pem": PUBLIC}}


def attested_by(*environments: str, **spec: Any) -> dict[str, Any]:
    """A Bundle that is promoted by attestations."""
    named = [
        {
            "environment": one,
            "cosign": {"keysFrom": {"kind": "ConfigMap", "name": f"{one}-keys"}},
            "soak": "1h",
        }
        for one in environments
    ]
    return bundle(promoteFrom={"attestations": named}, **spec)


def statement(seconds: int, *, withdrawn: bool = False) -> DeployedStatement:
    return DeployedStatement(
        environment="staging",
        digest=NEW,
        seconds=seconds,
        since=NOW - timedelta(hours=3),
        until=NOW,
        issued_at=NOW,
        withdrawn=withdrawn,
        reason="a test failed" if withdrawn else "",
        namespace="team",
        release="shop",
        revision=1,
        cluster="uid",
    )


@pytest.mark.needs("promotion")
@pytest.mark.parametrize(
    ("evidence", "state", "said"),
    [
        (DeployedEvidence(), "Waiting", "has no evidence from the environment staging that counts"),
        (DeployedEvidence((statement(60),)), "Waiting", "release team/shop of cluster uid for 1m"),
        (DeployedEvidence((statement(7200),)), "Passed", ""),
        (
            DeployedEvidence((statement(7200, withdrawn=True),)),
            "Waiting",
            "in the environment staging release team/shop of cluster uid withdrew it at",
        ),
        (DeployedEvidence(fault="r.example: 503"), "Waiting", "can't be promoted: r.example: 503"),
    ],
)
def test_what_is_attested_is_judged(evidence: DeployedEvidence, state: str, said: str) -> None:
    class Judge:
        """Reads what a registry has."""

        async def evidence(self, digest: str, attesters: Attesters) -> DeployedEvidence:
            assert digest == NEW
            assert [one.name for one in attesters.environments] == ["staging"]
            return evidence

    found = gates(attested_by("staging"), configmaps_staging_keys=KEYS)
    asyncio.run(found.read_evidence(cast("Any", Judge()), NEW))
    there, _, message = rows(found)["promotion"]
    assert there == state
    assert said in message


@pytest.mark.needs("promotion")
@pytest.mark.parametrize(
    ("shop", "keys", "said"),
    [
        (attested_by("staging"), errors.Forbidden("get configmaps is forbidden"), "is forbidden"),
        (attested_by("staging", "canary"), KEYS, "is also a key of"),
    ],
)
def test_without_usable_keys_attestations_turn_nothing_down(
    shop: dict[str, Any], keys: Any, said: str
) -> None:
    found = gates(shop, configmaps_staging_keys=keys, configmaps_canary_keys=keys)
    state, _, message = rows(found)["promotion"]
    assert state == "NotJudged"
    assert message.startswith("its keys for attestations can't be used: ")
    assert said in message
    assert found.versions(CHOSEN) == ()


def test_missing_keys_and_keys_that_are_trusted_for_signatures_are_faults() -> None:
    assert "doesn't exist" in gates(attested_by("staging")).attesters.fault
    cosign = {"cosign": {"keysFrom": {"kind": "ConfigMap", "name": "staging-keys"}}}
    found = gates(attested_by("staging", verify={"anyOf": [cosign]}), configmaps_staging_keys=KEYS)
    assert "is trusted for signatures by spec.verify" in found.attesters.fault


@pytest.mark.needs("dependencies", "freeze", "windows")
def test_the_moment_of_a_deploy_is_judged_as_of_now() -> None:
    config = {"metadata": {"name": "copyrator-freeze"}, "data": {"reason": "holidays"}}
    day = (NOW + timedelta(days=2)).strftime("%a")
    found = gates(
        bundle(
            dependsOn=[{"name": "db"}], windows=[{"days": [day], "from": "09:00", "to": "10:00"}]
        ),
        configmaps_copyrator_freeze=config,
    )
    said = rows(found)
    assert list(said) == ["dependsOn", "freeze", "window"]
    assert said["dependsOn"][1] == "DependencyNotReady"
    assert said["freeze"][1] == "Frozen"
    assert "holidays" in said["freeze"][2]
    assert said["window"][1] == "OutsideWindow"
    assert found.versions(CHOSEN) == (), "none of them turns a version down"


@pytest.mark.needs("approval", "freeze", "signatures")
def test_what_cannot_be_judged_is_named_with_the_reason() -> None:
    keys = {"anyOf": [{"cosign": {"keysFrom": {"kind": "Secret", "name": "keys"}}}]}
    found = gates(
        bundle(verify=keys, approval={"mode": "Always"}),
        namespaces_team=errors.Forbidden("get namespaces is forbidden"),
    )
    said = rows(found)
    assert [(name, state) for name, (state, *_) in said.items()] == [
        ("signature", "NotJudged"),
        ("vendored", "NotJudged"),
        ("plain", "NotJudged"),
        ("freeze", "NotJudged"),
        ("approval", "NotJudged"),
    ]
    assert "with the options of copyrator verify" in said["signature"][2]
    assert "copyrator plan bundle shows it" in said["approval"][2]
    assert said["freeze"][2].endswith(
        "you can't read ConfigMap copyrator-freeze (the operator wasn't found), Namespace team"
    )
    assert "signature" not in rows(found, signed=True)


def test_a_bundle_that_is_not_there_or_not_valid_is_a_fault() -> None:
    with pytest.raises(Fault, match="there is no Bundle shop in the namespace team"):
        gates(cast("Any", None))
    with pytest.raises(Fault, match=r"Bundle team/shop: .*registry"):
        gates(bundle(registry="http://no"))


REPOSITORY = Repository("r.example.com", "team/app")
ALICE = Credential("alice", "s3cret")

UNTRUSTED = connection_error(
    aiohttp.ClientConnectorCertificateError(None, ValueError()), "r.example.com"
)


ECR = Repository("111122223333.dkr.ecr.eu-central-1.amazonaws.com", "team/app")


def said_of(credential, *, was_sent, repository=REPOSITORY, status=403):
    answer = Response(status, CIMultiDict(), (), b"", "https://r.example.com/v2/")
    return access_error(
        RequestScope(repository, credential, "tags"), answer, was_sent=was_sent
    ).message


def said_of_repository(credential, repository=REPOSITORY):
    answer = Response(404, CIMultiDict(), (), b"", "https://r.example.com/v2/")
    return repository_error(RequestScope(repository, credential, "tags"), answer).message


@pytest.mark.parametrize("status", [401, 403])
def test_a_clouds_registry_without_an_identity_names_the_provider(status):
    """A password of Amazon ECR in a Secret ends after 12 hours."""
    none = said_of(None, was_sent=False, repository=ECR, status=status)
    assert none.endswith("; set spec.provider to aws, or spec.auth to a Secret")
    assert in_options(none).endswith("; set --provider aws or --auth-file")
    old = said_of(ALICE, was_sent=True, repository=ECR, status=status)
    assert old.endswith("; check the Secret of spec.auth, or set spec.provider to aws in its place")
    assert in_options(old).endswith("; check --auth-file, or set --provider aws in its place")
    said = said_of_repository(None, ECR)
    assert said.endswith(
        "push a version to it, or set spec.provider to aws, or spec.auth to a Secret"
    )


@pytest.mark.parametrize(
    ("repository", "remedy"),
    [(ECR, "or set --provider aws"), (REPOSITORY, "use --auth-file in place of --provider")],
)
def test_a_registry_of_another_cloud_is_named_in_options(repository, remedy):
    with pytest.raises(Fault) as caught:
        credential_of(repository, {"auth_file": None, "provider": "gcp"})
    assert "isn't a registry of gcp" in caught.value.message
    assert remedy in caught.value.message
    assert "spec." not in caught.value.message


@pytest.mark.parametrize(
    ("message", "option"),
    [
        (credential_error(RequestScope(REPOSITORY, None, "tags")).message, "set --auth-file"),
        (
            credential_error(RequestScope(REPOSITORY, ALICE, "tags")).message,
            "credentials of --auth-file",
        ),
        (said_of(ALICE, was_sent=True), "check --auth-file"),
        (said_of(ALICE, was_sent=False), "credentials of --auth-file weren't sent"),
        (said_of(None, was_sent=False), "set --auth-file"),
        (
            "If it is the registry of team/app, set spec.registry to it",
            "If it is the registry of team/app, name it",
        ),
        (said_of_repository(None), "or set --auth-file"),
        (said_of_repository(ALICE), "or check --auth-file"),
        (UNTRUSTED.message, "--ca-file and --skip-tls-verify"),
    ],
)
def test_a_registrys_error_names_the_option_that_helps(message, option):
    said = in_options(message)
    assert option in said
    assert "spec." not in said
    assert "caSecret" not in said


def test_so_does_the_reason_why_no_tag_was_chosen():
    rejected = (Rejected(version="1.0.0-rc.1", reason=Rejection.PRE_RELEASE),)
    choice = Choice(Selection.NO_MATCH, rejected=rejected)
    assert in_options(explain(choice, "1.*")).endswith("; --prerelease admits pre-releases")


class Registry:
    """A client of a registry that has these tags."""

    def __init__(self, *names: str) -> None:
        self.names = names

    async def tags(self, repository, credential, take):
        await take(list(self.names))

    async def digest(self, repository, tag, credential):
        return "sha256:" + "0" * 64


def resolved(constraint: str, *tags: str) -> ResolvedTag:
    wanted = parse_version(constraint)
    assert isinstance(wanted, VersionRange)
    judge = SignatureJudge(Registry(*tags), REPOSITORY, None, NOTHING_ASKED)
    options = {"deployed": None, "tag_filter": None, "prerelease": False}
    return asyncio.run(_range(judge, wanted, options, None))


NUMBERS = "it has 4 numbers, and a version has three; publish it as 1.2.4 or name this tag"


def test_the_highest_tag_that_only_looks_like_a_version_is_named_with_the_reason(capsys):
    found = resolved("1.*", "1.0.0", "1.2.3.1", "latest")
    assert (found.tag, found.rejected) == (
        "1.0.0",
        ({"tag": "1.2.3.1", "reason": "NotAVersion", "message": NUMBERS},),
    )
    _explain(found)
    said = capsys.readouterr().out
    assert "1.2.3.1   NotAVersion" in said
    assert "it has 4 numbers" in said


def test_the_error_names_it_where_no_tag_is_a_version(capsys):
    found = resolved("*", "build-77", "build-9", "latest")
    assert found.why == (
        "r.example.com/team/app: No tag matches *, as no tag is a version; rejected: build-77 "
        "(NotAVersion: it begins with build-, and a version begins with a number or v; publish it "
        "as 77.0.0 or name this tag)"
    )
    _explain(found)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", ["config.json", ".dockercfg"])
def test_an_auth_file_is_read_by_the_same_rules_as_a_secret(tmp_path, name):
    auths = {"r.example.com": {}, "https://r.example.com/v2/team": {"auth": "YWxpY2U6czNjcmV0Cg=="}}
    path = tmp_path / name
    path.write_text(json.dumps(auths if name == ".dockercfg" else {"auths": auths}))
    assert credential_of(REPOSITORY, {"auth_file": path}) == ALICE
    with pytest.raises(Fault, match=r"has no credentials for r\.example\.com/other"):
        credential_of(Repository("r.example.com", "other"), {"auth_file": path})
