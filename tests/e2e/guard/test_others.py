"""Nobody but a guarded Job is ever refused, whatever happens to the chart and to its lists.

Each writer writes in a loop, through all of it: an expression that errs for one of them would stop
this part of the cluster.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e import rbac
from tests.e2e.bundles.conftest import is_gone
from tests.e2e.conftest import POLICIES_ARE_BETA, skip_before_1_30
from tests.e2e.guard.conftest import config, op, pod_token, token_client
from tests.e2e.operator_process import until

from copyrator.api.keys import ObjectName
from copyrator.bundles.jobs.rights import ServiceAccount
from copyrator.bundles.plans.guard.listing import GuardedDeploy, config_map, key_of, list_of
from demo.chart import CHART, SET_IMAGE
from localcluster import Api, Cluster
from localcluster.api import ApiStatusError
from localcluster.errors import CommandFailedError

HOME = "ops"
PLACE = "others"
"""Where the writers write."""
POLICY = f"copyrator.{HOME}.guard.operator.werf.dev"
RELEASE = ("copyrator", str(CHART), *SET_IMAGE, "--namespace", HOME)
QUIET = ("--set", "uninstall.hook=false", "--set", "replicas=0", "--set", "crds.enabled=false")
"""The chart's image can't run here."""
LISTS = f"/api/v1/namespaces/{HOME}/configmaps"
JOB = "shop-deploy-0123456789"


def certificate_client(cluster: Cluster, user: str, *groups: str) -> Api:
    """A client with a certificate of a user in groups."""
    kubeconfig = yaml.safe_load(cluster.kubeconfig_for_user(user, groups).read_text())
    (found,) = kubeconfig["users"]
    context = ssl.create_default_context(cafile=str(cluster.layout.pki / "ca.crt"))
    pki = cluster.layout.pki
    (name,) = [
        one.stem
        for one in pki.glob("*.crt")
        if _encoded(one) == found["user"]["client-certificate-data"]
    ]
    context.load_cert_chain(pki / f"{name}.crt", pki / f"{name}.key")
    return Api(cluster.server, context)


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


@dataclass
class Writer:
    """Somebody who writes again and again."""

    name: str
    write: Callable[[int], object]
    done: int = 0
    refused: list[str] = field(default_factory=list)
    """In the words of a policy."""
    failed: list[str] = field(default_factory=list)
    """Else; while an API server starts that is no wonder."""


class Writers:
    """All of them, each in a thread of its own."""

    def __init__(self, *writers: Writer) -> None:
        self.all = writers
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(one,), name=one.name) for one in writers
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _run(self, writer: Writer) -> None:
        number = 0
        while not self._ended.is_set():
            number += 1
            try:
                writer.write(number)
            except ApiStatusError as error:
                refused = "ValidatingAdmissionPolicy" in str(error)
                (writer.refused if refused else writer.failed).append(str(error))
            except OSError as error:
                writer.failed.append(repr(error))
            else:
                writer.done += 1
            self._ended.wait(0.1)

    def each_writes(self, times: int = 3) -> None:
        """Wait until each has written that often from now on."""
        goals = {one.name: one.done + times for one in self.all}

        def behind() -> dict[str, list[str]]:
            self.assert_none_refused()
            return {one.name: one.failed[-1:] for one in self.all if one.done < goals[one.name]}

        until(lambda: not behind(), lambda: f"these write: {behind()}")

    def assert_none_refused(self) -> None:
        assert {one.name: one.refused for one in self.all if one.refused} == {}

    def forget_failures(self) -> None:
        for one in self.all:
            one.failed.clear()

    def assert_none_failed(self) -> None:
        assert {one.name: one.failed for one in self.all if one.failed} == {}


def writes_config(api: Api, name: str) -> Callable[[int], object]:
    """Creates, edits and deletes a ConfigMap, one after the other."""
    path = f"/api/v1/namespaces/{PLACE}/configmaps"

    def write(number: int) -> None:
        if number % 3 == 1:
            _create(api, path, config(name, PLACE))
        elif number % 3 == 2:
            api.patch(f"{path}/{name}", {"data": {"n": str(number)}})
        else:
            api.delete(f"{path}/{name}")

    return write


def _create(api: Api, path: str, body: dict[str, Any]) -> None:
    """One that is there after an answer that didn't arrive is fine."""
    try:
        api.create(path, body)
    except ApiStatusError as error:
        if error.code != 409:
            raise


