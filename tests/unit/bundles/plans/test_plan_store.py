"""What is read back of a plan that was stored."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.replacing import replace

from copyrator.api.keys import BundleKey
from copyrator.bundles.engine.bundle import Memories
from copyrator.bundles.engine.sealed import SealStore
from copyrator.bundles.jobs.script import SALT, SealedFile, seal_of
from copyrator.bundles.plans.fields import ApprovedPlan, Baseline
from copyrator.bundles.plans.orders import OPERATIONS, approved_operations
from copyrator.bundles.plans.secrets import PlanStore, operations_secret
from copyrator.kube.errors import AlreadyExists, NotFound

KEY = b"the operator's hash key"
TEXT = "revision 2\nrender none\ncreate ::ConfigMap:a\nobjects 1\n"
OTHER = TEXT.replace("ConfigMap", "Secret")
ENTRY: Any = SimpleNamespace(key=BundleKey("apps", "shop"), uid="uid-1", deleting=False)


class Client:
    """Secrets of one namespace."""

    def __init__(self) -> None:
        self.secrets: dict[str, dict[str, Any]] = {}

    async def create(self, _resource: Any, _namespace: str, body: dict[str, Any]) -> None:
        name = body["metadata"]["name"]
        if name in self.secrets:
            raise AlreadyExists("exists")
        self.secrets[name] = body

    async def get(self, _resource: Any, _namespace: str, name: str) -> dict[str, Any]:
        if name not in self.secrets:
            raise NotFound("secrets")
        return self.secrets[name]


def plans(client: Client) -> PlanStore:
    context: Any = SimpleNamespace(
        hasher=lambda: hashlib.blake2b(key=KEY),
        client=client,
        memories=Memories(),  # as after a restart
    )
    return PlanStore(context, SealStore(context, cast("Any", None)))


def stored(text: str = TEXT) -> tuple[Client, ApprovedPlan]:
    client = Client()
    sealed = asyncio.run(plans(client).store(ENTRY, "job-1", text))
    return client, ApprovedPlan(job="job-1", seal=sealed)


def read(client: Client, kept: ApprovedPlan | Baseline) -> str | None:
    found = asyncio.run(plans(client).read(ENTRY, kept))
    return found.text if found else None


def change(client: Client, key: str, text: str | None) -> None:
    data = client.secrets[operations_secret("job-1")]["data"]
    if text is None:
        del data[key]
    else:
        data[key] = base64.b64encode(text.encode()).decode()


def test_what_was_stored_is_read_back_after_a_restart() -> None:
    client, kept = stored()
    assert read(client, kept) == TEXT
    assert read(client, Baseline(job="job-1", seal=kept.seal)) == TEXT


@pytest.mark.parametrize("text", [OTHER, TEXT + "create ::Secret:b\n", "", None, "no plan"])
def test_operations_that_were_changed_are_none(text: str | None) -> None:
    client, kept = stored()
    change(client, OPERATIONS, text)
    assert read(client, kept) is None


def test_a_salt_in_the_secret_means_nothing() -> None:
    client, kept = stored()
    salt = "f" * 32
    change(client, OPERATIONS, OTHER)
    change(client, SALT, salt)
    forged = replace(kept, seal=seal_of(salt, OTHER.encode()))
    assert read(client, forged) is None
    assert read(client, kept) is None


def test_without_its_seal_or_with_another_jobs_there_is_none() -> None:
    client, kept = stored()
    assert read(client, replace(kept, seal=None)) is None
    assert read(client, replace(kept, job=None)) is None
    assert read(client, replace(kept, job="job-2")) is None
    client.secrets[operations_secret("job-2")] = client.secrets[operations_secret("job-1")]
    assert read(client, replace(kept, job="job-2")) is None


def test_the_operations_are_checked_in_a_copy_of_their_own() -> None:
    """They are mounted from the Secret of the plan's Job, with its salt."""
    assert operations_secret("shop-plan-1") == "shop-plan-1-operations"
    assert approved_operations("0" * 64) == SealedFile(
        path="/run/copyrator/approved/operations",
        salt="/run/copyrator/approved/salt",
        copy="/tmp/approved",
        sha256="0" * 64,
    )
