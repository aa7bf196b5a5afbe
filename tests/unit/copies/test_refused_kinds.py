"""The remedy for a kind that isn't allowed names its API group, which discovery knows."""

from types import SimpleNamespace

import pytest
from tests.targets import EVERYWHERE

from copyrator.api.rule_spec import parse_rule
from copyrator.copies.rules import ready_conditions
from copyrator.copies.rules.admission import name_group
from copyrator.kube import errors
from copyrator.kube.resources import Resource

UNNAMED = ready_conditions.kind_not_allowed("Deployment", None)
NONE = SimpleNamespace(allows=lambda _kind, _version: False)
"""Kinds: none is allowed."""


def of_kind(version):
    source = {"kind": "Deployment", "name": "a", **version}
    return parse_rule(
        {
            "metadata": {"name": "r", "namespace": "d"},
            "spec": {"source": source, "targets": EVERYWHERE},
        }
    )


def discovering(answer):
    async def resolve(_kind):
        if isinstance(answer, Exception):
            raise answer
        return answer

    return SimpleNamespace(resolve=resolve)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Resource("apps", "v1", "deployments", "Deployment"), "add Deployment.apps to the chart's"),
        (Resource("", "v1", "deployments", "Deployment"), "add Deployment to the chart's"),
        (errors.KindUnavailable("the cluster serves no kind Deployment"), "serves no kind"),
        (errors.AmbiguousKind("set apiVersion to a/v1 or b/v1"), "set apiVersion to"),
        (errors.Forbidden("no"), "add Deployment to the chart's"),
    ],
    ids=lambda one: getattr(one, "group", type(one).__name__) or "core",
)
async def test_the_group_is_the_one_that_the_cluster_serves(answer, said):
    found = await name_group(UNNAMED, of_kind({}), NONE, discovering(answer))  # type: ignore[arg-type]
    assert said in found.message
    assert found.reason == "KindUnavailable"


async def test_a_rule_that_names_its_group_needs_no_discovery():
    named = ready_conditions.kind_not_allowed("Deployment", "apps/v1")
    found = await name_group(named, of_kind({"apiVersion": "apps/v1"}), NONE, None)  # type: ignore[arg-type]
    assert found is named
    assert "add Deployment.apps to" in found.message
