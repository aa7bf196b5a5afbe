"""Secrets with copies of what a Job gets: their names, hashes, labels and content."""

import hashlib
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from copyrator.bundles.engine.sealed import SealStore
from copyrator.bundles.jobs import seal
from copyrator.bundles.jobs.script import SealedFile
from copyrator.bundles.jobs.seal import SealedValues, SealKind, SealLabels, sealed_value

LABELS = SealLabels("shop", "shop-plan-1", SealKind.VALUES)
OWNER = {"kind": "Bundle", "name": "shop"}


def test_each_secret_has_a_name_of_its_own() -> None:
    assert seal.salt_secret("shop-plan-1") == "shop-plan-1-salt"
    assert seal.values_secret("shop-plan-1", 7) == "shop-plan-1-values-007"


def test_a_seal_is_the_hash_of_salt_and_file_as_the_script_computes_it() -> None:
    assert seal.seal_of("salt", b"a: b\n") == hashlib.sha256(b"salta: b\n").hexdigest()


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
    assert seal.others("shop", ()) == all_of_shop
    assert seal.others("shop", ("b", "a", "b")) == (
        f"{all_of_shop},operator.werf.dev/sealed-for notin (a,b)"
    )


def test_a_secret_is_immutable_and_goes_with_its_bundle() -> None:
    assert seal.secret(OWNER, "apps", "x", LABELS, {"salt": "YQ=="}) == {
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
    assert seal.secret(None, "team", "s", LABELS, {})["metadata"]["ownerReferences"] == []


def test_a_value_is_read_from_its_source_and_checked_in_a_copy_of_its_own() -> None:
    assert sealed_value(7, 12, "a.yaml", "0" * 64) == SealedFile(
        path="/run/copyrator/values/007/a.yaml",
        salt="/run/copyrator/seal/salt",
        copy="/tmp/values-0012",
        sha256="0" * 64,
    )


@pytest.mark.parametrize(
    ("build", "path", "salt", "copy"),
    [
        (
            lambda seal_: seal.sealed_secret_key(7, "werf-key", seal_),
            "/run/copyrator/values/007/werf-key",
            "/run/copyrator/seal/salt",
            "/tmp/secret-key",
        ),
        (
            seal.sealed_render_salt,
            "/run/copyrator/seal/render",
            "/run/copyrator/seal/salt",
            "/tmp/render-salt",
        ),
        (
            seal.sealed_kubeconfig,
            "/run/copyrator/kubeconfig/kubeconfig",
            "/run/copyrator/kubeconfig/salt",
            f"{seal.RENDER_DIR}/kubeconfig",
        ),
    ],
)
def test_what_else_is_sealed_is_checked_in_a_copy_of_its_own(
    build: Callable[[str], SealedFile], path: str, salt: str, copy: str
) -> None:
    """Those with a salt of their own are mounted from another Secret."""
    assert build("0" * 64) == SealedFile(path=path, salt=salt, copy=copy, sha256="0" * 64)


def test_werf_reads_more_than_a_thousand_files_in_their_order() -> None:
    files = tuple(sealed_value(0, i, f"{i}.yaml", "0" * 64) for i in range(1001))
    names = list(seal.variables(SealedValues("x", 1, files)))
    assert names == sorted(names)
    assert (names[0], names[-1]) == ("WERF_VALUES_OPERATOR_0000", "WERF_VALUES_OPERATOR_1000")
    few = seal.variables(SealedValues("x", 1, files[:2]))
    assert few == {
        "WERF_VALUES_OPERATOR_000": "/tmp/values-0000",
        "WERF_VALUES_OPERATOR_001": "/tmp/values-0001",
    }


@pytest.mark.parametrize("job", ["x" * 64, "..", "a),b", "a b", "-a", "\ud800"])
def test_a_forged_jobs_name_makes_no_invalid_selector(job: str) -> None:
    value = SealLabels("shop", job, SealKind.VALUES).labels["operator.werf.dev/sealed-for"]
    assert re.fullmatch("[0-9a-f]{63}", value)
    assert seal.of_job("shop", job).endswith(f"operator.werf.dev/sealed-for={value}")
    assert seal.others("shop", ["a", job]).endswith(f"notin ({','.join(sorted(('a', value)))})")


def test_salts_and_nonces_cant_be_known_without_the_key() -> None:
    def derived(
        key: bytes = b"the operator's hash key",
        uid: str = "uid-1",
        job: str = "j",
        purpose: str = "salt",
    ) -> str:
        context: Any = SimpleNamespace(hasher=lambda: hashlib.blake2b(key=key))
        entry: Any = SimpleNamespace(uid=uid)
        references: Any = None
        return SealStore(context, references).derive(entry, job, purpose)

    one = derived()
    assert derived() == one
    assert len(bytes.fromhex(one)) == 16
    others = derived(b"other"), derived(uid="u"), derived(job="k"), derived(purpose="nonce")
    assert len({one, *others}) == 5
