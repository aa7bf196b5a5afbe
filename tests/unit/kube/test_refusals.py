"""What the API server's 403s say is missing."""

import pytest

from copyrator.kube.client.answers import from_answer
from copyrator.kube.errors import Forbidden, Permission, Refusal

USER = 'User "system:serviceaccount:copyrator:copyrator"'


def refusal(message, **details):
    error = from_answer(403, {"reason": "Forbidden", "message": message, "details": details})
    assert isinstance(error, Forbidden)
    return error.refusal


@pytest.mark.parametrize(
    ("message", "details", "expected", "said"),
    [
        (
            (
                f'secrets "a" is forbidden: {USER} cannot get resource "secrets" in API group "" '
                'in the namespace "team"'
            ),
            {"name": "a"},
            Refusal(Permission("", "secrets", "get"), "team", "a"),
            "get secrets in team",
        ),
        (
            (
                f'namespaces is forbidden: {USER} cannot list resource "namespaces" '
                'in API group "" at the cluster scope'
            ),
            {},
            Refusal(Permission("", "namespaces", "list")),
            "list namespaces in all namespaces",
        ),
        (
            (
                f'bundles.operator.werf.dev "b" is forbidden: {USER} cannot patch resource '
                '"bundles/status" in API group "operator.werf.dev" in the namespace "team": '
                "RBAC: role not found"
            ),
            {"name": "b"},
            Refusal(Permission("operator.werf.dev", "bundles/status", "patch"), "team", "b"),
            "patch bundles.operator.werf.dev/status in team",
        ),
    ],
)
def test_a_missing_right_is_read_in_rbacs_words(message, details, expected, said):
    found = refusal(message, **details)
    assert found == expected
    assert str(found) == said


def test_a_subresource_is_asked_for_apart():
    found = Refusal(Permission("operator.werf.dev", "bundles/status", "patch"), "team", "b")
    assert found.attributes["resource"] == "bundles"
    assert found.attributes["subresource"] == "status"


@pytest.mark.parametrize(
    "message",
    [
        'pods "x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true',
        (
            f'roles "r" is forbidden: {USER} is attempting to grant RBAC permissions '
            'not currently held: cannot get resource "x" in API group ""'
        ),
        "no",
    ],
)
def test_another_no_lacks_no_right(message):
    assert refusal(message) is None
