"""Clouds' servers for code that runs in this process."""

import os
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.clouds.guards import OwnTokens
from tests.clouds.stage import Stage
from tests.component.oci.fake_registry import LOOPBACK
from tests.e2e import referrers_registry

from copyrator.clouds.calls import Calls
from copyrator.metrics import Metrics
from copyrator.oci.transport import RegistryTransport
from localcluster.build import Programs


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the registry, where it is missing, before any test's time limit runs."""
    here = Path(__file__).parent
    if session.config.option.collectonly:
        return
    if any(here in item.path.parents for item in session.items):
        Programs.default().find(["referrers"])


@pytest.fixture(scope="module")
def real_registry() -> Iterator[str]:
    """`host:port` of a real registry, plain HTTP."""
    with referrers_registry.running() as host:
        yield host


@pytest.fixture(scope="module")
def servers(real_registry: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Started once: a hundred tests take less time so."""
    directory = tmp_path_factory.mktemp("clouds") / "stage"
    with Stage.running(directory, real_registry) as stage, stage.in_this_process():
        yield stage


@pytest.fixture
def cloud_stage(servers: Stage, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """Servers whose hosts and CA this process knows, and no other; they serve nothing yet."""
    identities = ("AZURE_", "IDENTITY_", "MSI_")
    for name in list(os.environ):
        if name.startswith(identities) or name.upper().endswith(
            ("_PROXY", "_CA_BUNDLE", "SSL_CERT_DIR")
        ):
            monkeypatch.delenv(name)
    monkeypatch.setenv("SSL_CERT_FILE", str(servers.ca))
    yield servers
    servers.clear()


@pytest.fixture(scope="session")
def account_tokens() -> OwnTokens:
    """Issues and verifies service accounts' tokens."""
    return OwnTokens()


@pytest.fixture
async def calls(cloud_stage: Stage) -> AsyncIterator[Calls]:
    transport = RegistryTransport(metrics=Metrics(), timeout=60.0, allowed=LOOPBACK)
    yield Calls(transport, lambda: datetime.now(UTC))
    await transport.close()
