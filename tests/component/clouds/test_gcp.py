"""Google's tokens for a service account, and for the operator itself, by servers like Google's."""

import asyncio
import json
import os
import socket
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.clouds import google
from tests.clouds.google import GKE, IAM, METADATA, NODE, PKG, POOL, PROVIDER, STS, Google
from tests.clouds.guards import AccountTokens, OwnTokens
from tests.clouds.stage import Answer, Asked, Stage

from copyrator.api.clouds import (
    ANN_GCP_ACCOUNT,
    ANN_GCP_PROVIDER,
    ANN_GCP_PROVIDER_OF_FLUX,
    Provider,
    read_registry,
)
from copyrator.clouds import gcp
from copyrator.clouds.calls import Account, Calls, Issued
from copyrator.oci.errors import (
    IdentityMissing,
    IdentityRefused,
    IdentityUnavailable,
    RateLimited,
    RegistryError,
)

DEPLOYER = "deployer@acme-prod.iam.gserviceaccount.com"
MEMBER = (
    f"principal://iam.googleapis.com/projects/{google.NUMBER}/locations/global/"
    "workloadIdentityPools/onprem/subject/system:serviceaccount:team-a:werf"
)
MAY_NOT = (
    r"team-a/werf may not use deployer@.* \(403\) \(PERMISSION_DENIED: .*"
    rf"roles/iam.workloadIdentityUser on it to serviceAccount:{POOL}\[team-a/werf\]"
)
BEARER = {"token_type": "Bearer", "expires_in": 3600}
OAUTH = "oauth2.googleapis.com"
REGISTRY = read_registry(Provider.GCP, PKG)


pytestmark = pytest.mark.leaves("gcp looks up names in threads of its own", "thread registry-names")


@dataclass
class Cloud(Google):
    """Google's servers, and what asks them."""

    calls: Calls = field(kw_only=True)

    def account(self, issuer: AccountTokens | None = None, **annotations: str) -> Account:
        """One of namespace team-a, with annotations; its tokens are issued as they are asked."""

        async def token(audience: str) -> str:
            return (issuer or self.tokens).issue("team-a", "werf", audience)

        names = {"email": ANN_GCP_ACCOUNT, "provider": ANN_GCP_PROVIDER}
        found = {names.get(name, name): value for name, value in annotations.items()}
        return Account("team-a", "werf", found, token)

    async def issue(self, account: Account | None, *, writes: bool = False) -> Issued:
        return await gcp.Google().issue(self.calls, REGISTRY, account, writes=writes)

    async def fail(self, account: Account | None, match: str | None = None) -> RegistryError:
        with pytest.raises(RegistryError, match=match) as failure:
            await self.issue(account)
        error = failure.value
        assert error.__suppress_context__ or error.__context__ is None  # it may quote a token
        return error


@pytest.fixture
def cloud(cloud_stage: Stage, account_tokens: OwnTokens, calls: Calls) -> Cloud:
    return Cloud(cloud_stage, account_tokens, calls=calls)


async def test_an_account_of_gke_gets_a_token_to_read_with(cloud: Cloud) -> None:
    issued = await cloud.issue(cloud.account())

    assert issued.username == "oauth2accesstoken"
    identity = cloud.issued[issued.password]
    assert identity.member == f"serviceAccount:{POOL}[team-a/werf]"
    assert identity.scopes == google.READS
    left = issued.expires - datetime.now(UTC)
    assert timedelta(minutes=55) < left <= timedelta(hours=1)
    (asked,) = cloud.stage.asked(STS)
    assert asked.form["audience"] == GKE
    assert asked.kind == ""  # the token server wants none
    assert not cloud.stage.asked(IAM)
    assert cloud.stage.hosts_told(asked.form["subject_token"]) == {STS}
    assert cloud.stage.lookups <= {STS, METADATA}
    assert {one.headers["Metadata-Flavor"] for one in cloud.stage.asked(METADATA)} == {"Google"}


async def test_an_annotated_account_gets_a_token_of_its_service_account(cloud: Cloud) -> None:
    cloud.users[DEPLOYER] = {f"serviceAccount:{POOL}[team-a/werf]"}
    issued = await cloud.issue(cloud.account(email=DEPLOYER))

    identity = cloud.issued[issued.password]
    assert (identity.principal, identity.scopes) == (DEPLOYER, google.READS)
    (asked,) = cloud.stage.asked(IAM)
    assert asked.path == f"/v1/projects/-/serviceAccounts/{DEPLOYER}:generateAccessToken"
    assert cloud.issued[asked.bearer].scopes == {f"{google.AUTH}iam"}  # opens no registry
    assert cloud.stage.hosts_told(asked.bearer) == {IAM}
    assert not cloud.stage.hosts_told(issued.password)
    assert issued.expires - datetime.now(UTC) > timedelta(minutes=55)


