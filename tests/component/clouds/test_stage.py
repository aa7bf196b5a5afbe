"""The stage that the tests of clouds stand on: names, certificates, guards and what is recorded."""

import json
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import botocore.config
import botocore.exceptions
import botocore.session
import google.auth.compute_engine
import google.auth.transport.requests
import jwt
import pytest
import requests
from azure.core.exceptions import ClientAuthenticationError
from azure.identity import ClientAssertionCredential
from tests.clouds.guards import BasicGuard, BearerGuard, OwnTokens, ecr_guard
from tests.clouds.stage import Answer, Asked, Stage
from tests.component.oci.fake_registry import registry_client

from copyrator.oci.auth import Credential
from copyrator.oci.errors import AuthenticationFailed, RegistryError
from copyrator.oci.exchange import Repository

ECR = "123456789012.dkr.ecr.eu-central-1.amazonaws.com"
PKG = "europe-docker.pkg.dev"
ERROR = """\
<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <Error><Type>Sender</Type><Code>InvalidIdentityToken</Code><Message>no</Message></Error>
</ErrorResponse>
"""


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    (tmp_path / "chart").mkdir()
    (tmp_path / "chart" / "Chart.yaml").write_text("apiVersion: v2\nname: app\nversion: 0.1.0\n")
    return tmp_path / "chart"


def ecr(stage: Stage) -> BasicGuard:
    guard = ecr_guard(ECR)
    stage.serve(ECR, guard, stage.pass_on)
    return guard


async def digest(host: str, repo: str, credential: Credential | None) -> str:
    client = registry_client(60.0)
    try:
        return await client.digest(Repository(host, repo), "1.0.0", credential)
    finally:
        await client.close()


async def test_the_operators_client_reads_a_registry_of_basic_logins_by_its_own_name(
    cloud_stage: Stage, chart: Path
) -> None:
    guard = ecr(cloud_stage)
    pushed = cloud_stage.push(chart, "shop", "1.0.0")
    password = guard.admit(cloud_stage.issue("login"), "shop")

    assert await digest(ECR, "shop", Credential("AWS", password)) == pushed

    for wrong in (Credential("AWS", "another"), Credential("bob", password)):
        with pytest.raises(AuthenticationFailed):
            await digest(ECR, "shop", wrong)
    with pytest.raises(RegistryError):
        await digest(ECR, "other", Credential("AWS", password))
    assert {one.kind for one in cloud_stage.asked(ECR)} == {"", "basic"}
    assert cloud_stage.hosts_told(password) == {ECR}
    assert ECR in cloud_stage.lookups


async def test_a_token_of_a_registrys_own_token_server_opens_what_it_was_asked_for(
    cloud_stage: Stage, chart: Path
) -> None:
    guard = BearerGuard(cloud_stage, PKG, "/v2/token")
    cloud_stage.serve(PKG, guard, cloud_stage.pass_on)
    pushed = cloud_stage.push(chart, "team/images/shop", "1.0.0")
    password = guard.admit(cloud_stage.issue("login"), "team/*", user="oauth2accesstoken")
    login = Credential("oauth2accesstoken", password)

    assert await digest(PKG, "team/images/shop", login) == pushed

    assert guard.scopes == ["repository:team/images/shop:pull"]
    with pytest.raises(RegistryError):
        await digest(PKG, "others/shop", login)
    client = registry_client(60.0)
    repository = Repository(PKG, "team/images/shop")
    await client.digest(repository, "1.0.0", login)
    guard.expire_tokens()
    assert await client.digest(repository, "1.0.0", login) == pushed
    await client.close()
    assert {one.kind for one in cloud_stage.asked(PKG, "/v2/token")} == {"basic"}


def test_libraries_on_requests_find_the_hosts_and_literal_addresses_of_the_stage(
    cloud_stage: Stage,
) -> None:
    cloud_stage.serve("sts.example", lambda asked: Answer(200, {"form": asked.form}))
    cloud_stage.serve("169.254.169.254", lambda asked: Answer(200, asked.path), scheme="http")
    ca = cloud_stage.environment["SSL_CERT_FILE"]

    answer = requests.post("https://sts.example/", data={"a": "b"}, verify=ca, timeout=60)
    assert answer.json() == {"form": {"a": "b"}}
    assert requests.get("http://169.254.169.254/x", timeout=60).text == "/x"
    assert socket.getaddrinfo("STS.Example.", 443)[0][4][1] == cloud_stage.address()[1]
    with pytest.raises(requests.ConnectionError):
        requests.get("https://elsewhere.example/", timeout=60)
    with pytest.raises(requests.ConnectionError):
        requests.get("http://169.254.169.253/", timeout=60)
    assert {"elsewhere.example", "169.254.169.253"} <= cloud_stage.lookups
    assert [one.status for one in cloud_stage.asked("sts.example")] == [200]


