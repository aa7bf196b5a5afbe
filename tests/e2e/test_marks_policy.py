"""The chart's admission policy on a real API server: who may set the marks of copies."""

import json
import secrets
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from tests.e2e.conftest import POLICIES_ARE_BETA, skip_before_1_30
from tests.e2e.copying.conftest import User
from tests.e2e.operator_process import OperatorProcess, uninstall, until
from tests.e2e.rights.conftest import settings
from tests.e2e.rights.roles import Roles

from copyrator.api import names
from copyrator.cli import cli
from copyrator.rules.metadata import OUR_KEYS
from demo.chart import Rendered, render
from localcluster import Api, Cluster
from localcluster.api import ApiStatusError
from localcluster.errors import CommandFailedError

MARK = "mark copyrators.flant.com"
"""The right that this file takes away."""
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
LABELS = {names.LABEL_MANAGED_BY: names.MANAGED_BY}
MARKS = {
    names.ANN_RULE: "home/main",
    names.ANN_SOURCE: "home/app",
    names.ANN_HASH: "v1:0123456789abcdef",
}
OURS = f"--field-manager={names.FIELD_MANAGER}"
SECONDS = 60.0


class RefusedError(Exception):
    """The API server said no."""


@dataclass
class Person:
    """Somebody with kubectl."""

    cluster: Cluster
    user: str

    def kubectl(self, *arguments: str, **more: Any) -> str:
        try:
            return self.cluster.kubectl(*arguments, f"--as={self.user}", **more)
        except CommandFailedError as error:
            raise RefusedError(str(error)) from None

    def create(self, *manifests: dict[str, Any], options: tuple[str, ...] = ()) -> str:
        return self.kubectl("create", *options, "-f", "-", input=yaml.safe_dump_all(manifests))

    def patch(self, kind: str, where: str, body: dict[str, Any], *options: str) -> str:
        namespace, name = where.split("/")
        arguments = ("patch", kind, name, "-n", namespace, "--type=merge", *options)
        return self.kubectl(*arguments, "-p", json.dumps(body))


@dataclass
class Guarded:
    """A cluster with the policies of two installations, and the operator of the first."""

    cluster: Cluster
    api: Api
    home: str
    rendered: Rendered
    second: Person
    operator: OperatorProcess
    admin: Path

    def person(self, name: str, *namespaces: str) -> Person:
        """Somebody with Kubernetes' own role `edit` in these namespaces, and `mark` nowhere."""
        for namespace in namespaces:
            self.cluster.kubectl(
                *("create", "rolebinding", f"edit-{name}", "-n", namespace),
                *("--clusterrole=edit", f"--user={name}"),
            )
        return Person(self.cluster, name)


