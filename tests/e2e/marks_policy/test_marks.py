"""The policy on a real API server: who may set the marks of copies, and who else may do what."""

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from tests.e2e.marks_policy.conftest import (
    LABELS,
    MARKS,
    OURS,
    Guarded,
    config_map,
    installed,
    passes,
    path_of,
    policies_of,
)
from tests.e2e.operator_process import until
from tests.e2e.person import RefusedError
from tests.long import LONG

from copyrator.api import names
from copyrator.cli import cli
from localcluster import Api, Cluster
from localcluster.api import ApiStatusError

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"


@pytest.fixture(scope="module")
def guarded(cluster: Cluster, api: Api) -> Iterator[Guarded]:
    """Without an operator."""
    with installed(cluster, api) as guarded:
        yield guarded


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


def test_the_api_server_finds_no_fault_with_the_expressions(guarded: Guarded):
    name = policies_of(guarded.rendered)[0]["metadata"]["name"]

    def checked() -> dict[str, Any]:
        status: dict[str, Any] = guarded.api.get(f"{POLICIES}/{name}").get("status") or {}
        return status if "observedGeneration" in status else {}

    status = until(checked, "the policy is checked")
    assert status["typeChecking"] == {}, "the expressions have faults"


# --- refused, with the cure -----------------------------------------------------------------------


def test_a_write_by_a_client_that_is_only_called_like_the_operator_is_refused(guarded, place):
    """Without a field manager the API server takes the name before the slash of the User-Agent."""
    accounts = f"/api/v1/namespaces/{place}/serviceaccounts"
    guarded.api.create(accounts, {"metadata": {"name": "bot"}})
    guarded.person(f"system:serviceaccount:{place}:bot", place)
    token = guarded.api.create(f"{accounts}/bot/token", {"spec": {}})["status"]["token"]
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
    with pytest.raises(RefusedError, match="must not have the marks"):
        alice.merge(path_of("configmaps", f"{place}/plain"), {"metadata": after})


def test_the_operators_entry_in_managed_fields_cant_be_forged(guarded, alice, place):
    """What she edited under her own name is to look like the operator's, which nobody heals."""
    guarded.ours.create(config_map(place, "theirs", marked=True, a="1"), manager=OURS)
    alice.merge(path_of("configmaps", f"{place}/theirs"), {"data": {"a": "evil", "b": "evil"}})

    def claimed(**change: Any) -> Any:
        live = alice.get(path_of("configmaps", f"{place}/theirs"))
        entries = live["metadata"]["managedFields"]
        (ours,) = (one for one in entries if one["manager"] == names.FIELD_MANAGER)
        live["metadata"]["managedFields"] = [ours | change]
        return alice.replace(live)

    fields = {"f:data": {"f:a": {}, "f:b": {}}}
    with pytest.raises(RefusedError, match="must not be written with the field manager"):
        claimed(fieldsV1=fields)
    with pytest.raises(RefusedError, match="must not be written with the field manager"):
        claimed(time="2031-01-01T00:00:00Z")
    assert claimed(), "to take one's own entry away is no writing in its name"


@pytest.mark.parametrize("keys", [1000, 10_000] if LONG else [10_000])
def test_a_copy_of_many_keys_is_guarded_within_the_budget_of_the_expressions(
    guarded, alice, place, keys
):
    """managedFields name every key, twice as many as an object of this size usually has."""
    data = {f"key-{number}": "x" for number in range(keys)}
    guarded.ours.create(config_map(place, "large", marked=True, **data), manager=OURS)
    alice.merge(path_of("configmaps", f"{place}/large"), {"data": {"key-1": "y", "key-2": None}})
    with pytest.raises(RefusedError, match="choose another"):
        alice.merge(path_of("configmaps", f"{place}/large"), {"data": {"key-3": "y"}}, manager=OURS)
    marks = {"annotations": {names.ANN_RULE: "other/rule"}}
    with pytest.raises(RefusedError, match="must not have the marks"):
        alice.merge(path_of("configmaps", f"{place}/large"), {"metadata": marks})
    live = alice.get(path_of("configmaps", f"{place}/large"))
    for entry in live["metadata"]["managedFields"]:
        if entry["manager"] == names.FIELD_MANAGER:
            entry["fieldsV1"]["f:data"]["f:key-1"] = {}
    with pytest.raises(RefusedError, match="must not be written with the field manager"):
        alice.replace(live)


# --- let pass -------------------------------------------------------------------------------------


def test_what_isnt_marked_is_nobodys_business(alice, place):
    alice.create(config_map(place, "plain", a="1"))
    alice.merge(path_of("configmaps", f"{place}/plain"), {"data": {"a": "2"}})
    helm = {"metadata": {"labels": {names.LABEL_MANAGED_BY: "Helm"}}}
    alice.merge(path_of("configmaps", f"{place}/plain"), helm)
    alice.delete(path_of("configmaps", f"{place}/plain"))


def test_dry_runs_pass(alice, place):
    marked = config_map(place, "dry", marked=True)
    assert alice.create(marked, manager=OURS, dryRun="All")


def test_a_second_installation_marks_its_own_copies(guarded, place):
    theirs = config_map(place, "theirs", marked=True, a="1")
    change = {"data": {"a": "2"}, "metadata": {"annotations": {names.ANN_HASH: "v1:f"}}}
    with installed(guarded.cluster, guarded.api, alone=False) as second:
        until(
            lambda: passes(lambda: second.ours.create(theirs, manager=OURS)),
            "its rights are known",
        )
        second.ours.merge(path_of("configmaps", f"{place}/theirs"), change, manager=OURS)


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
    until(lambda: passes(lambda: api.get(authority), ApiStatusError), "the cluster's CA is there")
    api.patch(authority, {"metadata": marks, "data": {"ca.crt": "gone"}})
    until(
        lambda: (
            "used" in api.get(f"{path}/resourcequotas/quota").get("status", {})
            and "token" in api.get(f"{path}/secrets/token").get("data", {})
            and api.get(authority)["data"]["ca.crt"] != "gone"
        ),
        "the quota is counted, the token there and the cluster's CA right",
    )


def test_the_doctor_names_the_policy_and_finds_no_fault_where_it_is_missing(guarded):
    def said(home: str) -> str:
        environment = {"KUBECONFIG": str(guarded.admin), "COPYRATOR_OPERATOR_NAMESPACE": home}
        options = {"env": environment | {"COLUMNS": "200"}}
        output = CliRunner().invoke(cli, ["doctor"], **options).output
        (line,) = (one for one in output.splitlines() if "Admission policy" in one)
        return line

    name = policies_of(guarded.rendered)[0]["metadata"]["name"]
    assert said(guarded.home) == f"ok   Admission policy: {name} protects the marks of copies"
    assert said("kube-system").startswith("?    Admission policy: not installed")
