"""Owners of target namespaces learn by an Event why a copy is missing; others learn nothing."""

from tests.component.copies.conftest import HOME, by_name, copy_app, counts, make_rule
from tests.component.kube.fake_api import error, until

from copyrator.api.reasons.rules import RuleEvent


def told(operator):
    """The Events in other namespaces than the rule's."""
    return [
        (ref.namespace, f"{ref.kind}/{ref.name}", kind, reason, message)
        for ref, kind, reason, message in operator.recorder.told
        if reason != RuleEvent.COPIES_CHANGED and ref.kind != "CopyratorRule"
    ]


async def test_a_refused_write_is_told_once_in_its_namespace(cluster, operator):
    for name in ("team-a", "team-b"):
        cluster.namespace(name)
    cluster.object("configmaps", HOME, "app", data={"key": "value"})

    async def refuse(request):
        if "/namespaces/team-a/" in request.path:
            return await error(403, "Forbidden", message="exceeded quota: small")(request)
        return await cluster.serve(request)

    cluster.always("create", refuse)
    make_rule(cluster, "rule", by_name("app"))
    await until(lambda: counts(cluster).get("failed") == 1)
    first = len(cluster.of("create"))
    await until(lambda: len(cluster.of("create")) >= first + 2)  # it is tried again
    assert told(operator) == [
        (
            "team-a",
            "ConfigMap/app",
            "Warning",
            "QuotaExceeded",
            f"the rule {HOME}/rule can't write this copy: exceeded quota: small",
        )
    ]


async def test_an_object_in_the_way_is_told(cluster, operator):
    cluster.namespace("team-a")
    cluster.object("configmaps", "team-a", "app", data={"key": "theirs"})
    copy_app(cluster)
    await until(lambda: told(operator))
    (one,) = told(operator)
    assert one[:4] == ("team-a", "ConfigMap/app", "Warning", "Conflict")


async def test_a_template_that_cant_be_rendered_is_told(cluster, operator):
    cluster.namespace("team-a")
    template = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "app"},
        "data": {"team": "{{ namespace.labels.team }}"},
    }
    targets = {"namespaces": ["team-*"]}
    make_rule(cluster, "rule", {"template": template, "targets": targets})
    await until(lambda: told(operator))
    (one,) = told(operator)
    assert (one[0], one[2], one[3]) == ("team-a", "Warning", "TemplateError")
