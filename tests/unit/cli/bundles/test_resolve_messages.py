"""`resolve` names its own options, not a Bundle's fields."""

import asyncio
import json

import aiohttp
import pytest
from multidict import CIMultiDict

from copyrator.api.bundle_status import Rejected
from copyrator.api.reasons.bundles import Rejection
from copyrator.api.version_range import VersionRange, parse_version
from copyrator.bundles.evidence.signers import NOTHING_ASKED
from copyrator.bundles.tags import Choice, Selection, explain
from copyrator.cli.bundles.registry import SignatureJudge, credential_of, in_options
from copyrator.cli.bundles.resolve import ResolvedTag, _explain, _range
from copyrator.cli.core.faults import Fault
from copyrator.oci.auth import Credential, RequestScope, access_error, credential_error
from copyrator.oci.client import repository_error
from copyrator.oci.exchange import Repository, Response
from copyrator.oci.transport import connection_error

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