def config_map(namespace: str, name: str, *, marked: bool = False, **data: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"namespace": namespace, "name": name}
    if marked:
        metadata |= {"labels": LABELS, "annotations": MARKS}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def raw(cluster: Cluster, token: str, path: str, body: dict[str, Any]) -> None:
    """A POST of a client that says no field manager and calls itself copyrator."""
    config = yaml.safe_load(Path(cluster.environment()["KUBECONFIG"]).read_text())
    server = config["clusters"][0]["cluster"]
    headers = {
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
        "User-Agent": "copyrator/0.1",
    }
    url = server["server"] + path
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    context = ssl._create_unverified_context()
    handlers = (urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        urllib.request.build_opener(*handlers).open(request, timeout=30).close()
    except urllib.error.HTTPError as error:
        raise RefusedError(json.loads(error.read())["message"]) from None


def apply(cluster: Cluster, rendered: Rendered) -> None:
    for documents in (rendered.crds, rendered.rights):
        cluster.kubectl(
            *("apply", "--server-side", "--force-conflicts", "-f", "-"),
            input=yaml.safe_dump_all(documents),
        )


def policies_of(rendered: Rendered) -> list[dict[str, Any]]:
    return [one for one in rendered.rights if one["kind"].startswith("ValidatingAdmission")]


@pytest.fixture(scope="module")
def guarded(
    cluster: Cluster, api: Api, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    skip_before_1_30(api, POLICIES_ARE_BETA)
    word = secrets.token_hex(3)
    homes = [f"first-{word}", f"second-{word}"]
    charts = [render(cluster.helm, namespace=home, policy=True) for home in homes]
    for home, rendered in zip(homes, charts, strict=True):
        api.create("/api/v1/namespaces", {"metadata": {"name": home}})
        apply(cluster, rendered)
        wait_in_force(cluster, home, policies_of(rendered)[0]["metadata"]["name"])
        if home == homes[0]:  # or nobody could tell by which of both the second one's probe fails
            unbind(cluster, rendered)
    apply(cluster, charts[0])
    account = f"system:serviceaccount:{homes[1]}:{charts[1].service_account}"
    led = cluster.kubeconfig_for_service_account(homes[0], charts[0].service_account)
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    with OperatorProcess(led, log, settings=settings(charts[0])) as operator:
        operator.wait_ready()
        admin = Path(cluster.environment()["KUBECONFIG"])
        second = Person(cluster, account)
        yield Guarded(cluster, api, homes[0], charts[0], second, operator, admin)
        assert operator.stop() == 0
    for home, rendered in zip(homes, charts, strict=True):
        unbind(cluster, rendered)
        uninstall(cluster, home)


def unbind(cluster: Cluster, rendered: Rendered) -> None:
    for manifest in policies_of(rendered):
        cluster.kubectl("delete", manifest["kind"], manifest["metadata"]["name"])


def wait_in_force(cluster: Cluster, namespace: str, name: str) -> None:
    """A policy takes effect a moment after it was made."""
    prober = f"prober-{namespace}"
    bind = ("create", "rolebinding", "prober", "-n", namespace, "--clusterrole=edit")
    cluster.kubectl(*bind, f"--user={prober}")

    def refused() -> bool:
        try:
            Person(cluster, prober).create(config_map(namespace, "probe", marked=True))
        except RefusedError as error:
            return name in str(error)
        cluster.kubectl("delete", "configmap", "probe", "-n", namespace)
        return False

    until(refused, f"the policy {name} is in force", SECONDS)


@pytest.fixture
def place(guarded: Guarded, namespace: Callable[..., str]) -> str:
    """A namespace of its own for a test; alice may edit there."""
    name = namespace("place")
    guarded.person("alice", name)
    return name


@pytest.fixture
def alice(guarded: Guarded, place: str) -> Person:
    return Person(guarded.cluster, "alice")


@pytest.fixture
def copied(guarded: Guarded, place: str, namespace: Callable[..., str]) -> Iterator[str]:
    """A Secret `app` that the operator has copied to `place`; its rule's name."""
    user, word = User(guarded.api), place
    user.create("secrets", guarded.home, word, data={"password": "aHVudGVyMg=="})
    source = {"kind": "Secret", "name": word}
    transform = {"name": "app"}
    spec = {"source": source, "transform": transform, "targets": {"namespaces": [place]}}
    user.rule(guarded.home, word, spec)
    user.wait_ready(guarded.home, word, SECONDS)
    yield word
    user.delete("copyrators", guarded.home, word)


def test_the_api_server_finds_no_fault_with_the_expressions(guarded: Guarded):
    name = policies_of(guarded.rendered)[0]["metadata"]["name"]

    def checked() -> dict[str, Any]:
        status: dict[str, Any] = guarded.api.get(f"{POLICIES}/{name}").get("status") or {}
        return status if "observedGeneration" in status else {}

    status = until(checked, "the policy is checked", SECONDS)
    assert status["typeChecking"] == {}, "the expressions have faults"


def test_it_knows_every_mark_that_a_copy_can_carry(guarded: Guarded):
    (policy, _binding) = policies_of(guarded.rendered)
    keys = next(one for one in policy["spec"]["variables"] if one["name"] == "keys")
    for key in OUR_KEYS - {names.LABEL_MANAGED_BY}:
        assert repr(key) in keys["expression"]
    said = json.dumps(policy["spec"])
    assert f"'{names.LABEL_MANAGED_BY}'" in said
    assert f"f.manager == '{names.FIELD_MANAGER}'" in said


# --- refused, with the cure -----------------------------------------------------------------------


def test_an_exported_copy_cant_be_applied_elsewhere(guarded, alice, place, copied, namespace):
    elsewhere = namespace("elsewhere")
    guarded.person("alice", elsewhere)
    exported = yaml.safe_load(alice.kubectl("get", "secret", "app", "-n", place, "-o", "yaml"))
    metadata = exported["metadata"]
    metadata["namespace"] = elsewhere
    for key in ("resourceVersion", "uid", "creationTimestamp"):
        del metadata[key]
    with pytest.raises(RefusedError) as error:
        alice.kubectl("apply", "-f", "-", input=yaml.safe_dump(exported))
    said = str(error.value)
    assert f"Secret {elsewhere}/app would carry marks" in said
    assert (
        "Leave these annotations and the label app.kubernetes.io/managed-by: copyrator out" in said
    )
    del metadata["labels"][names.LABEL_MANAGED_BY]
    metadata["annotations"] = {}
    assert "created" in alice.kubectl("apply", "-f", "-", input=yaml.safe_dump(exported))


def test_a_backup_cant_be_restored_without_the_verb_and_can_be_with_it(
    guarded, alice, place, copied
):
    show = ("get", "secret", "app", "-n", place, "-o", "yaml", "--show-managed-fields")
    stored = yaml.safe_load(alice.kubectl(*show))
    for key in ("resourceVersion", "uid"):
        del stored["metadata"][key]
    stored["metadata"]["name"] = "restored"
    with pytest.raises(RefusedError, match="restores backups needs the verb mark"):
        alice.create(stored)
    cluster = guarded.cluster
    role = ("create", "role", "restores", "-n", place, "--verb=mark")
    cluster.kubectl(*role, "--resource=copyrators.flant.com")
    bind = ("create", "rolebinding", "restores", "-n", place, "--role=restores", "--user=alice")
    cluster.kubectl(*bind)
    until(lambda: passes(lambda: alice.create(stored)), "alice may restore", SECONDS)


def passes(act: Callable[[], object]) -> bool:
    try:
        act()
    except RefusedError:
        return False
    return True


def test_an_edit_in_the_operators_name_is_refused(alice, place, copied):
    with pytest.raises(RefusedError, match="choose another --field-manager") as error:
        alice.patch("secret", f"{place}/app", {"data": {"password": "ZXZpbA=="}}, OURS)
    assert f"Secret {place}/app" in str(error.value)
    alice.create(config_map(place, "plain", a="1"))
    with pytest.raises(RefusedError, match="choose another --field-manager"):
        alice.patch("configmap", f"{place}/plain", {"data": {"a": "2"}}, OURS)
    with pytest.raises(RefusedError, match="choose another --field-manager"):
        alice.create(config_map(place, "another", a="1"), options=(OURS,))


def test_so_is_one_by_a_client_that_is_only_called_like_the_operator(guarded, place):
    """Without a field manager the API server takes the name before the slash of the User-Agent."""
    guarded.cluster.kubectl("create", "serviceaccount", "bot", "-n", place)
    bot = f"system:serviceaccount:{place}:bot"
    guarded.person(bot, place)
    token = guarded.cluster.kubectl("create", "token", "bot", "-n", place).strip()
    body = config_map(place, "called", a="1")
    with pytest.raises(RefusedError, match="field manager copyrator"):
        raw(guarded.cluster, token, f"/api/v1/namespaces/{place}/configmaps", body)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param({}, {"labels": LABELS, "annotations": MARKS}, id="all at once"),
        pytest.param({"labels": LABELS}, {"annotations": MARKS}, id="the label first"),
        pytest.param({"annotations": MARKS}, {"labels": LABELS}, id="the annotations first"),
        pytest.param(
            {}, {"labels": LABELS, "annotations": {names.ANN_REFERENCES: "x"}}, id="only one"
        ),
    ],
)
def test_marks_cant_be_put_on_step_by_step(alice, place, before, after):
    plain = config_map(place, "plain")
    plain["metadata"] |= before
    alice.create(plain)
    with pytest.raises(RefusedError, match="would carry marks"):
        alice.patch("configmap", f"{place}/plain", {"metadata": after})