async def test_many_accounts_at_once_ask_the_metadata_server_once(cloud: Cloud) -> None:
    google = gcp.Google()

    async def login(number: int) -> Issued | RegistryError:
        async def token(audience: str) -> str:
            return cloud.tokens.issue(f"team-{number}", "werf", audience)

        one = Account(f"team-{number}", "werf", {}, token)
        try:
            return await google.issue(cloud.calls, REGISTRY, one, writes=False)
        except RegistryError as error:
            return error

    cloud.faults[METADATA] = [Answer(503, "", {"Metadata-Flavor": "Google"})]
    failed = await asyncio.gather(*map(login, range(100)))
    assert {type(one) for one in failed} == {IdentityUnavailable}
    assert all(f"team-{number}/werf" in str(one) for number, one in enumerate(failed))
    assert len(cloud.stage.asked(METADATA)) == 1

    issued = await asyncio.gather(*map(login, range(100)))
    assert {type(one) for one in issued} == {Issued}
    assert len(cloud.stage.asked(METADATA)) == 4


@pytest.mark.parametrize("annotation", [ANN_GCP_PROVIDER, ANN_GCP_PROVIDER_OF_FLUX])
async def test_elsewhere_an_annotation_names_the_provider(cloud: Cloud, annotation: str) -> None:
    cloud.leave()
    cloud.users[DEPLOYER] = {MEMBER}
    issued = await cloud.issue(cloud.account(email=DEPLOYER, **{annotation: PROVIDER}))

    assert cloud.issued[issued.password].principal == DEPLOYER
    assert METADATA not in cloud.stage.lookups


async def test_only_a_push_gets_a_token_that_writes(cloud: Cloud) -> None:
    issued = await cloud.issue(cloud.account(), writes=True)
    assert cloud.issued[issued.password].scopes == {google.FULL}


@pytest.mark.parametrize("email", ["", DEPLOYER])
async def test_where_google_gives_no_token_that_only_reads_any_is_better_than_none(
    cloud: Cloud, email: str
) -> None:
    cloud.scopes -= google.READS
    cloud.users[DEPLOYER] = {f"serviceAccount:{POOL}[team-a/werf]"}
    issued = await cloud.issue(cloud.account(email=email))
    assert cloud.issued[issued.password].scopes == {google.FULL}


async def test_the_operator_itself_gets_its_nodes_token(cloud: Cloud) -> None:
    cloud.users[NODE] = set()
    issued = await cloud.issue(None)
    assert cloud.issued[issued.password].principal == NODE
    assert cloud.issued[issued.password].scopes == google.READS
    assert cloud.stage.lookups == {METADATA}


async def test_no_variable_leads_a_token_elsewhere(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    key = tmp_path / "key.json"
    key.write_text(json.dumps({"type": "authorized_user", "refresh_token": "ambient"}))
    gcloud = tmp_path / "gcloud"
    gcloud.write_text(f"#!/bin/sh\ntouch {tmp_path}/called\n")
    gcloud.chmod(0o755)
    for name, value in {
        "GCE_METADATA_HOST": "evil.example",
        "GCE_METADATA_ROOT": "evil.example",
        "GCE_METADATA_IP": "evil.example",
        "GOOGLE_API_USE_CLIENT_CERTIFICATE": "true",
        "GOOGLE_API_USE_MTLS_ENDPOINT": "always",
        "GOOGLE_CLOUD_UNIVERSE_DOMAIN": "evil.example",
        "GOOGLE_CLOUD_QUOTA_PROJECT": "another",
        "CLOUDSDK_CONFIG": str(tmp_path),
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "NETRC": str(tmp_path / "netrc"),
        "HTTP_PROXY": "http://proxy.example:1",  # the metadata server is near
    }.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "netrc").write_text("default login a password b\n")
    (tmp_path / "application_default_credentials.json").write_text(key.read_text())
    cloud.users |= {NODE: set(), DEPLOYER: {f"serviceAccount:{POOL}[team-a/werf]"}}
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key))
    await cloud.issue(cloud.account(email=DEPLOYER))
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    await cloud.issue(None)

    assert cloud.stage.lookups == {STS, IAM, METADATA}
    assert not (tmp_path / "called").exists()
    headers = [one.headers for one in cloud.stage.asked()]
    assert not any(one["x-goog-user-project"] for one in headers)


