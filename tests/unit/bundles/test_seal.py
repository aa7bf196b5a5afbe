"""Secrets with copies of what a Job gets: their names, hashes, labels and content."""

import asyncio
import hashlib
import re
from types import SimpleNamespace
from typing import Any, cast

import pytest

from copyrator.bundles.engine.sealed import (
    SealKind,
    SealStore,
    of_job,
    others,
    seal_labels,
    secret_body,
)
from copyrator.bundles.jobs.pod import RENDER_DIR, owner_reference
from copyrator.bundles.jobs.script import SealedFile, seal_of, sealed_kubeconfig

LABELS = {
    "operator.werf.dev/bundle": "shop",
    "operator.werf.dev/sealed-for": "shop-plan-1",
    "operator.werf.dev/seal": "values",
}


def test_a_seal_is_the_hash_of_salt_and_file_as_the_script_computes_it() -> None:
    assert seal_of("salt", b"a: b\n") == hashlib.sha256(b"salta: b\n").hexdigest()


def test_secrets_are_found_by_their_bundle_job_and_content() -> None:
    assert seal_labels("shop", "shop-plan-1", SealKind.VALUES) == LABELS


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


def test_the_kubeconfig_is_checked_in_a_copy_in_memory() -> None:
    assert sealed_kubeconfig("0" * 64) == SealedFile(
        path="/run/copyrator/kubeconfig/kubeconfig",
        salt="/run/copyrator/kubeconfig/salt",
        copy=f"{RENDER_DIR}/kubeconfig",
        sha256="0" * 64,
    )


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