@pytest.mark.parametrize("key", sorted(MARKS))
def test_a_mark_of_a_copy_cant_be_changed(alice, place, copied, key):
    with pytest.raises(RefusedError, match="would carry marks"):
        alice.patch("secret", f"{place}/app", {"metadata": {"annotations": {key: "other/rule"}}})


def test_the_operators_entry_in_managed_fields_cant_be_forged(guarded, alice, place):
    """What she edited under her own name is to look like the operator's, which nobody heals."""
    guarded.second.create(config_map(place, "theirs", marked=True, a="1"), options=(OURS,))
    alice.patch("configmap", f"{place}/theirs", {"data": {"a": "evil", "b": "evil"}})

    def claimed(**change: Any) -> str:
        show = ("get", "configmap", "theirs", "-n", place, "-o", "yaml", "--show-managed-fields")
        live = yaml.safe_load(alice.kubectl(*show))
        entries = live["metadata"]["managedFields"]
        (ours,) = (one for one in entries if one["manager"] == names.FIELD_MANAGER)
        live["metadata"]["managedFields"] = [ours | change]
        return alice.kubectl("replace", "-f", "-", input=yaml.safe_dump(live))

    fields = {"f:data": {"f:a": {}, "f:b": {}}}
    with pytest.raises(RefusedError, match="in the name of the field manager"):
        claimed(fieldsV1=fields)
    with pytest.raises(RefusedError, match="in the name of the field manager"):
        claimed(time="2031-01-01T00:00:00Z")
    assert "replaced" in claimed(), "to take one's own entry away is no writing in its name"


