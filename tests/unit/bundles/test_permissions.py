"""What werf says that a deploy's account lacks, and how the API server is asked about it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.replacing import replace

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import MAX_MISSING
from copyrator.bundles.fields import BundleDefaults, parse_bundle
from copyrator.bundles.jobs.rights import (
    VERBS,
    RequiredPermission,
    ServiceAccount,
    list_missing,
    read_refused,
    sentence,
)

WERF = ServiceAccount("team", "werf")


def test_an_access_review_of_a_subresource_and_of_a_group() -> None:
    assert RequiredPermission("app", "", "pods/log", ("get",)).attributes("get") == {
        "verb": "get",
        "resource": "pods",
        "subresource": "log",
        "namespace": "app",
    }
    assert RequiredPermission("", "apps", "deployments", ("get",)).attributes("get") == {
        "verb": "get",
        "resource": "deployments",
        "group": "apps",
    }


def test_the_account_is_who_the_api_server_takes_it_for() -> None:
    metadata = {"name": "shop", "namespace": "team"}
    fields = {"registry": "r.example.com", "repo": "a", "serviceAccountName": "deployer"}
    spec = parse_bundle({"metadata": metadata, "spec": fields}, BundleDefaults())
    assert isinstance(spec, BundleSpec)
    assert ServiceAccount.of(spec) == ServiceAccount("team", "deployer")
    assert WERF.user == "system:serviceaccount:team:werf"
    assert WERF.groups == (
        "system:serviceaccounts",
        "system:serviceaccounts:team",
        "system:authenticated",
    )


FORBIDDEN = (
    'secrets is forbidden: User "system:serviceaccount:{}" cannot {} resource "{}" in API group '
    '"{}" {}'
)
HERE = 'in the namespace "team"'
CLUSTER = "at the cluster scope"


def words(
    user: str = "team:werf",
    verb: str = "list",
    resource: str = "secrets",
    group: str = "",
    where: str = HERE,
) -> str:
    return FORBIDDEN.format(user, verb, resource, group, where)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (words(), RequiredPermission("team", "", "secrets", ("list",))),
        (
            f"Error: get release history: {words()}\n",
            RequiredPermission("team", "", "secrets", ("list",)),
        ),
        (
            words(verb="create", resource="deployments", group="apps"),
            RequiredPermission("team", "apps", "deployments", ("create",)),
        ),
        (
            words(verb="get", resource="pods/log"),
            RequiredPermission("team", "", "pods/log", ("get",)),
        ),
        (
            words(verb="create", resource="namespaces", where=CLUSTER),
            RequiredPermission("", "", "namespaces", ("create",)),
        ),
    ],
)
def test_werfs_words_name_the_missing_permission(text: str, wanted: RequiredPermission) -> None:
    assert read_refused(text, WERF) == (wanted,)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Error: render chart: no such value",
        words(user="team:other"),
        words(user="kube-system:werf"),
        words(verb="escalate"),
        words(verb="*"),
        words(resource="*"),
        words(resource="secrets/*"),
        words(resource='a"b'),
        words(group="*"),
        words(group="a" * 300),
        words(resource="a" * 100),
        words(where='in the namespace "*"'),
        words(where='in the namespace ""'),
        words(where="somewhere"),
        words(where='in the namespace "team\n"'),
        "x" * 10_000 + words(),
        'secrets "a" is forbidden: exceeded quota',
    ],
)
def test_other_words_name_none(text: str) -> None:
    assert read_refused(text, WERF) == ()


def test_several_verbs_on_one_resource_are_one_entry() -> None:
    text = "; ".join(words(verb=verb) for verb in ("list", "get", "list"))
    assert read_refused(text, WERF) == (RequiredPermission("team", "", "secrets", ("get", "list")),)


def test_each_resource_is_an_entry_and_other_accounts_are_passed_over() -> None:
    text = "; ".join((words(user="team:other"), words(), words(resource="pods"), words()))
    assert read_refused(text, WERF) == (
        RequiredPermission("team", "", "secrets", ("list",)),
        RequiredPermission("team", "", "pods", ("list",)),
    )


def test_that_the_namespace_could_not_be_created_either_is_not_the_cause() -> None:
    lock = words(verb="create", resource="configmaps")
    space = words(verb="create", resource="namespaces", where=CLUSTER)
    assert read_refused(f"{lock}; {space}", WERF) == (
        RequiredPermission("team", "", "configmaps", ("create",)),
    )


@given(st.text(max_size=2000))
def test_no_text_is_misread(text: str) -> None:
    for one in read_refused(f"{words()} {text}", WERF):
        assert set(one.verbs) <= set(VERBS)
        assert re.fullmatch("[a-z0-9/-]+", one.resource)
    long = " ".join(words(where=f'in the namespace "n{number}"') for number in range(500))
    assert len(read_refused(long, WERF)) <= MAX_MISSING


def test_one_sentence_says_it_everywhere() -> None:
    missing = list_missing(
        [
            RequiredPermission("team", "apps", "deployments", ("create", "patch")),
            RequiredPermission("", "", "namespaces", ("get",)),
        ]
    )
    assert sentence(WERF, missing) == (
        "the service account team/werf cannot get namespaces in all namespaces; "
        "create, patch deployments.apps in team"
    )
    assert replace(missing[0], namespace="x") != missing[0]
