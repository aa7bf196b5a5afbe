"""The policy and the copies that an operator makes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from tests.e2e import rbac
from tests.e2e.copies.conftest import User
from tests.e2e.marks_policy.conftest import (
    MARKS,
    OURS,
    Guarded,
    config_map,
    installed,
    passes,
    path_of,
)
from tests.e2e.operator_process import OperatorProcess, until
from tests.e2e.person import RefusedError
from tests.e2e.rights.conftest import settings
from tests.e2e.rights.roles import Roles

from copyrator.api import names
from localcluster import Api, Cluster

MARK = "mark copyrators.flant.com"
"""The right that this file takes away."""


@pytest.fixture(scope="module")
def guarded(
    cluster: Cluster, api: Api, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    """With the operator."""
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    with installed(cluster, api) as guarded:
        account = guarded.rendered.service_account
        led = cluster.kubeconfig_for_service_account(guarded.home, account)
        with OperatorProcess(led, log, settings=settings(guarded.rendered)) as operator:
            operator.wait_ready()
            yield guarded
            assert operator.stop() == 0


@pytest.fixture
def copied(guarded: Guarded, place: str, namespace: Callable[..., str]) -> Iterator[str]:
    """A Secret `app` that the operator has copied to `place`; its rule's name."""
    user, word = User(guarded.api), place
    user.create("secrets", guarded.home, word, data={"password": "aHVudGVyMg=="})
    source = {"kind": "Secret", "name": word}
    transform = {"name": "app"}
    spec = {"source": source, "transform": transform, "targets": {"namespaces": [place]}}
    user.rule(guarded.home, word, spec)
    user.wait_ready(guarded.home, word)
    yield word
    user.delete("copyrators", guarded.home, word)


def test_an_exported_copy_cant_be_applied_elsewhere(guarded, alice, place, copied, namespace):
    elsewhere = namespace("elsewhere")
    guarded.person("alice", elsewhere)
    exported = alice.get(path_of("secrets", f"{place}/app"))
    metadata = exported["metadata"]
    metadata["namespace"] = elsewhere
    for key in ("resourceVersion", "uid", "creationTimestamp", "managedFields"):
        del metadata[key]
    with pytest.raises(RefusedError) as error:
        alice.create(exported)
    said = str(error.value)
    assert f"Secret {elsewhere}/app must not have the marks" in said
    assert "Remove these annotations and the label app.kubernetes.io/managed-by: copyrator;" in said
    del metadata["labels"][names.LABEL_MANAGED_BY]
    metadata["annotations"] = {}
    alice.create(exported)


def test_a_backup_cant_be_restored_without_the_verb_and_can_be_with_it(
    guarded, alice, place, copied
):
    stored = alice.get(path_of("secrets", f"{place}/app"))
    for key in ("resourceVersion", "uid"):
        del stored["metadata"][key]
    stored["metadata"]["name"] = "restored"
    with pytest.raises(RefusedError, match="to restore backups, a user needs the verb mark"):
        alice.create(stored)
    rule = rbac.rule("mark", "copyrators", group="flant.com")
    rbac.grant(guarded.api, rbac.user("alice"), rule, namespace=place)
    until(lambda: passes(lambda: alice.create(stored)), "alice may restore")


def test_an_edit_in_the_operators_name_is_refused(alice, place, copied):
    with pytest.raises(RefusedError, match="choose another --field-manager") as error:
        alice.merge(
            path_of("secrets", f"{place}/app"), {"data": {"password": "ZXZpbA=="}}, manager=OURS
        )
    assert f"Secret {place}/app" in str(error.value)
    alice.create(config_map(place, "plain", a="1"))
    with pytest.raises(RefusedError, match="choose another --field-manager"):
        alice.merge(path_of("configmaps", f"{place}/plain"), {"data": {"a": "2"}}, manager=OURS)
    with pytest.raises(RefusedError, match="choose another --field-manager"):
        alice.create(config_map(place, "another", a="1"), manager=OURS)


@pytest.mark.parametrize("key", sorted(MARKS))
def test_a_mark_of_a_copy_cant_be_changed(alice, place, copied, key):
    with pytest.raises(RefusedError, match="must not have the marks"):
        alice.merge(
            path_of("secrets", f"{place}/app"), {"metadata": {"annotations": {key: "other/rule"}}}
        )


def test_an_ordinary_edit_of_a_copy_passes_and_is_healed(guarded, alice, place, copied):
    def password() -> str:
        return str(alice.get(path_of("secrets", f"{place}/app"))["data"]["password"])

    right = password()
    alice.merge(
        path_of("secrets", f"{place}/app"), {"data": {"password": "ZXZpbA==", "more": "eA=="}}
    )
    until(lambda: password() == right, "the copy is healed")


def test_marks_may_be_taken_off_and_copies_deleted(alice, place, copied):
    for _ in range(2):
        off = {"metadata": {"annotations": {names.ANN_HASH: None}}}
        alice.merge(path_of("secrets", f"{place}/app"), off)
    unlabelled = {"metadata": {"labels": {names.LABEL_MANAGED_BY: None}}}
    alice.merge(path_of("secrets", f"{place}/app"), unlabelled)
    alice.delete(path_of("secrets", f"{place}/app"))


@contextmanager
def without_mark(guarded: Guarded) -> Iterator[None]:
    with Roles(guarded.api, guarded.rendered, guarded.home).without(MARK):
        yield


def test_without_its_verb_copies_are_refused_and_made_when_it_is_back(guarded, place):
    user = User(guarded.api)
    user.create("configmaps", guarded.home, place, data={"a": "1"})
    source, targets = {"kind": "ConfigMap", "name": place}, {"namespaces": [place]}
    with without_mark(guarded):
        user.rule(guarded.home, place, {"source": source, "targets": targets})
        user.wait_failing(guarded.home, place)
        status = (user.get("copyrators", guarded.home, place) or {})["status"]
        assert [one["reason"] for one in status["failures"]] == ["AdmissionDenied"]
    user.wait_ready(guarded.home, place)
    user.delete("copyrators", guarded.home, place)