# --- let pass -------------------------------------------------------------------------------------


def test_an_ordinary_edit_of_a_copy_passes_and_is_healed(guarded, alice, place, copied):
    def password() -> str:
        said = alice.kubectl("get", "secret", "app", "-n", place, "-o", "json")
        return str(json.loads(said)["data"]["password"])

    right = password()
    alice.patch("secret", f"{place}/app", {"data": {"password": "ZXZpbA==", "more": "eA=="}})
    until(lambda: password() == right, "the copy is healed", SECONDS)


def test_marks_may_be_taken_off_and_copies_deleted(alice, place, copied):
    for _ in range(2):
        off = {"metadata": {"annotations": {names.ANN_HASH: None}}}
        alice.patch("secret", f"{place}/app", off)
    alice.kubectl("label", "secret", "app", "-n", place, f"{names.LABEL_MANAGED_BY}-")
    alice.kubectl("delete", "secret", "app", "-n", place)


def test_what_isnt_marked_is_nobodys_business(alice, place):
    alice.create(config_map(place, "plain", a="1"))
    alice.patch("configmap", f"{place}/plain", {"data": {"a": "2"}})
    helm = {"metadata": {"labels": {names.LABEL_MANAGED_BY: "Helm"}}}
    alice.patch("configmap", f"{place}/plain", helm)
    alice.kubectl("delete", "configmap", "plain", "-n", place)


def test_dry_runs_pass(alice, place):
    marked = config_map(place, "dry", marked=True)
    assert "created" in alice.create(marked, options=("--dry-run=server", OURS))


