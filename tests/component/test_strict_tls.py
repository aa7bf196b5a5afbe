"""Servers with certificates as those of EKS and MicroK8s, by every way that connects by TLS.

Their CA has basicConstraints=CA:TRUE alone, and they have only a SAN: Python 3.13 refuses them by
default. Older Pythons are made as strict here, and where a newer one is installed, it runs this
file too.
"""

from __future__ import annotations

import asyncio
import base64
import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests import strictness
from tests.authority import LooseAuthority
from tests.clouds.amazon import HOST as ECR
from tests.clouds.amazon import Amazon
from tests.clouds.azure import READER, AzureRegistry, Entra
from tests.clouds.google import PKG, Google
from tests.clouds.guards import OwnTokens
from tests.clouds.stage import Answer, Asked, Stage
from tests.component.bundles.waiting import eventually
from tests.component.lasting_child import LastingChild
from tests.component.notify.conftest import Mailbox
from tests.component.notify.test_services import MESSAGE
from tests.component.oci.fake_registry import LOOPBACK, registry_client
from tests.component.oci.test_proxies import Tunnel
from tests.kubeconfigs import document, kubeconfig_data
from tests.leftovers import kept

from copyrator.api.clouds import (
    ANN_AWS_ROLE,
    ANN_AZURE_CLIENT,
    ANN_AZURE_TENANT,
    Provider,
    read_registry,
)
from copyrator.api.kubeconfig import kubeconfig_in
from copyrator.clouds import aws, azure, gcp
from copyrator.clouds.calls import Account, Calls
from copyrator.handlers.kopf_guard import KopfGuard
from copyrator.kube import auth
from copyrator.kube.auth import load_connection, remote_endpoint
from copyrator.kube.client.client import KubeClient
from copyrator.kube.client.remote import RemoteClient
from copyrator.kube.client.transport import KubeconfigError
from copyrator.kube.errors import ApiError
from copyrator.kube.resources import CONFIGMAPS
from copyrator.metrics import Metrics
from copyrator.notify.notifier import make_isolated
from copyrator.notify.sending import Order, send
from copyrator.oci.errors import RegistryError
from copyrator.oci.exchange import Repository
from copyrator.oci.push_calls import upload
from copyrator.oci.push_route import Route, Upload
from copyrator.oci.transport import RegistryTransport
from copyrator.workqueue.isolated import Isolated

ROOT = Path(__file__).resolve().parents[2]
CHILD = ("loop ", "socket .* family=1", "thread .*run_forever")
"""What an isolated child process keeps in this one."""
pytestmark = pytest.mark.leaves(
    "what libraries end or delete by themselves", "thread registry", "file tmp"
)
HERE = "127.0.0.1"
ACR, LOGIN = "shop.azurecr.io", "login.microsoftonline.com"
TENANT = "72f988bf-86f1-41af-91ab-2d7cd011db47"
CLIENT = "6731de76-14a6-49ae-97bc-6eba6914391e"
CONFIG_MAP = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "a", "namespace": "ns", "resourceVersion": "1"},
}
MANIFEST = b'{"schemaVersion": 2}'


