"""Commands that log in to clouds' registries by one's own identity, found as its library does."""

import json
import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.clouds.amazon import HOST as ECR
from tests.clouds.amazon import Amazon, Role
from tests.clouds.azure import READER, AzureRegistry, Entra
from tests.clouds.google import NODE, PKG, Google
from tests.clouds.guards import OwnTokens
from tests.clouds.stage import Answer, Stage

from copyrator.cli import cli
from demo.chart import ROOT

HELLO = ROOT / "examples" / "charts" / "hello"
ACR, LOGIN = "shop.azurecr.io", "login.microsoftonline.com"
TENANT = "72f988bf-86f1-41af-91ab-2d7cd011db47"
CLIENT = "6731de76-14a6-49ae-97bc-6eba6914391e"
ADDRESS = "169.254.169.254"


@pytest.fixture(autouse=True)
def nobodys_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No identity in files of this machine."""
    for name in ("CLOUDSDK_CONFIG", "AZURE_CONFIG_DIR", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "AZURE_CLIENT_ID", "AZURE_TENANT_ID"):
        monkeypatch.delenv(name, raising=False)


def resolve(stage: Stage, where: str, *options: str, code: int = 0) -> str:
    """What is printed; no token is."""
    result = CliRunner().invoke(cli, ["resolve", where, "1.*", *options])
    assert result.exit_code == code, result.output
    assert not stage.sentinels.leaks(result.output)
    return result.output


def test_google_knows_one_by_the_machine(cloud_stage: Stage, account_tokens: OwnTokens) -> None:
    google = Google(cloud_stage, account_tokens)
    google.users[NODE] = set()
    google.readers[NODE] = ("team/*",)
    there = Answer(200, "computeMetadata/\n", {"Metadata-Flavor": "Google"})
    cloud_stage.serve(ADDRESS, lambda asked: there if asked.path == "/" else None, scheme="http")
    digest = cloud_stage.push(HELLO, "team/app", "1.0.0")

    said = resolve(cloud_stage, f"{PKG}/team/app", "--provider", "gcp")
    assert f"1.0.0  {digest}\n" in said
    assert f"Logged in as your own identity of gcp: {NODE}.\n" in said
    options = ("--provider", "gcp", "-o", "json")
    found = json.loads(resolve(cloud_stage, f"{PKG}/team/app", *options))
    assert (found["digest"], found["identity"]) == (digest, f"your own identity of gcp: {NODE}")

    google.readers.clear()
    said = resolve(cloud_stage, f"{PKG}/team/app", "--provider", "gcp", code=1)
    assert "give your own identity roles/artifactregistry.reader" in said


def test_aws_knows_one_by_variables(
    cloud_stage: Stage, account_tokens: OwnTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    amazon = Amazon(cloud_stage, account_tokens)
    secret, token = cloud_stage.issue("secret"), cloud_stage.issue("session")
    amazon.admit_key("AKIAEXAMPLE", secret, token, Role((), {ECR: ("team/*",)}))
    digest = cloud_stage.push(HELLO, "team/app", "1.0.0")
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    for name, value in zip(names, ("AKIAEXAMPLE", secret, token), strict=True):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(cloud_stage.ca))

    said = resolve(cloud_stage, f"{ECR}/team/app", "--provider", "aws")
    assert f"1.0.0  {digest}\n" in said
    assert re.search(r"Logged in as your own identity of aws: arn:aws:sts::\d{12}:", said)


def test_azure_knows_one_by_variables(
    cloud_stage: Stage, account_tokens: OwnTokens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entra = Entra(cloud_stage, account_tokens)
    entra.let(TENANT, CLIENT, "system:serviceaccount:me:laptop")
    registry = AzureRegistry(cloud_stage, entra, ACR, {CLIENT: READER})
    cloud_stage.serve(LOGIN, entra)
    cloud_stage.serve(ACR, registry, cloud_stage.pass_on)
    digest = cloud_stage.push(HELLO, "team/app", "1.0.0")
    file = tmp_path / "token"
    file.write_text(account_tokens.issue("me", "laptop", "api://AzureADTokenExchange"))
    monkeypatch.setenv("AZURE_TENANT_ID", TENANT)
    monkeypatch.setenv("AZURE_CLIENT_ID", CLIENT)
    monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(file))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(cloud_stage.ca))

    said = resolve(cloud_stage, f"{ACR}/team/app", "--provider", "azure")
    assert f"1.0.0  {digest}\n" in said
    assert "Logged in as your own identity of azure" in said
    assert all(scope.startswith("repository:team/app:") for scope in registry.scopes)


@pytest.mark.parametrize(
    ("provider", "host", "remedy"),
    [
        ("gcp", PKG, "run gcloud auth application-default login"),
        ("azure", ACR, "run az login"),
        ("aws", ECR, "run aws sso login"),
    ],
)
def test_without_an_identity_the_message_says_how_to_get_one(
    cloud_stage: Stage, account_tokens: OwnTokens, provider: str, host: str, remedy: str
) -> None:
    google = Google(cloud_stage, account_tokens)
    registry = AzureRegistry(cloud_stage, Entra(cloud_stage, account_tokens), ACR)
    if provider == "aws":
        Amazon(cloud_stage, account_tokens)
    elif provider == "azure":
        cloud_stage.serve(host, registry)
    else:
        google.leave()
    said = resolve(cloud_stage, f"{host}/team/app", "--provider", provider, code=1)
    assert said.startswith("Error: you have no identity of")
    assert said.count("\n") == 1
    assert remedy in said


def test_without_the_library_the_message_says_what_to_install(
    cloud_stage: Stage, account_tokens: OwnTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    Amazon(cloud_stage, account_tokens)
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    said = resolve(cloud_stage, f"{ECR}/team/app", "--provider", "aws", code=1)
    assert said == (
        "Error: the provider aws needs a library that isn't installed: "
        "run pip install 'copyrator[aws]'\n"
    )


@pytest.mark.parametrize(
    ("where", "options", "said"),
    [
        ("registry.example.com/a", ("--provider", "aws"), "isn't a registry of aws"),
        (f"{ACR}/a", ("--provider", "azure", "--insecure"), "to verified registries only"),
        (f"{ACR}/a", ("--provider", "azure", "--skip-tls-verify"), "to verified registries only"),
    ],
)
def test_no_token_goes_to_another_registry(
    cloud_stage: Stage, where: str, options: tuple[str, ...], said: str
) -> None:
    assert said in resolve(cloud_stage, where, *options, code=1)
    assert not cloud_stage.lookups