def test_an_editor_may_plan(guarded, alice, place, tmp_path):
    user = User(guarded.api)
    user.create("configmaps", guarded.home, place, data={"a": "1"})
    cluster = guarded.cluster
    view = f"view-{place}"
    reads = ("--verb=get,list,watch", "--resource=*.*")
    cluster.kubectl("create", "clusterrole", view, *reads)
    cluster.kubectl("create", "clusterrolebinding", view, f"--clusterrole={view}", "--user=alice")
    rule = {
        "apiVersion": "flant.com/v1",
        "kind": "CopyratorRule",
        "metadata": {"name": place, "namespace": guarded.home},
        "spec": {
            "source": {"kind": "ConfigMap", "name": place},
            "targets": {"namespaces": [place]},
        },
    }
    file = tmp_path / "rule.yaml"
    file.write_text(yaml.safe_dump(rule))
    environment = {
        "KUBECONFIG": str(guarded.admin),
        "COPYRATOR_OPERATOR_NAMESPACE": guarded.home,
    }
    try:
        said = CliRunner().invoke(cli, ["plan", "-f", str(file), "--as", "alice"], env=environment)
        assert "1 to create" in said.output, said.output
    finally:
        cluster.kubectl("delete", "clusterrolebinding,clusterrole", view)


def test_a_second_installation_marks_its_own_copies(guarded, place):
    guarded.second.create(config_map(place, "theirs", marked=True, a="1"), options=(OURS,))
    change = {"data": {"a": "2"}, "metadata": {"annotations": {names.ANN_HASH: "v1:f"}}}
    guarded.second.patch("configmap", f"{place}/theirs", change, OURS)


def test_the_garbage_collector_takes_owners_off_marked_objects(guarded, place):
    path = f"/api/v1/namespaces/{place}/configmaps"
    owner = guarded.api.create(path, config_map(place, "owner"))
    theirs = config_map(place, "owned", marked=True)
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner"}
    theirs["metadata"]["ownerReferences"] = [{**reference, "uid": owner["metadata"]["uid"]}]
    guarded.api.create(path, theirs)
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Orphan"}
    guarded.api.delete(f"{path}/owner", options)
    until(
        lambda: "ownerReferences" not in guarded.api.get(f"{path}/owned")["metadata"],
        "the garbage collector has let it go",
        SECONDS,
    )


def test_controllers_of_the_cluster_write_marked_objects(guarded, place):
    """Of a quota its status, of a token's Secret its data, of the cluster's CA all."""
    api, path = guarded.api, f"/api/v1/namespaces/{place}"
    marks = {"labels": LABELS, "annotations": MARKS}
    quota = {"metadata": {"name": "quota", **marks}, "spec": {"hard": {"configmaps": "9"}}}
    api.create(f"{path}/resourcequotas", quota)
    api.create(f"{path}/serviceaccounts", {"metadata": {"name": "bot"}})
    token = {"metadata": {"name": "token", **marks}, "type": "kubernetes.io/service-account-token"}
    account = {"kubernetes.io/service-account.name": "bot"}
    token["metadata"]["annotations"] = MARKS | account  # type: ignore[index]
    api.create(f"{path}/secrets", token)
    authority = f"{path}/configmaps/kube-root-ca.crt"
    until(lambda: passes_api(lambda: api.get(authority)), "the cluster's CA is there", SECONDS)
    api.patch(authority, {"metadata": marks, "data": {"ca.crt": "gone"}})
    until(
        lambda: (
            "used" in api.get(f"{path}/resourcequotas/quota").get("status", {})
            and "token" in api.get(f"{path}/secrets/token").get("data", {})
            and api.get(authority)["data"]["ca.crt"] != "gone"
        ),
        "the quota is counted, the token there and the cluster's CA right",
        SECONDS,
    )


def passes_api(act: Callable[[], object]) -> bool:
    try:
        act()
    except ApiStatusError:
        return False
    return True


# --- the operator's own right ---------------------------------------------------------------------


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
        user.wait_reason(guarded.home, place, "PartialFailure", SECONDS)
        status = (user.get("copyrators", guarded.home, place) or {})["status"]
        assert [one["reason"] for one in status["failures"]] == ["AdmissionDenied"]
    user.wait_ready(guarded.home, place, SECONDS)
    user.delete("copyrators", guarded.home, place)


# --- doctor ---------------------------------------------------------------------------------------