def test_another_process_finds_the_hosts_by_its_environment(cloud_stage: Stage) -> None:
    cloud_stage.serve("sts.example", lambda asked: Answer(200, "yes"))
    program = (
        "import urllib.request as r;"
        "print(r.build_opener(r.ProxyHandler({})).open('https://sts.example').read())"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env=cloud_stage.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "b'yes'\n"


def test_faults_are_answered_in_turn_and_what_a_handler_breaks_is_seen(cloud_stage: Stage) -> None:
    guard = ecr(cloud_stage)
    guard.faults += [Answer(429, headers={"Retry-After": "1"}), None, Answer(is_cut=True)]
    cloud_stage.serve("broken.example", lambda asked: Answer(200, {"a": asked.form["b"]}))
    ca = cloud_stage.environment["SSL_CERT_FILE"]

    with requests.Session() as session:
        session.verify = ca
        codes = [session.get(f"https://{ECR}/v2/", timeout=60).status_code for _ in range(2)]
        assert codes == [429, 401]
        with pytest.raises(requests.ConnectionError):
            session.get(f"https://{ECR}/v2/", timeout=60)
        broken = session.get("https://broken.example/", timeout=60)
    assert (broken.status_code, broken.text) == (599, "KeyError: 'b'")
    assert [one.status for one in cloud_stage.asked()] == [429, 401, 0, 599]


def test_tokens_are_found_in_texts_and_in_requests_in_whatever_form(cloud_stage: Stage) -> None:
    token = cloud_stage.issue("login")
    cloud_stage.serve("a.example", lambda _: Answer())
    cloud_stage.serve("b.example", lambda _: Answer())
    ca = cloud_stage.environment["SSL_CERT_FILE"]
    requests.get("https://a.example/", auth=("AWS", token), verify=ca, timeout=60)
    requests.post("https://b.example/", data={"refresh_token": token}, verify=ca, timeout=60)
    assert cloud_stage.hosts_told(token) == {"a.example", "b.example"}
    cloud_stage.assert_secret([("log", "nothing")])
    basic = requests.auth._basic_auth_str("AWS", token)
    for text in (token, json.dumps({"a": basic}), urllib.request.quote(token)):
        with pytest.raises(AssertionError, match="log: login as"):
            cloud_stage.assert_secret([("log", f"...{text}...")])


def test_account_tokens_are_verified_by_key_audience_and_time(account_tokens: OwnTokens) -> None:
    token = account_tokens.issue("team", "werf", "sts.amazonaws.com")
    subject = account_tokens.verify(token, "sts.amazonaws.com")
    assert subject == "system:serviceaccount:team:werf"
    for other, audience in (
        (token, "another"),
        (OwnTokens().issue("team", "werf", "sts.amazonaws.com"), "sts.amazonaws.com"),
        (account_tokens.issue("team", "werf", "a", seconds=-1), "a"),
    ):
        with pytest.raises(jwt.InvalidTokenError):
            account_tokens.verify(other, audience)


def metadata_server(asked: Asked) -> Answer:
    """As Google's for a service account, to such as send the header that it wants."""
    flavour = {"Metadata-Flavor": "Google"}
    assert asked.headers["Metadata-Flavor"] == "Google"
    if asked.path.endswith("/token"):
        token = {"access_token": "metadata's", "expires_in": 3600, "token_type": "Bearer"}
        return Answer(200, token, {**flavour, "Content-Type": "application/json"})
    account = {"email": "shop@example.com", "aliases": ["default"], "scopes": []}
    return Answer(200, account, {**flavour, "Content-Type": "application/json"})


def test_the_clouds_libraries_find_the_hosts_and_literal_addresses_of_the_stage(
    cloud_stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """botocore on urllib3, google-auth and azure-identity on requests."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    ca = cloud_stage.environment["SSL_CERT_FILE"]
    sts, entra = "sts.eu-central-1.amazonaws.com", "login.microsoftonline.com"
    cloud_stage.serve(sts, lambda _: Answer(403, ERROR, {"Content-Type": "text/xml"}))
    cloud_stage.serve(entra, lambda _: Answer(400, {"error": "invalid_client"}))
    for metadata in ("169.254.169.254", "metadata.google.internal"):
        cloud_stage.serve(metadata, metadata_server, scheme="http")

    session = botocore.session.Session()
    unsigned = botocore.config.Config(signature_version=botocore.UNSIGNED)
    client = session.create_client("sts", "eu-central-1", verify=ca, config=unsigned)
    with pytest.raises(botocore.exceptions.ClientError, match="InvalidIdentityToken"):
        client.assume_role_with_web_identity(
            RoleArn="arn:aws:iam::123456789012:role/shop",
            RoleSessionName="shop",
            WebIdentityToken="token",
        )
    of_node = google.auth.compute_engine.Credentials()
    of_node.refresh(google.auth.transport.requests.Request())
    assert of_node.token == "metadata's"
    federated = ClientAssertionCredential("tenant", "client", lambda: "a", connection_verify=ca)
    with pytest.raises(ClientAuthenticationError):
        federated.get_token("https://containerregistry.azure.net/.default")
    assert cloud_stage.asked(sts)
    assert cloud_stage.asked(entra)
