"""Who may write lists: a ConfigMap of somebody else's never loosens or tightens a guard."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.e2e.bundles.conftest import is_gone
from tests.e2e.copies.conftest import User
from tests.e2e.guard.conftest import LISTS, Guarded, GuardedJob, config, installed
from tests.e2e.operator_process import OperatorProcess, until
from tests.e2e.person import Person, RefusedError

from copyrator.api import names
from localcluster import Api

THEIRS = "are the operator's: remove the label from yours"


def labelled(name: str, namespace: str, **data: str) -> dict[str, Any]:
    found = config(name, namespace, **data)
    found["metadata"]["labels"] = {names.LABEL_GUARD: name}
    return found


def path_of(namespace: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps" + (f"/{name}" if name else "")


@pytest.fixture(scope="module")
def job(guarded: Guarded) -> GuardedJob:
    return guarded.job(guarded.team(), "create ::ConfigMap:listed")


@pytest.fixture
def admin(api: Api) -> Person:
    """Somebody whom RBAC refuses nothing."""
    return Person(api, "admin")


def forgery(job: GuardedJob) -> dict[str, str]:
    """A list with more operations."""
    account = f"system:serviceaccount:{job.team}:werf"
    return {job.key: f"{account}\n{job.team}\nCU//ConfigMap//other\n"}


def widened(job: GuardedJob) -> dict[str, Any]:
    return labelled(LISTS, job.guarded.home, **forgery(job))


GONE = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "0f0f0f0f"}
ATTACKS: dict[str, Callable[[Person, GuardedJob], object]] = {
    "another list": lambda person, job: person.create(labelled("evil", job.guarded.home)),
    "more operations": lambda person, job: person.apply(widened(job), force="true"),
    "more operations by merge": lambda person, job: person.merge(
        job.guarded.lists, {"data": forgery(job)}
    ),
    "without its label": lambda person, job: person.merge(
        job.guarded.lists, {"metadata": {"labels": {names.LABEL_GUARD: None}}}
    ),
    "an owner, for the garbage collector": lambda person, job: person.merge(
        job.guarded.lists, {"metadata": {"ownerReferences": [GONE]}}
    ),
    "its end": lambda person, job: person.delete(job.guarded.lists),
    "the end of all": lambda person, job: person.delete(path_of(job.guarded.home)),
}


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("who", ["an administrator", "the Job's own pod"])
def test_only_the_operator_writes_lists(
    job: GuardedJob, admin: Person, attack: str, who: str
) -> None:
    person = admin if who == "an administrator" else job.person
    with pytest.raises(RefusedError, match=f"{THEIRS}|not approved|field is immutable"):
        ATTACKS[attack](person, job)
    job.person.apply(config("listed", job.team))
    assert "not approved" in job.refused(lambda: job.person.apply(config("other", job.team)))


def test_a_config_map_that_is_there_cant_become_a_list(job: GuardedJob, admin: Person) -> None:
    home = job.guarded.home
    admin.create(config("plain", home))
    with pytest.raises(RefusedError, match=THEIRS):
        admin.merge(path_of(home, "plain"), {"metadata": {"labels": {names.LABEL_GUARD: "x"}}})
    admin.merge(path_of(home, "plain"), {"data": {"a": "1"}})
    admin.delete(path_of(home, "plain"))


def test_elsewhere_the_label_means_nothing(job: GuardedJob, admin: Person) -> None:
    """Also for the pod's own Job, in the release's namespace and in the default one."""
    for namespace in (job.team, "default"):
        admin.apply(labelled(LISTS, namespace, **forgery(job)))
        assert job.refused(lambda: job.person.apply(config("other", job.team)))
        admin.delete(path_of(namespace, LISTS))


def test_the_operator_may_delete_a_list(guarded: Guarded) -> None:
    job = guarded.job(guarded.team())
    guarded.delete_list(job)
    until(lambda: not job.is_guarded(), "the guard is gone with its list")


def test_a_namespace_with_lists_can_be_deleted(guarded: Guarded, api: Api) -> None:
    """The controllers that empty it are let through: a second installation's, with a list."""
    with installed(guarded.cluster) as second:
        second.job(second.team())
        path = f"/api/v1/namespaces/{second.home}"
        api.delete(path)
        until(
            lambda: second.home not in {one["name"] for one in api.metadata("/api/v1/namespaces")},
            f"{second.home} is gone",
        )


@pytest.fixture(scope="module")
def operator(
    guarded: Guarded, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """Which itself may write lists."""
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    account = guarded.rendered.service_account
    kubeconfig = guarded.cluster.kubeconfig_for_service_account(guarded.home, account)
    settings = {"NAMESPACE": guarded.home, "COPYRATOR_TENANT_RULES": "true"}
    with OperatorProcess(kubeconfig, log, settings=settings) as operator:
        operator.wait_ready()
        yield operator
        assert operator.stop() == 0


@pytest.fixture
def forged(job: GuardedJob, api: Api, namespace: Callable[..., str]) -> dict[str, Any]:
    """A list that somebody made elsewhere for the Job, in its name; the label is free there."""
    source = namespace("source")
    made = labelled(LISTS, source, **forgery(job))
    api.create(path_of(source), made)
    return made


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize("way", ["copies", "renders"])
def test_a_rule_never_gives_the_label(
    job: GuardedJob, api: Api, forged: dict[str, Any], way: str
) -> None:
    user, home, source = User(api), job.guarded.home, forged["metadata"]["namespace"]
    spec: dict[str, Any] = {"targets": {"namespaces": [home]}}
    if way == "copies":
        spec["source"] = {"kind": "ConfigMap", "name": LISTS, "namespace": source}
        spec["transform"] = {"name": "forged"}
    else:
        metadata = {"name": "forged", "labels": forged["metadata"]["labels"]}
        spec["template"] = forged | {"metadata": metadata}
    user.rule(home, way, spec)
    user.wait_ready(home, way)
    copied = api.get(path_of(home, "forged"))
    assert copied["data"] == forged["data"]
    assert names.LABEL_GUARD not in copied["metadata"]["labels"]
    assert job.refused(lambda: job.person.apply(config("other", job.team)))
    user.delete("copyrators", home, way)
    until(lambda: is_gone(api, path_of(home, "forged")), "the copy is gone")


@pytest.mark.usefixtures("operator")
def test_a_rule_never_overwrites_a_list(job: GuardedJob, api: Api, forged: dict[str, Any]) -> None:
    user, home, source = User(api), job.guarded.home, forged["metadata"]["namespace"]
    before = api.get(job.guarded.lists)
    spec = {
        "source": {"kind": "ConfigMap", "name": LISTS, "namespace": source},
        "targets": {"namespaces": [home]},
        "onConflict": "Overwrite",
        "onImmutable": "Recreate",
    }
    user.rule(home, "overwrite", spec)
    user.wait_failing(home, "overwrite")
    assert api.get(job.guarded.lists) == before
    assert job.refused(lambda: job.person.apply(config("other", job.team)))
    user.delete("copyrators", home, "overwrite")