async def test_the_operators_file_is_a_key_or_a_federation(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "file.json"
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    name = f"//iam.googleapis.com/{PROVIDER}"
    (tmp_path / "token").write_text(cloud.tokens.issue("home", "copyrator", name))
    federation = {
        "type": "external_account",
        "audience": name,
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": f"https://{STS}/v1/token",
        "credential_source": {"file": str(tmp_path / "token")},
    }
    path.write_text(json.dumps(federation))
    issued = await cloud.issue(None)
    assert cloud.issued[issued.password].principal == "ns/home/sa/copyrator"
    token = OwnTokens().issue("home", "copyrator", name)
    (tmp_path / "token").write_text(token)
    error = await cloud.fail(None)  # Google's quotes the token
    assert "is refused by Google's token server" in error.message
    assert token[:40] not in error.message

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    text = key.private_bytes(pem, form, serialization.NoEncryption()).decode()
    claims: dict[str, Any] = {}

    def grant(asked: Asked) -> Answer:
        claims.update(
            jwt.decode(
                asked.form["assertion"],
                key.public_key(),
                ["RS256"],
                audience=f"https://{OAUTH}/token",
            )
        )
        return Answer(200, {"access_token": "of-the-key", "expires_in": 60})

    cloud.stage.serve(OAUTH, grant)
    named = {"client_email": NODE, "private_key": text, "token_uri": f"https://{OAUTH}/token"}
    path.write_text(json.dumps({"type": "service_account", **named}))
    assert (await cloud.issue(None)).password == "of-the-key"
    assert claims["iss"] == NODE
    assert set(claims["scope"].split()) == google.READS

    def refuse(asked: Asked) -> Answer:
        said = {"error": "invalid_grant", "error_description": asked.form["assertion"]}
        return Answer(400, said if tells else {"error": "invalid_grant"})

    cloud.stage.serve(OAUTH, refuse)
    tells = True
    assert "ey" not in (await cloud.fail(None)).message.partition(OAUTH)[2]
    tells = False
    error = await cloud.fail(None)
    assert isinstance(error, IdentityRefused)
    assert f"refused by {OAUTH} (400) (invalid_grant)" in error.message

    program = {"executable": {"command": f"touch {tmp_path}/called"}}
    monkeypatch.setenv("GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES", "1")
    for text in (
        json.dumps({**federation, "credential_source": program}),
        json.dumps({"type": "authorized_user", "refresh_token": "ambient"}),
        json.dumps({"type": "service_account", "private_key": "none"}),
        "[" * 50_000,
        "",
    ):
        path.write_text(text)
        error = await cloud.fail(None)
        assert isinstance(error, IdentityMissing), text
        assert "GOOGLE_APPLICATION_CREDENTIALS" in error.message
    assert not (tmp_path / "called").exists()


# --- faults --------------------------------------------------------------------------------------

OTHER = f"projects/{google.NUMBER}/locations/global/workloadIdentityPools/other/providers/x"


@pytest.mark.parametrize(
    ("annotations", "kind", "words"),
    [
        ({"email": "deployer"}, IdentityMissing, r"iam.gke.io/gcp-service-account isn't the addr"),
        ({"email": "a@b/../c.gserviceaccount.com"}, IdentityMissing, "isn't the address"),
        ({"provider": "pool/provider"}, IdentityMissing, "of the form projects/NUMBER/locations"),
        ({"provider": OTHER}, IdentityMissing, "doesn't know the provider .*/other/.* or correct"),
        ({"email": "gone@x.iam.gserviceaccount.com"}, IdentityMissing, "knows no account gone@x"),
        (
            {"email": DEPLOYER},
            IdentityRefused,
            MAY_NOT,
        ),
        (
            {"email": DEPLOYER, "provider": PROVIDER},
            IdentityRefused,
            MEMBER,
        ),
    ],
)
async def test_a_wrong_annotation_is_named(
    cloud: Cloud, annotations: dict[str, str], kind: type[RegistryError], words: str
) -> None:
    cloud.users[DEPLOYER] = {"serviceAccount:somebody"}
    error = await cloud.fail(cloud.account(**annotations), words)
    assert type(error) is kind
    assert "team-a/werf" in error.message
    assert not cloud.stage.sentinels.leaks(error.message)


async def test_a_cluster_without_workload_identity_is_told_what_to_enable(cloud: Cloud) -> None:
    del cloud.providers[GKE]
    error = await cloud.fail(cloud.account())
    assert isinstance(error, IdentityMissing)
    assert "enable Workload Identity Federation for GKE" in error.message
    assert POOL in error.message


@pytest.mark.parametrize("gone", ["server", "cluster"])
async def test_outside_of_gke_the_annotation_that_is_missing_is_named(
    cloud: Cloud, gone: str
) -> None:
    if gone == "server":
        cloud.leave()
    else:
        del cloud.metadata["instance/attributes/cluster-name"]  # a machine of Compute Engine
    error = await cloud.fail(cloud.account())
    assert isinstance(error, IdentityMissing)
    assert ANN_GCP_PROVIDER in error.message
    assert "projects/NUMBER/locations/global/workloadIdentityPools/POOL" in error.message
    assert not cloud.stage.asked(STS)


async def test_a_name_that_no_server_resolves_holds_no_thread_of_the_event_loop(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each lookup may take a minute, and outside of GKE any account may cause one after another."""
    monkeypatch.setattr(gcp, "METADATA_SECONDS", 0.05)
    gate, resolve = threading.Event(), socket.getaddrinfo

    def hang(host: Any, *args: Any, **options: Any) -> Any:
        if METADATA in str(host):
            gate.wait(60)
        return resolve(host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    try:
        for _ in range((os.cpu_count() or 1) + 8):
            assert isinstance(await cloud.fail(cloud.account()), IdentityUnavailable)
        assert await asyncio.wait_for(asyncio.to_thread(lambda: 1), 30) == 1
    finally:
        gate.set()


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize(
    "fault",
    [
        Answer(200, "a-project"),  # of no metadata server of Google
        Answer(302, "", {"Location": "http://evil.example/", "Metadata-Flavor": "Google"}),
        Answer(200, "<b>" * 10, {"Metadata-Flavor": "Google", "Content-Type": "application/text"}),
        Answer(is_cut=True),
        Answer(delay=30.0),
    ],
)
async def test_a_metadata_server_that_fails_is_named_as_the_nodes(
    cloud: Cloud, fault: Answer, own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gcp, "METADATA_SECONDS", 2.0)
    cloud.users[NODE] = set()
    cloud.faults[METADATA] = [fault] * 9
    error = await cloud.fail(None if own else cloud.account())
    assert isinstance(error, IdentityUnavailable | IdentityMissing)
    assert isinstance(error, IdentityUnavailable) or fault.status == 302
    assert "node" in error.message
    assert METADATA in error.message or fault.status in (200, 302)
    assert "evil.example" not in cloud.stage.lookups
    cloud.faults.clear()
    await cloud.issue(None if own else cloud.account())  # nothing is kept


async def test_the_operator_without_an_identity_is_told_so(cloud: Cloud) -> None:
    error = await cloud.fail(None)
    assert isinstance(error, IdentityMissing)
    assert "(404)" in error.message
    assert "GOOGLE_APPLICATION_CREDENTIALS" in error.message
    cloud.leave()
    error = await cloud.fail(None)
    assert isinstance(error, IdentityMissing)
    assert f"no {METADATA}" in error.message


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("issuer", "must have the cluster's issuer and present keys.*audience acme-prod.svc.id.g"),
        ("condition", "attribute condition of .* refuses ServiceAccount team-a/werf"),
    ],
)
async def test_a_token_that_google_refuses_is_explained_without_the_token(
    cloud: Cloud, fault: str, words: str
) -> None:
    cloud.condition = lambda _: fault != "condition"
    issuer = OwnTokens() if fault == "issuer" else None  # whose error quotes the token
    error = await cloud.fail(cloud.account(issuer), words)
    assert isinstance(error, IdentityRefused)
    (asked,) = cloud.stage.asked(STS)
    token = asked.form["subject_token"]
    for part in (token, *token.split("."), token[:40], token[-40:]):
        assert part not in error.message


@pytest.mark.parametrize("length", [0, 6000])
async def test_an_answer_that_quotes_the_token_of_a_request_isnt_repeated(
    cloud: Cloud, length: int
) -> None:
    seen = []

    def quote(asked: Asked) -> Answer:
        seen.append(asked.bearer)
        about = {"code": 403, "status": "PERMISSION_DENIED", "message": f"not {asked.bearer}"}
        return Answer(403, {"error": about})

    cloud.stage.serve(IAM, quote)
    token = f"{cloud.stage.issue('federated')}{'x' * length}"
    cloud.faults[STS] = [Answer(200, {"access_token": token, **BEARER})]
    error = await cloud.fail(cloud.account(email=DEPLOYER))
    assert seen == [token]
    assert not cloud.stage.sentinels.leaks(error.message)
    assert "S3ntinel" not in error.message
    assert "roles/iam.workloadIdentityUser" in error.message


@pytest.mark.parametrize("seconds", [-7200, 7200])
async def test_a_clock_that_differs_is_told(cloud: Cloud, seconds: int) -> None:
    cloud.calls.clock = lambda: datetime.now(UTC) + timedelta(seconds=seconds)
    words = "ID Token issued at 1749625771 is stale to sign-in."
    cloud.faults[STS] = [Answer(400, {"error": "invalid_grant", "error_description": words})]
    error = await cloud.fail(cloud.account())
    assert isinstance(error, IdentityRefused)
    # Neither a token's time nor a second changes the text, and with it the status.
    assert "invalid_grant: ID Token issued at … is stale" in error.message
    side = "behind" if seconds < 0 else "ahead of"
    assert f"clock is 120 min {side} Google's: set the clocks" in error.message


async def test_an_api_that_is_switched_off_is_named(cloud: Cloud) -> None:
    text = "IAM Service Account Credentials API has not been used in project 1 before or it is "
    fault = {"error": {"code": 403, "message": f"{text}disabled.", "status": "PERMISSION_DENIED"}}
    cloud.faults[IAM] = [Answer(403, fault)]
    error = await cloud.fail(cloud.account(email=DEPLOYER))
    assert isinstance(error, IdentityRefused)
    assert "enable that API" in error.message


@pytest.mark.parametrize("host", [STS, IAM])
async def test_throttling_is_a_pause(cloud: Cloud, host: str) -> None:
    cloud.users[DEPLOYER] = {f"serviceAccount:{POOL}[team-a/werf]"}
    cloud.faults[host] = [Answer(429, headers={"Retry-After": "17"})]
    error = await cloud.fail(cloud.account(email=DEPLOYER))
    assert isinstance(error, RateLimited)
    assert error.retry_after == 17.0
    await cloud.issue(cloud.account(email=DEPLOYER))  # as if another's, whose quota is another


@pytest.mark.parametrize(
    "fault",
    [
        Answer(307, "", {"Location": "https://evil.example/"}),
        Answer(200, b"{" + b" " * 3_000_000),
        Answer(200, {"access_token": "S3ntinel\r\nX-Evil: 1", **BEARER}),
        Answer(200, {"access_token": "S3ntinel" * 9000, **BEARER}),
        Answer(200, {"access_token": {"S3ntinel": 1}, **BEARER}),
        Answer(200, b'{"access_token": "S3ntinel", "expires_in": 1e999}'),
        Answer(200, {"accessToken": "S3ntinel\n", "expireTime": "2099-01-01T00:00:00Z"}),
        Answer(is_cut=True),
        Answer(delay=30.0),
    ],
)
@pytest.mark.parametrize("host", [STS, IAM])
async def test_a_server_that_fails_or_is_hostile_gives_no_login(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, host: str, fault: Answer
) -> None:
    monkeypatch.setattr(gcp, "REQUEST_SECONDS", 1.0)
    cloud.faults[host] = [fault]
    error = await cloud.fail(cloud.account(email=DEPLOYER))
    assert isinstance(error, IdentityUnavailable)
    assert "S3ntinel" not in error.message
    assert len(error.message) < 400
    assert "evil.example" not in cloud.stage.lookups


async def test_a_server_that_drips_holds_no_thread(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gcp, "REQUEST_SECONDS", 2.0)
    ended = threading.Event()

    async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while not ended.is_set():
                writer.write(b"H")
                await writer.drain()
                await asyncio.sleep(0.1)
        except ConnectionError:
            pass

    server = await asyncio.start_server(
        drip, "127.0.0.1", 0, ssl=cloud.stage.authority.context(STS)
    )
    cloud.stage.map(f"{STS}:443", server.sockets[0].getsockname()[:2])
    async with asyncio.timeout(30):
        errors = await asyncio.gather(*(cloud.fail(cloud.account()) for _ in range(10)))
    assert {type(error) for error in errors} == {IdentityUnavailable}
    for thread in threading.enumerate():
        if thread.name == "gcp login":
            await asyncio.to_thread(thread.join, 10)
            assert not thread.is_alive()
    ended.set()
    server.close()


async def test_texts_of_errors_are_bounded(cloud: Cloud) -> None:
    words = "\x1b[31m" + "a\n" * 5000
    cloud.faults[STS] = [Answer(400, {"error": "x" * 5000, "error_description": words})]
    error = await cloud.fail(cloud.account())
    assert isinstance(error, IdentityRefused)
    assert error.message.isprintable()
    assert len(error.message) < 900