@dataclass
class Site:
    """The servers, and what connects to them.

    Attributes:
        ca: the file of the CAs that are trusted.
        directory: for files.
        reached: what servers beside the stage were sent.
    """

    stage: Stage
    ca: Path
    directory: Path
    env: pytest.MonkeyPatch
    tokens: OwnTokens
    child: Callable[..., Any]
    reached: list[str] = field(default_factory=list)

    @property
    def port(self) -> int:
        return self.stage.address()[1]

    @property
    def url(self) -> str:
        return f"https://{HERE}:{self.port}"

    @property
    def asked(self) -> list[str]:
        """What servers got by TLS, or behind it."""
        https = [one.path for one in self.stage.asked() if one.scheme == "https"]
        return [*https, *self.reached]

    @asynccontextmanager
    async def proxy(self) -> AsyncIterator[str]:
        """A proxy that is connected to by TLS, and leads to the stage."""
        tunnel = Tunnel(self.port)
        tls = self.stage.authority.context()
        server = await asyncio.start_server(tunnel.serve, HERE, 0, ssl=tls)
        try:
            yield f"https://{HERE}:{server.sockets[0].getsockname()[1]}"
        finally:
            self.reached += tunnel.heads
            server.close()

    def write(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.write_text(text)
        return path

    def kubeconfig(self, **fields: Any) -> Path:
        """``cluster_…`` and ``user_…`` as in `document`."""
        found = document(self.url, authority=self.ca.read_text(), **fields)
        return self.write("config", yaml.safe_dump(found))

    @asynccontextmanager
    async def calls(self) -> AsyncIterator[Calls]:
        transport = RegistryTransport(metrics=Metrics(), timeout=60.0, allowed=LOOPBACK)
        try:
            yield Calls(transport, lambda: datetime.now(UTC))
        finally:
            await transport.close()

    def account(self, **annotations: str) -> Account:
        """The account ``team/werf``."""

        async def token(audience: str) -> str:
            return self.tokens.issue("team", "werf", audience)

        return Account("team", "werf", annotations, token)


def serve_all(asked: Asked) -> Answer | None:
    """An API server, an OIDC issuer, a registry, and receivers of messages."""
    path, url = asked.path, f"https://{asked.headers['Host']}"
    if path.startswith("/api"):
        empty = {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": []}
        body: Any = CONFIG_MAP if path.endswith("/a") else empty
        return Answer(200, body, {"Content-Type": "application/json"})
    if path == "/.well-known/openid-configuration":
        body = {"token_endpoint": f"{url}/token"}
        return Answer(200, body, {"Content-Type": "application/json"})
    if path == "/token":
        body = {"id_token": "new", "refresh_token": "next", "access_token": "new"}
        return Answer(200, body | {"expires_in": 3600}, {"Content-Type": "application/json"})
    if path.endswith("/tags/list"):
        return Answer(200, {"name": "app", "tags": ["1.0.0"]})
    if "/manifests/" in path:
        kind = {"Content-Type": "application/vnd.oci.image.manifest.v1+json"}
        return Answer(201 if asked.method == "PUT" else 200, MANIFEST, kind)
    return Answer(200, "ok") if asked.method == "POST" else None


Way = Callable[[Site], Awaitable[str | None]]
"""Connects; returns or raises why it couldn't."""
WAYS: dict[str, Way] = {}


def way(name: str) -> Callable[[Way], Way]:
    def add(connect: Way) -> Way:
        WAYS[name] = connect
        return connect

    return add


# Clusters ----------------------------------------------------------------------------------------


async def read_cluster(client: KubeClient) -> None:
    async with client:
        assert (await client.get(CONFIGMAPS, "ns", "a"))["metadata"]["name"] == "a"


@way("home cluster in a pod")
async def _in_cluster(site: Site) -> None:
    for name, text in (("token", "t0ken"), ("ca.crt", site.ca.read_text())):
        site.write(name, text)
    site.env.setattr(auth, "_ACCOUNT", site.directory)
    site.env.setenv("KUBERNETES_SERVICE_HOST", HERE)
    site.env.setenv("KUBERNETES_SERVICE_PORT", str(site.port))
    await read_cluster(KubeClient(await load_connection()))


@way("home cluster by kubeconfig")
async def _kubeconfig(site: Site) -> None:
    await read_cluster(KubeClient(await load_connection(site.kubeconfig())))


@way("kopf")
async def _kopf(site: Site) -> str | None:
    """It repeats requests for ever, and says why."""
    connection = await load_connection(site.kubeconfig())
    guard = KopfGuard(connection, CONFIGMAPS)
    async with guard.session() as session:
        asking = asyncio.ensure_future(session.get(f"{site.url}{CONFIGMAPS.path()}"))

        def outcome() -> str | None:
            failures = [one.failure for one in guard.statuses() if one.failure]
            return "answered" if asking.done() else str(failures[0]) if failures else None

        said = str(await eventually(outcome))
        asking.cancel()
        return None if said == "answered" and (await asking).status == 200 else said


@way("other cluster of a rule")
async def _remote(site: Site) -> None:
    data = kubeconfig_data(site.url, authority=site.ca.read_text())
    endpoint = remote_endpoint(kubeconfig_in({"data": data}, "value"))
    await read_cluster(RemoteClient(endpoint, " in the hub"))


async def read_with_oidc(site: Site, **more: str) -> None:
    config = {"idp-issuer-url": site.url, "client-id": "me", "client-secret": "mine"}
    config |= {"refresh-token": "last", **more}
    user = {"user_token": None, "user_auth-provider": {"name": "oidc", "config": config}}
    connection = await load_connection(site.kubeconfig(**user))
    assert (await connection.headers())["Authorization"] == "Bearer new"


@way("OIDC issuer whose CA is in the kubeconfig")
async def _oidc_data(site: Site) -> None:
    data = base64.b64encode(site.ca.read_bytes()).decode()
    await read_with_oidc(site, **{"idp-certificate-authority-data": data})


@way("OIDC issuer whose CA is in a file")
async def _oidc_file(site: Site) -> None:
    site.env.delenv("SSL_CERT_FILE")
    await read_with_oidc(site, **{"idp-certificate-authority": str(site.ca)})


# Registries --------------------------------------------------------------------------------------


async def read_registry_with(repository: Repository) -> None:
    client = registry_client(60.0)
    try:
        assert (await client.digest(repository, "1.0.0", None)).startswith("sha256:")
    finally:
        await client.close()


@way("registry with caSecret")
async def _registry(site: Site) -> None:
    await read_registry_with(Repository(f"{HERE}:{site.port}", "app", ca=site.ca.read_bytes()))


@way("registry with the system's CAs")
async def _system_registry(site: Site) -> None:
    await read_registry_with(Repository(f"{HERE}:{site.port}", "app"))


@way("registry behind an https proxy")
async def _proxied_registry(site: Site) -> None:
    site.stage.serve("registry.far.invalid", serve_all)
    async with site.proxy() as proxy:
        site.env.setenv("HTTPS_PROXY", proxy)
        await read_registry_with(Repository("registry.far.invalid", "app"))


async def push(site: Site, **route: Any) -> str | None:
    """Upload a manifest in the child, which alone verifies here."""
    where = Route(
        **{
            "origin": site.url,
            "addresses": (HERE,),
            "proxy": None,
            "verify": True,
            "ca": None,
            "system_ca": (str(site.ca), None),
            "authorization": None,
            "user_agent": "copyrator",
            **route,
        }
    )
    what = Upload("app", (), "1.0.0", "application/vnd.oci.image.manifest.v1+json", MANIFEST)
    child = await site.child(Isolated, "push")
    answer = await child.call(upload, "team", where, what)
    return None if answer.status == 201 else str(answer.fault)


@way("push with caSecret")
async def _push(site: Site) -> str | None:
    return await push(site, ca=site.ca.read_bytes(), system_ca=(None, None))


@way("push with the system's CAs")
async def _system_push(site: Site) -> str | None:
    return await push(site)


# Clouds ------------------------------------------------------------------------------------------


@way("AWS for an account")
async def _aws(site: Site) -> None:
    role = Amazon(site.stage, site.tokens).add_role("shop", "team/werf")
    account = site.account(**{ANN_AWS_ROLE: role})
    async with site.calls() as calls:
        await aws.issue(calls, read_registry(Provider.AWS, ECR), account, writes=False)


@way("Google for an account")
async def _google(site: Site) -> None:
    Google(site.stage, site.tokens)
    registry = read_registry(Provider.GCP, PKG)
    async with site.calls() as calls:
        await gcp.Google().issue(calls, registry, site.account(), writes=False)


@way("Azure for an account")
async def _azure(site: Site) -> None:
    entra = Entra(site.stage, site.tokens)
    entra.let(TENANT, CLIENT, "system:serviceaccount:team:werf")
    site.stage.serve(LOGIN, entra)
    site.stage.serve(ACR, AzureRegistry(site.stage, entra, ACR, {CLIENT: READER}))
    registry = read_registry(Provider.AZURE, ACR)
    account = site.account(**{ANN_AZURE_CLIENT: CLIENT, ANN_AZURE_TENANT: TENANT})
    async with site.calls() as calls:
        await azure.issue(calls, registry, account, writes=False)
    assert entra.tokens


# Receivers of notifications ----------------------------------------------------------------------


async def tell(site: Site, url: str, **proxies: str) -> str | None:
    child = await site.child(make_isolated, f"notify {site.ca} {[*proxies]}")
    order = Order(url, None, "/copyrator/ops", proxies, str(site.ca))
    return (await child.call(send, "chat", order, MESSAGE)).fault or None


@way("webhook")
async def _webhook(site: Site) -> str | None:
    return await tell(site, f"{site.url}/hook")


@way("mail server")
async def _mail(site: Site) -> str | None:
    mailbox = Mailbox()
    async with mailbox.serving(site.stage.authority.context()) as host:
        more = "from=copyrator@example.com&to=ops@example.com&format=text&mode=ssl"
        said = await tell(site, f"mailtos://{host}?{more}")
    site.reached += mailbox.texts
    return said


# -------------------------------------------------------------------------------------------------

FLAWS: dict[str, dict[str, Any]] = {
    "another name": {"other_name": "other.example.com"},
    "has ended": {"days": 0},
    "another CA": {},
}


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Stage]]:
    """Makes the servers whose certificates have a flaw; without a name they have none."""
    directory = tmp_path_factory.mktemp("stages")
    authority = LooseAuthority.make(directory / "ca")
    found: dict[str, Stage] = {}
    with ExitStack() as stack:
        for flaw in ("", *FLAWS):
            signer = replace(authority, **FLAWS.get(flaw, {}))
            running = Stage.running(directory / f"stage {flaw}", "127.0.0.1:1", signer)
            found[flaw] = stack.enter_context(running)
            found[flaw].serve(HERE, serve_all)
            found[flaw].serve("receiver.far.invalid", serve_all)
        yield found.__getitem__


