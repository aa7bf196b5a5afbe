"""Secrets with copies of what a Job gets: their names, hashes, labels and content."""

from __future__ import annotations

import asyncio
import hashlib
import re
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from copyrator.bundles.engine.bundle import BundleEntry, Memories, read_entry
from copyrator.bundles.engine.sealed import (
    SealKind,
    SealStore,
    of_job,
    others,
    seal_labels,
    secret_body,
)
from copyrator.bundles.fields import BundleDefaults
from copyrator.bundles.jobs.pod import owner_reference
from copyrator.bundles.jobs.script import seal_of

LABELS = {
    "operator.werf.dev/bundle": "shop",
    "operator.werf.dev/sealed-for": "shop-plan-1",
    "operator.werf.dev/seal": "values",
}


def test_a_seal_is_the_hash_of_salt_and_file_as_the_script_computes_it() -> None:
    assert seal_of("salt", b"a: b\n") == hashlib.sha256(b"salta: b\n").hexdigest()


def test_those_of_other_jobs_are_what_nobody_needs() -> None:
    all_of_shop = (
        "operator.werf.dev/bundle=shop,operator.werf.dev/seal,operator.werf.dev/seal!=release"
    )
    assert others("shop", ()) == all_of_shop
    assert others("shop", ("b", "a", "b")) == (
        f"{all_of_shop},operator.werf.dev/sealed-for notin (a,b)"
    )


def secret(*, deleting: bool = False) -> dict[str, Any]:
    key = SimpleNamespace(namespace="apps", name="shop")
    entry: Any = SimpleNamespace(key=key, uid="uid-1", deleting=deleting)
    data: dict[str, str | bytes] = {"salt": "a", "values.yaml": b"b"}
    return asyncio.run(secret_body(entry, "x", "shop-plan-1", SealKind.VALUES, data))


def test_a_secret_is_immutable_and_goes_with_its_bundle() -> None:
    assert secret() == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "x",
            "namespace": "apps",
            "labels": LABELS,
            "ownerReferences": [owner_reference("shop", "uid-1")],
        },
        "immutable": True,
        "type": "Opaque",
        "data": {"salt": "YQ==", "values.yaml": "Yg=="},
    }


def test_a_secret_of_a_bundle_that_is_being_deleted_has_no_owner() -> None:
    assert secret(deleting=True)["metadata"]["ownerReferences"] == []


@pytest.mark.parametrize("job", ["x" * 64, "..", "a),b", "a b", "-a", "\ud800"])
def test_a_forged_jobs_name_makes_no_invalid_selector(job: str) -> None:
    value = seal_labels("shop", job, SealKind.VALUES)["operator.werf.dev/sealed-for"]
    assert re.fullmatch("[0-9a-f]{63}", value)
    assert of_job("shop", job).endswith(f"operator.werf.dev/sealed-for={value}")
    assert others("shop", ["a", job]).endswith(f"notin ({','.join(sorted(('a', value)))})")


def test_salts_and_nonces_cant_be_known_without_the_key() -> None:
    def derived(
        key: bytes = b"the operator's hash key",
        uid: str = "uid-1",
        job: str = "j",
        purpose: str = "salt",
    ) -> str:
        context: Any = SimpleNamespace(hasher=lambda: hashlib.blake2b(key=key))
        entry: Any = SimpleNamespace(uid=uid)
        return SealStore(context, cast("Any", None)).derive(entry, job, purpose)

    one = derived()
    assert derived() == one
    assert len(bytes.fromhex(one)) == 16
    different = derived(b"other"), derived(uid="u"), derived(job="k"), derived(purpose="nonce")
    assert len({one, *different}) == 5


# --- Secrets that a former process has left


NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATELY, LONG_AGO = "2025-12-31T23:00:00Z", "2025-12-31T22:59:59Z"


class Client:
    """Keeps by which selectors Secrets are deleted."""

    def __init__(self) -> None:
        self.selectors: list[str] = []

    async def request(self, _method: str, _path: str, params: dict[str, str]) -> None:
        self.selectors.append(params["labelSelector"])


def bundle(finished: str | None, auth: str | None = "login") -> BundleEntry:
    spec = {"registry": "r.example", "repo": "app"} | ({"auth": auth} if auth else {})
    body = {
        "metadata": {"namespace": "team", "name": "shop"},
        "spec": spec,
        "status": {"attempted": {"finishedAt": finished}} if finished else {},
    }
    return read_entry(body, BundleDefaults())


def tidy(
    entry: BundleEntry, *further: str | None, writes: bool = False, **more: bool
) -> tuple[int, bool]:
    """How often Secrets are deleted, in two reconciles, and whether that is settled then."""
    client = Client()
    context = SimpleNamespace(clock=lambda: NOW, memories=Memories(), client=client)
    features = SimpleNamespace(have_secrets=lambda _: writes, needed_jobs=lambda *_: ["job"])
    seals, spec = SealStore(*cast("Any", (context, features))), cast("Any", entry.spec)
    for _ in range(2):
        assert asyncio.run(seals.tidy(entry, spec, *further, **more)) is None
    assert all(one.endswith("notin (job)") for one in client.selectors)
    count = len(client.selectors)
    asyncio.run(seals.tidy(entry, spec, LATELY, may_have=True))
    return count, len(client.selectors) == count


@pytest.mark.parametrize(
    ("finished", "further", "deletions"),
    [
        (None, (), 0),
        (LATELY, (), 1),
        (LONG_AGO, (), 0),
        (None, (LATELY,), 1),
        (None, (LONG_AGO, None), 0),
        (LONG_AGO, (LONG_AGO, LATELY), 1),
    ],
)
def test_what_ended_lately_may_have_left_secrets(
    finished: str | None, further: tuple[str | None, ...], deletions: int
) -> None:
    assert tidy(bundle(finished), *further) == (deletions, True)


def test_a_feature_that_writes_secrets_may_have_left_them_at_any_time() -> None:
    assert tidy(bundle(LONG_AGO, auth=None), writes=True) == (1, True)


def test_a_bundle_whose_jobs_have_none_isnt_looked_at() -> None:
    assert tidy(bundle(LATELY, auth=None)) == (0, False)
    assert tidy(bundle(LATELY, auth=None), may_have=True) == (1, True)
