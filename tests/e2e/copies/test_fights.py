"""Real adversaries, which change a copy back each time that the operator writes it."""

import os
import threading
from contextlib import contextmanager, suppress

from click.testing import CliRunner
from tests.e2e.copies.conftest import copying
from tests.e2e.operator_process import until

from copyrator.cli import cli
from localcluster.api import ApiStatusError


@contextmanager
def adversary(api, path, manager, wrong):
    """A controller that looks every 10 ms; `wrong` returns its patch, or None where it has none."""
    end = threading.Event()

    def work():
        while not end.wait(0.01):
            with suppress(ApiStatusError):  # a conflict, or the copy is deleted
                if patch := wrong(api.get(path)):
                    api.request(
                        "PATCH",
                        path,
                        patch,
                        content_type="application/merge-patch+json",
                        parameters={"fieldManager": manager},
                    )

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def inject(copy):
    """As OpenShift's injector of the trusted CA."""
    done = "ca-bundle.crt" in copy["data"]
    return None if done else {"data": {"ca-bundle.crt": "PEM"}}


def normalise(copy):
    """As a controller that writes one of our fields in its own way."""
    done = copy["spec"]["hard"]["pods"] == "20"
    return None if done else {"spec": {"hard": {"pods": "20"}}}


def test_the_rule_says_with_whom_it_fights(wide, api, user, namespace, word):
    """What each write costs, and when the next one comes, is in tests/component/copies."""
    source, target, calm = namespace(f"{word}-s"), namespace(f"{word}-t"), namespace(f"{word}-c")
    home = wide.namespace
    user.create("configmaps", source, word, data={"key": "1"})
    quota = {
        "template": {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": word},
            "spec": {"hard": {"pods": "10"}},
        },
        "targets": {"namespaces": [target]},
    }
    with (
        adversary(api, user.path("configmaps", target, word), "cluster-network-operator", inject),
        adversary(api, user.path("resourcequotas", target, word), "quota-controller", normalise),
    ):
        user.rule(home, word, copying(source, word, target, calm))
        user.rule(home, f"{word}-q", quota)
        # An event may show the fight before the write that reads who does what.
        for name, change in (
            (word, r"cluster-network-operator changes data.ca-bundle\.crt"),
            (f"{word}-q", "quota-controller changes spec.hard.pods"),
        ):
            user.wait_reason(home, name, "ConflictPersists")
            said = f"the field manager {change}"
            until(lambda: said in user.condition(home, name)["message"], said)  # noqa: B023
        typed = ("-n", target, "get", "configmap", word, "-o", r"jsonpath={.data.ca-bundle\.crt}")
        until(lambda: wide.cluster.kubectl(*typed) == "PEM", "kubectl takes the path that is said")
        user.patch("configmaps", source, word, data={"key": "2"})
        user.wait_data("configmaps", calm, word, {"key": "2"})
        said = type_why(wide, target, word)
        assert "ConflictPersists" in said
        assert "cluster-network-operator" in said
        user.delete("copyrators", home, word)
        user.wait_gone("configmaps", target, word)
        until(lambda: warned(api, target), "the namespace's owners have a Warning")


def type_why(operator, namespace, name):
    variables = {
        **os.environ,
        "KUBECONFIG": str(operator.cluster.admin_kubeconfig),
        "COPYRATOR_OPERATOR_NAMESPACE": operator.namespace,
        "COLUMNS": "1000",
    }
    typed = ["why", f"{namespace}/{name}", "--kind", "ConfigMap"]
    return CliRunner().invoke(cli, typed, env=variables).output


def warned(api, namespace):
    found = api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")["items"]
    return [one for one in found if (one["type"], one["reason"]) == ("Warning", "ConflictPersists")]