@pytest.fixture(scope="module")
def other_ca(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return LooseAuthority.make(tmp_path_factory.mktemp("other") / "ca").directory / "ca.pem"


@pytest.fixture(scope="module")
def child() -> Iterator[Callable[..., Any]]:
    """Starts a process as strict as Python 3.13, or finds the one of that name."""
    found: dict[str, Any] = {}
    with ExitStack() as stack:
        stack.enter_context(kept("works for several tests", *CHILD))

        async def find(make: Callable[[], Isolated], name: str) -> Any:
            if name not in found:
                found[name] = stack.enter_context(LastingChild(make()).running())
                assert await found[name].call(strictness.install, "test")
            return found[name]

        yield find


Make = Callable[[str], Site]


@pytest.fixture
def make_site(
    stages: Callable[[str], Stage],
    other_ca: Path,
    child: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Make]:
    """Servers with a flaw, and a strict Python that trusts one CA."""
    secret = ("AWS_", "AZURE_", "IDENTITY_", "MSI_", "GOOGLE_", "CLOUDSDK_", "KUBE", "SSL_CERT_")
    for name in list(os.environ):
        if name.startswith(secret) or name.upper().endswith(("_PROXY", "_CA_BUNDLE")):
            monkeypatch.delenv(name)
    for name in ("HOME", "CLOUDSDK_CONFIG", "AZURE_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    for module, function, strict in strictness.functions():
        monkeypatch.setattr(module, function, strict)
    with ExitStack() as stack:

        def make(flaw: str = "") -> Site:
            stage = stages(flaw)
            stack.enter_context(stage.in_this_process())
            stage.forget()
            ca = other_ca if flaw == "another CA" else stage.authority.directory / "ca.pem"
            for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
                monkeypatch.setenv(name, str(ca))
            return Site(stage, ca, tmp_path, monkeypatch, OwnTokens(), child)

        yield make


@pytest.mark.parametrize("connect", WAYS.values(), ids=WAYS)
async def test_a_ca_without_key_identifiers_is_accepted_for(connect: Way, make_site: Make) -> None:
    site = make_site("")
    assert await connect(site) is None
    assert site.asked


@pytest.mark.parametrize("flaw", FLAWS)
@pytest.mark.parametrize("connect", WAYS.values(), ids=WAYS)
async def test_a_certificate_is_refused_for(connect: Way, flaw: str, make_site: Make) -> None:
    site = make_site(flaw)
    try:
        said = await connect(site)
    except (ApiError, KubeconfigError, RegistryError) as error:
        said = str(error)
    assert said
    assert site.asked == []


@pytest.mark.skipif(strictness.IS_STRICT, reason="this Python is strict by itself")
@pytest.mark.timeout(1200)
def test_all_this_holds_on_a_python_that_is_strict_by_itself(tmp_path: Path) -> None:
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = sorted(versions.glob("3.1[34].*/bin/python"))
    if not found:
        pytest.skip("no Python 3.13 or 3.14: hack/run takes one on PATH, and pyenv has none")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    environment["PYTHON"] = str(found[-1])
    run = str(ROOT / "hack" / "run")
    made = subprocess.run([run, "true"], env=environment, capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"{found[-1]} gets no environment: {made.stderr.decode()[-300:]}")
    place = str(tmp_path / "pytest")
    command = [run, "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", place, __file__]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=1000
    )
    assert done.returncode == 0, done.stdout[-8000:]
    assert f"{4 * len(WAYS)} passed, 1 skipped" in done.stdout
