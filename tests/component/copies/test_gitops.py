"""What Argo CD and Flux make of rules, by the statuses that the operator writes."""

from tests.component.copies.conftest import HOME, by_name, edit_rule, make_rule, reason
from tests.component.kube.fake_api import until
from tests.gitops import argocd, flux


def rule(cluster):
    return cluster.found("copyrators", HOME, "rule")


def health(cluster):
    """The health in Argo CD, in Flux by kstatus, and there by the expressions."""
    return argocd(rule(cluster))[0], flux(rule(cluster), by_exprs=False), flux(rule(cluster))


async def test_a_rule_is_healthy_degraded_or_suspended(cluster, operator):
    cluster.namespace("team-a")
    make_rule(cluster, "rule", by_name("app"))
    await until(lambda: reason(cluster) == "SourceNotFound")
    assert health(cluster) == ("Degraded", "InProgress", "InProgress")
    assert argocd(rule(cluster))[1] == f"SourceNotFound: there is no ConfigMap app in {HOME}"

    cluster.object("configmaps", HOME, "app", data={"key": "value"})
    await until(lambda: reason(cluster) == "Synced")
    assert health(cluster) == ("Healthy", "Current", "Current")

    edit_rule(cluster, suspend=True)
    await until(lambda: reason(cluster) == "Suspended")
    assert health(cluster) == ("Suspended", "Current", "Current")
    edit_rule(cluster, suspend=False, mode="Plan")
    await until(lambda: reason(cluster) == "Planned")
    assert health(cluster) == ("Suspended", "InProgress", "Current")
    edit_rule(cluster, mode="Apply", limit="x")
    await until(lambda: reason(cluster) == "InvalidSpec")
    assert health(cluster) == ("Degraded", "Failed", "Failed")