def test_the_doctor_names_the_policy_and_finds_no_fault_where_it_is_missing(guarded):
    def said(home: str) -> str:
        environment = {"KUBECONFIG": str(guarded.admin), "COPYRATOR_OPERATOR_NAMESPACE": home}
        options = {"env": environment | {"COLUMNS": "200"}}
        output = CliRunner().invoke(cli, ["doctor"], **options).output
        (line,) = (one for one in output.splitlines() if "Admission policy" in one)
        return line

    name = policies_of(guarded.rendered)[0]["metadata"]["name"]
    assert said(guarded.home) == f"ok  Admission policy: {name} guards the marks of copies"
    assert said("kube-system").startswith("?   Admission policy: none of this installation")


# --- size -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [1000, 10_000])
def test_a_copy_of_many_keys_is_guarded_within_the_budget_of_the_expressions(
    guarded, alice, place, keys
):
    """managedFields name every key, twice as many as an object of this size usually has."""
    data = {f"key-{number}": "x" for number in range(keys)}
    guarded.second.create(config_map(place, "large", marked=True, **data), options=(OURS,))
    alice.patch("configmap", f"{place}/large", {"data": {"key-1": "y", "key-2": None}})
    with pytest.raises(RefusedError, match="choose another"):
        alice.patch("configmap", f"{place}/large", {"data": {"key-3": "y"}}, OURS)
    marks = {"annotations": {names.ANN_RULE: "other/rule"}}
    with pytest.raises(RefusedError, match="would carry marks"):
        alice.patch("configmap", f"{place}/large", {"metadata": marks})
    show = ("get", "configmap", "large", "-n", place, "-o", "yaml", "--show-managed-fields")
    live = yaml.load(alice.kubectl(*show), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    for entry in live["metadata"]["managedFields"]:
        if entry["manager"] == names.FIELD_MANAGER:
            entry["fieldsV1"]["f:data"]["f:key-1"] = {}
    with pytest.raises(RefusedError, match="in the name of the field manager"):
        alice.kubectl("replace", "-f", "-", input=json.dumps(live))


# --- the chart ------------------------------------------------------------------------------------


def test_it_can_be_switched_off_and_is_left_out_where_it_isnt_served(cluster):
    def found(policy: bool, **values: Any) -> list[dict[str, Any]]:
        chosen = {key.replace("__", "."): value for key, value in values.items()}
        return policies_of(render(cluster.helm, namespace="x", values=chosen, policy=policy))

    assert len(found(True)) == 2
    assert found(False) == []
    assert found(True, rules__admissionPolicy=False) == []


def test_two_installations_names_differ_and_nothing_of_a_cluster_fails_with_a_policy(cluster):
    rendered = [
        policies_of(render(cluster.helm, namespace=home, values=values, policy=True))
        for home in ("x", "y")
        for values in ({}, {"fullnameOverride": "second"})
    ]
    found = {policy["metadata"]["name"] for pair in rendered for policy in pair}
    assert len(found) == len(rendered)
    for policy, binding in rendered:
        assert policy["spec"]["failurePolicy"] == "Ignore"
        assert binding["spec"]["policyName"] == policy["metadata"]["name"]


def test_it_is_about_the_kinds_of_rules_and_never_about_our_own(cluster):
    ours = ["CopyratorRule.flant.com", "Bundle.operator.werf.dev"]
    values = {"rules.kinds": ["Secret", "Ingress.networking.k8s.io/v1", *ours]}
    (policy, _) = policies_of(render(cluster.helm, namespace="x", values=values, policy=True))
    rules = policy["spec"]["matchConstraints"]["resourceRules"]
    assert [(one["apiGroups"], one["resources"]) for one in rules] == [
        ([""], ["secrets", "secrets/status"]),
        (["networking.k8s.io"], ["ingresses", "ingresses/status"]),
    ]
    only = {"rules.kinds": ours}
    assert policies_of(render(cluster.helm, namespace="x", values=only, policy=True)) == []


def test_in_some_namespaces_it_guards_these_only(cluster):
    values = {"watchNamespaces": ["one", "two"]}
    (_, binding) = policies_of(render(cluster.helm, namespace="x", values=values, policy=True))
    (chosen,) = binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
    assert chosen["values"] == ["one", "two"]
