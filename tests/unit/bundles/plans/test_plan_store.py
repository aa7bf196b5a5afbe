"""What is read back of a plan that was stored."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.replacing import replace
from tests.unit.bundles.job_samples import ORDER

from copyrator.api.bundle_status import Attempted, BundleStatus, Deployed
from copyrator.api.keys import BundleKey
from copyrator.bundles.engine.bundle import Memories
from copyrator.bundles.engine.sealed import SealStore
from copyrator.bundles.jobs.job import werf_env
from copyrator.bundles.jobs.script import SALT, seal_of
from copyrator.bundles.plans.fields import ApprovedPlan, Baseline
from copyrator.bundles.plans.operations import Operation, OperationType, RenderedObjects
from copyrator.bundles.plans.orders import (
    OPERATIONS,
    SealedValues,
    sealed_value,
)
from copyrator.bundles.plans.secrets import (
    PlanStore,
    ReleaseInventory,
    operations_secret,
    read_release,
)
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


# --- What an uninstall may delete: the union of approved plans, and nothing of the stored release


HOOK = Operation(OperationType.CREATE, "", "batch", "Job", "clean")
ONE = RenderedObjects(frozenset({"::ConfigMap:a", "::ConfigMap:b"}))
TWO = RenderedObjects(
    frozenset({"::ConfigMap:b", ":batch:Job:clean"}),
    frozenset({":batch:Job:clean"}),
    (replace(HOOK, name="back"),),
    (HOOK,),
    frozenset({":batch:Job:clean"}),
)
FIRST = BundleStatus(attempted=Attempted(attempt=1))


def deployed(plan: str | None) -> BundleStatus:
    there = Deployed(version="1.0", digest="sha256:a", plan_job=plan)
    return BundleStatus(attempted=Attempted(attempt=7), deployed=there)


def test_it_is_the_union_of_all_plans_since_the_release_began() -> None:
    found = ReleaseInventory().with_plan("p1", ONE, FIRST)
    found = found.with_plan("p2", TWO, deployed("p1"))

    assert found.is_complete(deployed("p1"))
    assert [str(one) for one in found.deletions] == [
        "delete ::ConfigMap:a",
        "delete ::ConfigMap:b",
        "delete :batch:Job:clean",
    ]
    assert found.objects.uninstall_hooks == (HOOK,)
    assert found.hooks_as_account == {HOOK}
    assert found.objects.rollback_hooks == (), "they are of one version, not of the release"
    assert read_release(found.to_text()) == found


def test_the_same_again_changes_nothing_so_that_nothing_is_written() -> None:
    found = ReleaseInventory().with_plan("p1", ONE, FIRST)

    assert found.with_plan("p2", ONE, deployed("p1")) == found


@pytest.mark.parametrize("former", [None, "p0"])
def test_what_an_older_operator_deployed_is_not_known_until_a_known_plan_is_deployed(
    former: str | None,
) -> None:
    found = ReleaseInventory().with_plan("p1", ONE, deployed(former))

    assert not found.is_complete(deployed(former))
    assert found.is_complete(deployed("p1"))
    again = found.with_plan("p2", TWO, deployed("p1"))
    assert again.is_whole
    assert again.is_complete(deployed("p2"))


def test_a_release_that_an_attempt_without_a_known_plan_began_is_not_whole() -> None:
    failed = replace(FIRST, attempted=Attempted(attempt=2))

    assert not ReleaseInventory().with_plan("p2", ONE, failed).is_complete(failed)


def test_the_plans_that_are_named_are_bounded() -> None:
    found = ReleaseInventory()
    for number in range(50):
        found = found.with_plan(f"p{number}", ONE, deployed("other"))

    assert len(found.plans) == 20
    assert found.plans[-1] == "p49"


# --- The copies of values that a Job checks


def test_werf_reads_more_than_a_thousand_files_in_their_order() -> None:
    def variables(count: int) -> dict[str, str]:
        files = tuple(sealed_value(0, i, f"{i}.yaml", "0" * 64) for i in range(count))
        env = werf_env(SealedValues("x", 1, files).add_to(ORDER))
        return {name: value for name, value in env.items() if "VALUES" in name}

    names = list(variables(1001))
    assert names == sorted(names)
    assert (names[0], names[-1]) == ("WERF_VALUES_OPERATOR_0000", "WERF_VALUES_OPERATOR_1000")
    assert variables(2) == {
        "WERF_VALUES_OPERATOR_000": "/tmp/values-0000",
        "WERF_VALUES_OPERATOR_001": "/tmp/values-0001",
    }
