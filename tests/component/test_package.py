"""The wheel, installed as a user installs it: with what it depends on and without any extra."""

from __future__ import annotations

import json
import sys
import zipfile
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from packaging.requirements import Requirement
from tests.installed_wheel import installed, needed, pip, run, top_level

from copyrator import __version__
from copyrator.api.clouds import Provider
from copyrator.notify import sending
from copyrator.signatures.keyless import MISSING
from images.trim import UNUSED_PACKAGES

ROOT = Path(__file__).resolve().parents[2]
IMPORT_ALL = """
import importlib, pkgutil, sys
for name in sys.argv[1:]:
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, f"{name}."):
        if module.name not in {"copyrator.__main__", "copyrator.kopf_main"}:
            importlib.import_module(module.name)
print(*sorted(sys.modules), sep="\\n")
"""
"""Without both modules that run something when they are imported."""

CLOUDS = """
import asyncio
from datetime import UTC, datetime
from copyrator.api import clouds
from copyrator.clouds.calls import Account, Calls
from copyrator.clouds.logins import new_issues
from copyrator.oci.errors import IdentityMissing
ID = "11111111-2222-3333-4444-555555555555"
HOSTS = ("123456789012.dkr.ecr.eu-central-1.amazonaws.com", "gcr.io", "shop.azurecr.io")
ANNOTATIONS = {
    clouds.ANN_AWS_ROLE: "arn:aws:iam::123456789012:role/reader",
    clouds.ANN_GCP_PROVIDER:
        "projects/1/locations/global/workloadIdentityPools/clusters/providers/production",
    clouds.ANN_AZURE_CLIENT: ID,
    clouds.ANN_AZURE_TENANT: ID,
}
async def token(audience):
    return "token"
async def main():
    calls = Calls(None, lambda: datetime.now(UTC))
    for provider, host in zip(clouds.Provider, HOSTS, strict=True):
        account = Account("team", "werf", ANNOTATIONS, token)
        registry = clouds.read_registry(provider, host)
        try:
            await new_issues()[provider](calls, registry, account, writes=False)
        except IdentityMissing as error:
            print(error)
asyncio.run(main())
"""
KEYLESS = """
from copyrator.signatures import keyless, model
try:
    keyless.check_trusted_root("root.json", b"{}")
except model.TrustError as error:
    print(error)
"""

NOTIFY = """
from copyrator.notify import messages, sending
message = messages.test_message("chat", "now")
for url in ("https://example.com/hook", "slack://a/b/c"):
    print(sending.send(sending.Order(url, None, "/copyrator", {}), message).fault)
"""

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: it
contexts: [{name: it, context: {cluster: it, user: it}}]
clusters: [{name: it, cluster: {server: "http://127.0.0.1:%d"}}]
users: [{name: it, user: {}}]
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder))
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def bin_folder(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(wheel, tmp_path_factory.mktemp("venv"))


def test_the_wheel_holds_the_package_its_types_and_its_licence_and_nothing_else(
    wheel: Path,
) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    info = f"copyrator-{__version__}.dist-info/"
    assert "copyrator/py.typed" in names
    assert "copyrator/crds/copyrators.flant.com.yaml" in names
    assert "copyrator/cli/offline/install.yaml" in names
    page = ROOT / "operator" / "copyrator" / "cli" / "ui"
    shown = {*page.glob("templates/*"), *page.glob("assets/*")}
    assert len(shown) > 15
    assert {str(one.relative_to(ROOT / "operator")) for one in shown} <= set(names)
    assert info + "licenses/LICENSE" in names
    assert {name.split("/")[0] for name in names} == {"copyrator", info.rstrip("/")}


@pytest.mark.parametrize(
    ("command", "name"), [("copyrator", "copyrator"), ("kubectl-copyrator", "kubectl copyrator")]
)
def test_both_entry_points_work(bin_folder: Path, command: str, name: str) -> None:
    assert run(str(bin_folder / command), "--version") == f"{name} {__version__}\n"
    assert f"Usage: {name} run [OPTIONS]" in run(str(bin_folder / command), "run", "--help")


def test_python_dash_m_works(bin_folder: Path) -> None:
    assert run(str(bin_folder / "python"), "-m", "copyrator", "--version").startswith("copyrator ")


def test_the_image_and_the_demo_have_what_it_depends_on_and_nothing_else() -> None:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    locked = [Requirement(line.rstrip("\\ ")) for line in lines if line[:1].isalpha()]
    assert needed() == {one.name for one in locked if not one.marker or one.marker.evaluate()}


def test_all_its_modules_and_those_of_the_demo_need_no_more(bin_folder: Path) -> None:
    pip(bin_folder, "check")
    python = str(bin_folder / "python")
    imported = set(run(python, "-c", IMPORT_ALL, "copyrator").split())
    left_out_of_the_image = set().union(*map(top_level, UNUSED_PACKAGES))
    assert "pygments" in left_out_of_the_image
    assert imported.isdisjoint(left_out_of_the_image)
    run("env", f"PYTHONPATH={ROOT / 'hack'}", python, "-c", IMPORT_ALL, "demo", "localcluster")


class _OneRule(BaseHTTPRequestHandler):
    """An API server with one rule, and nothing else."""

    def do_GET(self) -> None:
        metadata = {"name": "only-rule", "namespace": "team", "uid": "1"}
        rule = {"metadata": metadata, "spec": {"source": {"kind": "Secret", "name": "it"}}}
        items = [rule] if "/copyrators" in self.path else []
        document = {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": items}
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Nothing on stderr."""


def test_commands_work_without_any_extra(bin_folder: Path, tmp_path: Path) -> None:
    command = str(bin_folder / "copyrator")
    assert "Explain why" in run(command, "--help")
    run(command, "validate", "examples/rules", "examples/bundles")
    assert "kind: Deployment" in run(command, "install", "--print", "--image", "example.com/it:1")
    with HTTPServer(("127.0.0.1", 0), _OneRule) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(KUBECONFIG % server.server_port)
        assert "only-rule" in run(command, "get", "rules", "-A", "--kubeconfig", str(kubeconfig))
        server.shutdown()


def test_what_needs_the_extra_names_it(bin_folder: Path) -> None:
    assert run(str(bin_folder / "python"), "-c", KEYLESS) == f"root.json: {MISSING}\n"
    assert "copyrator[keyless]" in MISSING


def test_notifications_name_the_extra_that_they_need(bin_folder: Path) -> None:
    fault = sending.MISSING
    assert run(str(bin_folder / "python"), "-c", NOTIFY) == f"{fault}\n{fault}\n"
    assert "copyrator[notify]" in fault


def test_registries_of_clouds_name_the_extra_that_they_need(bin_folder: Path) -> None:
    said = run(str(bin_folder / "python"), "-c", CLOUDS).splitlines()
    assert len(said) == len(Provider)
    for provider, line in zip(Provider, said, strict=True):
        assert line.startswith(f"the provider {provider} needs a library that isn't installed")
        assert line.endswith(f"pip install 'copyrator[{provider}]'")
