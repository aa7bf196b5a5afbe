"""Real adversaries, which change a copy back each time that the operator writes it."""

import os
import threading
import time
from contextlib import contextmanager, suppress

from click.testing import CliRunner
from tests.e2e.copies.conftest import copying
from tests.e2e.operator_process import until

from copyrator.cli import cli
from localcluster.api import ApiStatusError

MOST = 9
"""Writes in the half minute that this takes: three, and after 1, 3, 7, 15 and 31 s; the first."""


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


def writes(operator, since, target, resource):
    found = operator.writes(since, at=(target,))
    return [event.verb for event in found if event.resource == resource]


def test_a_fight_takes_few_writes_and_the_rule_says_with_whom(wide, api, user, namespace, word):
    source, target, calm = namespace(f"{word}-s"), namespace(f"{word}-t"), namespace(f"{word}-c")
    home, since = wide.namespace, wide.cluster.audit_offset()
    user.create("configmaps", source, word, data={"key": "1"})
    spec = copying(
        source,
        word,
        target,
        calm,
        transform={"labels": {"add": {"config.openshift.io/inject-trusted-cabundle": "true"}}},
    )
    quota = {
        "template": {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": word},
            "spec": {"hard": {"pods": "10"}},
        },
        "targets": {"namespaces": [target]},
    }
    copy = user.path("configmaps", target, word)
    with (
        adversary(api, copy, "cluster-network-operator", inject),
        adversary(api, user.path("resourcequotas", target, word), "quota-controller", normalise),
    ):
        user.rule(home, word, spec)
        user.rule(home, f"{word}-q", quota)
        assert f"{target}/{word}" in user.wait_reason(home, word, "ConflictPersists")["message"]
        user.wait_reason(home, f"{word}-q", "ConflictPersists")
        # An event may show the fight before the write that reads who does what.
        injected = "the field manager cluster-network-operator changes data[ca-bundle.crt]"
        normalised = "the field manager quota-controller changes spec.hard.pods"
        until(lambda: injected in user.condition(home, word)["message"], injected)
        until(lambda: normalised in user.condition(home, f"{word}-q")["message"], normalised)
        began = time.monotonic()
        until(lambda: time.monotonic() > began + 8, "eight seconds of the fight are over")
        user.patch("configmaps", source, word, data={"key": "2"})
        user.wait_data("configmaps", calm, word, {"key": "2"}, 2)
        user.wait_data("configmaps", target, word, {"key": "2", "ca-bundle.crt": "PEM"})
        assert len(writes(wide, since, target, "configmaps")) <= MOST
        assert 5 <= len(writes(wide, since, target, "resourcequotas")) <= MOST
        assert user.condition(home, word)["status"] == "False"
        said = type_why(wide, target, word)
        assert "ConflictPersists" in said
        assert "cluster-network-operator" in said
        user.delete("copyrators", home, word)
        user.wait_gone("configmaps", target, word, 3)
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
