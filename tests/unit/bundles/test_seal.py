"""Secrets with copies of what a Job gets: their names, hashes, labels and content."""

import hashlib
import re
from types import SimpleNamespace
from typing import Any

import pytest

from copyrator.bundles.engine.sealed import (
    SealKind,
    SealLabels,
    SealStore,
    of_job,
    others,
    secret_body,
)
from copyrator.bundles.jobs.pod import RENDER_DIR
from copyrator.bundles.jobs.script import SealedFile, seal_of, sealed_kubeconfig

LABELS = SealLabels("shop", "shop-plan-1", SealKind.VALUES)
OWNER = {"kind": "Bundle", "name": "shop"}


def test_a_seal_is_the_hash_of_salt_and_file_as_the_script_computes_it() -> None:
    assert seal_of("salt", b"a: b\n") == hashlib.sha256(b"salta: b\n").hexdigest()


def test_secrets_are_found_by_their_bundle_job_and_content() -> None:
    found = (
        "operator.werf.dev/bundle=shop,operator.werf.dev/sealed-for=shop-plan-1,"
        "operator.werf.dev/seal=values"
    )
    assert LABELS.selector == found
    assert LABELS.labels == dict(one.split("=") for one in found.split(","))


def test_those_of_other_jobs_are_what_nobody_needs() -> None:
    all_of_shop = (
        "operator.werf.dev/bundle=shop,operator.werf.dev/seal,operator.werf.dev/seal!=release"
    )
    assert others("shop", ()) == all_of_shop
    assert others("shop", ("b", "a", "b")) == (
        f"{all_of_shop},operator.werf.dev/sealed-for notin (a,b)"
    )


def test_a_secret_is_immutable_and_goes_with_its_bundle() -> None:
    assert secret_body(OWNER, "apps", "x", LABELS, {"salt": "YQ=="}) == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "x",
            "namespace": "apps",
            "labels": LABELS.labels,
            "ownerReferences": [OWNER],
        },
        "immutable": True,
        "type": "Opaque",
        "data": {"salt": "YQ=="},
    }


def test_a_secret_may_have_no_owner() -> None:
    assert secret_body(None, "team", "s", LABELS, {})["metadata"]["ownerReferences"] == []


def test_the_kubeconfig_is_checked_in_a_copy_in_memory() -> None:
    assert sealed_kubeconfig("0" * 64) == SealedFile(
        path="/run/copyrator/kubeconfig/kubeconfig",
        salt="/run/copyrator/kubeconfig/salt",
        copy=f"{RENDER_DIR}/kubeconfig",
        sha256="0" * 64,
    )


@pytest.mark.parametrize("job", ["x" * 64, "..", "a),b", "a b", "-a", "\ud800"])
def test_a_forged_jobs_name_makes_no_invalid_selector(job: str) -> None:
    value = SealLabels("shop", job, SealKind.VALUES).labels["operator.werf.dev/sealed-for"]
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
        return SealStore(context).derive(entry, job, purpose)

    one = derived()
    assert derived() == one
    assert len(bytes.fromhex(one)) == 16
    different = derived(b"other"), derived(uid="u"), derived(job="k"), derived(purpose="nonce")
    assert len({one, *different}) == 5
