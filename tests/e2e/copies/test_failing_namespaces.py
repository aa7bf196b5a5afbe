"""Namespaces that refuse their copy, each for a real reason: the others don't notice.

When each is tried again: tests/component/copies/test_copying.py; what other answers mean:
tests/unit/kube/test_answers.py; what a missing right does: tests/e2e/rights.
"""

import pytest
from tests.e2e.conftest import POLICIES_ARE_BETA, skip_before_1_30
from tests.e2e.copies.conftest import copying
from tests.e2e.operator_process import until

GROUP = "/apis/admissionregistration.k8s.io/v1"
TARGETS = 5


def policy(user, namespace, word):
    """A policy of the cluster says no to this namespace."""
    skip_before_1_30(user.api, POLICIES_ARE_BETA)
    label(user, namespace, word)
    rules = [
        {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["configmaps"],
        }
    ]
    spec = {
        "matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": "false", "message": "not here"}],
    }
    binding = {
        "policyName": word,
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": {"matchLabels": {"deny": word}}},
    }
    make(user, "validatingadmissionpolicies", word, spec=spec)
    make(user, "validatingadmissionpolicybindings", word, spec=binding)

    def lift():
        for plural in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
            user.api.delete(f"{GROUP}/{plural}/{word}")

    return lift


def webhook(user, namespace, word):
    """A webhook that can't be reached answers for this namespace."""
    label(user, namespace, word)
    hook = {
        "name": "hook.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["configmaps"],
            }
        ],
        "namespaceSelector": {"matchLabels": {"deny": word}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 1,
    }
    make(user, "validatingwebhookconfigurations", word, webhooks=[hook])
    return lambda: user.api.delete(f"{GROUP}/validatingwebhookconfigurations/{word}")


def label(user, namespace, word):
    labels = {"metadata": {"labels": {"deny": word}}}
    user.api.patch(f"/api/v1/namespaces/{namespace}", labels)


def make(user, plural, name, **fields):
    user.api.create(f"{GROUP}/{plural}", {"metadata": {"name": name}, **fields})


def wait_refused(user, namespace):
    """Until the API server knows of what it shall refuse: it takes it from watches of its own."""

    def refused():
        try:
            user.create("configmaps", namespace, "try", data={})
        except Exception:
            return True
        user.delete("configmaps", namespace, "try")
        return False

    until(refused, "creating is refused")


@pytest.mark.parametrize(
    ("refuse", "reason", "told"),
    [
        (policy, "AdmissionDenied", "not here"),
        (webhook, "Error", "hook.example.com"),
    ],
)
def test_a_namespace_that_refuses_its_copy_is_shown_and_is_alone_with_it(
    operator, user, namespace, word, refuse, reason, told
):
    source, bad = namespace("source"), namespace(f"{word}-bad")
    good = [namespace(f"{word}-good") for _ in range(TARGETS)]
    user.create("configmaps", source, word, data={"key": "value"})
    until(lambda: user.get("configmaps", bad, "kube-root-ca.crt"), "the namespace is set up")
    lift = refuse(user, bad, word)
    try:
        wait_refused(user, bad)
        since = operator.cluster.audit_offset()
        user.rule(operator.namespace, word, copying(source, word))
        user.wait_failing(operator.namespace, word)
        for place in good:
            user.wait_data("configmaps", place, word, {"key": "value"})

        def counted():
            status = user.get("copyrators", operator.namespace, word)["status"]
            return status if status["copies"]["ready"] == TARGETS else None

        status = until(counted, "all the others are right")
        assert status["copies"]["failed"] == 1
        (failure,) = status["failures"]
        assert (failure["namespace"], failure["reason"]) == (bad, reason)
        assert told in failure["message"]
        writes = [e.namespace for e in operator.writes(since, at=(source, *good))]
        assert sorted(writes) == sorted(good)
    finally:
        lift()
    user.patch("configmaps", source, word, data={"key": "new"})
    user.wait_data("configmaps", bad, word, {"key": "new"})
    user.wait_ready(operator.namespace, word)
    user.delete("copyrators", operator.namespace, word)
    user.wait_gone("copyrators", operator.namespace, word)