def collects_garbage(api: Api) -> Callable[[int], object]:
    """Deletes an owner in the foreground: the garbage collector deletes what it owns first."""
    path = f"/api/v1/namespaces/{PLACE}/configmaps"

    def write(number: int) -> None:
        owner = api.create(path, {"metadata": {"generateName": "owner-"}})["metadata"]
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "blockOwnerDeletion": True}
        reference |= {"name": owner["name"], "uid": owner["uid"]}
        owned = {"metadata": {"generateName": "owned-", "ownerReferences": [reference]}}
        made = api.create(path, owned)["metadata"]
        api.delete(f"{path}/{owner['name']}", {"propagationPolicy": "Foreground"})
        for one in (owner, made):
            until(lambda: is_gone(api, f"{path}/{one['name']}"), f"{one['name']} is collected")  # noqa: B023

    return write


@pytest.fixture(scope="module")
def writers(disposable: Cluster) -> Iterator[Writers]:
    """Everybody who may be in a cluster; each has written before anything is installed."""
    cluster, api = disposable, disposable.api()
    skip_before_1_30(api, POLICIES_ARE_BETA)
    for name in (HOME, PLACE):
        api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    accounts = f"/api/v1/namespaces/{PLACE}/serviceaccounts"
    api.create(accounts, {"metadata": {"name": "werf"}})
    for name, subject in (
        ("account", rbac.account(PLACE, "werf")),
        ("person", rbac.user("alice")),
        ("anonymous", rbac.user("system:anonymous")),
    ):
        rbac.bind(api, subject, "admin", PLACE, name)
    until(lambda: "default" in {one["name"] for one in api.metadata(accounts)}, "the accounts")
    context = ssl.create_default_context(cafile=str(cluster.layout.pki / "ca.crt"))
    unbound = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = api.create(f"{accounts}/werf/token", unbound)["status"]["token"]
    alice = certificate_client(cluster, "alice", "people")

    def in_pod(pod: str) -> Api:
        return token_client(cluster, pod_token(api, PLACE, "werf", pod))

    found = Writers(
        Writer("an administrator", writes_config(api, "administrator")),
        Writer("somebody with a certificate", writes_config(alice, "alice")),
        Writer("another pod of the account", writes_config(in_pod("other"), "pod")),
        Writer(
            "another Job's pod of the account",
            writes_config(in_pod("shop-deploy-9876543210-abcde"), "another-job"),
        ),
        Writer(
            "a pod whose name begins as the Job's",
            writes_config(in_pod(f"{JOB}-abcde-f"), "longer"),
        ),
        Writer("the account without a pod", writes_config(token_client(cluster, token), "unbound")),
        Writer("anybody", writes_config(Api(cluster.server, context), "anonymous")),
        Writer("the garbage collector", collects_garbage(api)),
    )
    found.start()
    try:
        found.each_writes()
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="module")
def operator(disposable: Cluster) -> Api:
    """A client with the operator's account."""
    return disposable.api().as_user(f"system:serviceaccount:{HOME}:copyrator")


@pytest.fixture(scope="module")
def job(writers: Writers, disposable: Cluster) -> Api:
    """The client of a pod of a Job that has a list."""
    api = disposable.api()
    return token_client(disposable, pod_token(api, PLACE, "werf", f"{JOB}-abcde"))


@pytest.fixture(autouse=True)
def nobody_was_refused(writers: Writers) -> Iterator[None]:
    yield
    writers.each_writes()
    writers.assert_none_refused()
    writers.assert_none_failed()


def a_list(name: str = JOB, size: int = 1) -> dict[str, Any]:
    deploy = GuardedDeploy(
        account=ServiceAccount(PLACE, "werf"),
        release="shop",
        namespace=PLACE,
        operations=tuple(op(f"create ::ConfigMap:listed-{n}") for n in range(size)),
        revision=1,
        deployed_revision=None,
    )
    return config_map(name, {key_of(ObjectName(PLACE, name)): list_of(deploy)})


KEY = f"{PLACE}.shop-deploy-1111111111"
USER = f"system:serviceaccount:{PLACE}:werf"
GARBAGE: dict[str, dict[str, Any]] = {
    "no-data": {"data": {}},
    "no-account": {"data": {KEY: "\n"}},
    "no-lines": {"data": {KEY: USER}},
    "no-namespace": {"data": {KEY: f"{USER}\n"}},
    "only-bytes": {"data": {}, "binaryData": {KEY: "/w=="}},
    "odd": {"data": {KEY: f"{USER}\na/b\n\x00\t'\"\\", ".a": "\n", "a": "\x00", "_-": "'"}},
    "large": {"data": {KEY: f"{USER}\n" + "\n" * 900_000}},
    "many": {"data": {f"{PLACE}.{n}": f"{USER}\n" for n in range(1_000)}},
    "empty": {"data": {KEY: ""}},
}


def refused(api: Api) -> bool:
    """Whether a pod's dry run of a ConfigMap is refused by the guard."""
    path = f"/api/v1/namespaces/{PLACE}/configmaps"
    try:
        api.request("POST", path, config("guard-probe", PLACE), parameters={"dryRun": "All"})
    except ApiStatusError as error:
        return f"'{POLICY}'" in str(error)
    return False


def test_install_with_lists_there(
    disposable: Cluster, operator: Api, job: Api, writers: Writers
) -> None:
    """The lists are there before the policy, as after a restore."""
    api = disposable.api()
    api.create(LISTS, a_list())
    disposable.helm("install", *RELEASE, *QUIET)
    until(lambda: refused(job), "the guard is in force")
    for number in range(20):
        operator.create(LISTS, a_list(f"other-deploy-{number}", 100))
    writers.each_writes()
    for number in range(20):
        operator.delete(f"{LISTS}/other-deploy-{number}")


def test_lists_that_are_garbage(operator: Api, writers: Writers, job: Api) -> None:
    for kind, garbage in GARBAGE.items():
        operator.create(LISTS, a_list(f"broken-{kind}") | garbage)
    writers.each_writes()
    assert refused(job)
    for kind in GARBAGE:
        operator.delete(f"{LISTS}/broken-{kind}")


@pytest.mark.parametrize(
    "more",
    [
        ("--set", "bundles.guard.enabled=false"),
        ("--set", "bundles.guard.enabled=true,commonLabels.a=b"),
        ("--set", "watchNamespaces={others}"),
    ],
    ids=lambda more: more[1],
)
def test_upgrades(disposable: Cluster, writers: Writers, job: Api, more: tuple[str, str]) -> None:
    disposable.helm("upgrade", *RELEASE, *QUIET, *more)
    writers.each_writes()
    assert refused(job), "switched off, too, it holds until its list is gone"


def test_rollback(disposable: Cluster, writers: Writers, job: Api, operator: Api) -> None:
    def go_back(revision: str) -> None:
        disposable.helm("rollback", "copyrator", revision, "--namespace", HOME)
        writers.each_writes()
        assert refused(job)

    go_back("2")  # without the guard
    with pytest.raises(CommandFailedError, match="no ValidatingAdmissionPolicy with the name"):
        go_back("1")  # Helm's: docs/operations.md
    disposable.helm("upgrade", *RELEASE, *QUIET)
    go_back("1")


def test_lists_that_are_gone(operator: Api, job: Api, writers: Writers) -> None:
    """Also behind everybody's back, and while the operator is down."""
    operator.delete(f"{LISTS}/{JOB}")
    until(lambda: not refused(job), "a list that is deleted isn't in force")
    writers.each_writes()
    operator.create(LISTS, a_list())
    until(lambda: refused(job), "a list that is made now is in force")


def test_restart_of_the_api_server(disposable: Cluster, writers: Writers, job: Api) -> None:
    disposable.restart("kube-apiserver")
    until(lambda: refused(job), "the guard is in force again")
    writers.each_writes()
    writers.forget_failures()


def test_uninstall_and_install(
    disposable: Cluster, writers: Writers, job: Api, operator: Api
) -> None:
    disposable.helm("uninstall", "copyrator", "--namespace", HOME, "--no-hooks")
    writers.each_writes()
    assert refused(job), "a Job that runs keeps its guard"
    disposable.helm("install", *RELEASE, *QUIET)
    writers.each_writes()
    assert refused(job)
    operator.delete(f"{LISTS}/{JOB}")
    until(lambda: not refused(job), "its parameters aren't frozen")


def test_the_namespace_goes_with_its_lists(
    disposable: Cluster, writers: Writers, operator: Api, job: Api
) -> None:
    operator.create(LISTS, a_list())
    until(lambda: refused(job), "the guard is in force")
    api = disposable.api()
    api.delete(f"/api/v1/namespaces/{HOME}")
    until(lambda: is_gone(api, f"/api/v1/namespaces/{HOME}"), "the namespace is gone")
    writers.each_writes()
    assert not refused(job)


def test_no_audit_line_has_a_refusal_of_others(disposable: Cluster, writers: Writers) -> None:
    """Of the controllers, too, which try again and say nothing."""
    refusals = [
        event
        for line in disposable.audit_log.read_text().splitlines()
        if "ValidatingAdmissionPolicy" in line
        and (event := json.loads(line))
        and event.get("responseStatus", {}).get("code", 200) >= 400
    ]
    by = {
        (event["user"]["username"], event.get("user", {}).get("extra", {}).get(POD, [""])[0])
        for event in refusals
    }
    assert by == {(f"system:serviceaccount:{PLACE}:werf", f"{JOB}-abcde")}


POD = "authentication.kubernetes.io/pod-name"
