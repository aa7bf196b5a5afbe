"""Fields that the API server doesn't know: it drops them with a warning, and the status says so."""

from tests.component.copies.conftest import HOME, edit_rule, make_rule, reason, status_of
from tests.component.kube.fake_api import until

MESSAGE = (
    "the API server knows no field ingres and drops it: the copies are written without it. "
    "Correct spec.template, or the source"
)


def rule(cluster, *targets, **template):
    """Create or edit it; an edit keeps its status and finalizers."""
    template = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, **template}
    spec = {"template": template, "targets": {"namespaces": list(targets)}}
    if cluster.found("copyrators", HOME, "rule"):
        edit_rule(cluster, **spec)
    else:
        make_rule(cluster, "rule", spec)


def condition(cluster):
    return {one["type"]: one for one in status_of(cluster).get("conditions", ())}.get(
        "FieldsDropped"
    )


def stage(cluster, *names):
    cluster.unknown = frozenset({"ingres", "egres"})
    for name in names:
        cluster.namespace(name)


async def test_a_dropped_field_is_named_and_the_copy_is_written_with_one_request(cluster, operator):
    stage(cluster, "a", "b")
    rule(cluster, "a", "b", ingres=[1], data={"k": "v"})
    await until(lambda: condition(cluster), "the condition")
    assert reason(cluster) == "Synced"
    found = condition(cluster)
    assert (found["status"], found["reason"], found["message"]) == (
        "True",
        "UnknownField",
        MESSAGE,
    )
    assert status_of(cluster)["droppedFields"] == ["ingres"]
    assert sorted(verb for verb, _ in cluster.writes("configmaps")) == ["create", "create"]
    assert cluster.found("configmaps", "a", "x")["data"] == {"k": "v"}
    await operator.settled()
    assert [told[2] for told in operator.recorder.told if told[2] == "UnknownField"] == [
        "UnknownField"
    ]


async def test_the_condition_ends_when_the_field_is_corrected(cluster, operator):
    stage(cluster, "a")
    rule(cluster, "a", ingres=[1], egres=[2], data={"k": "v"})
    await until(lambda: status_of(cluster).get("droppedFields") == ["egres", "ingres"])
    assert "knows no fields egres, ingres and drops them" in condition(cluster)["message"]
    rule(cluster, "a", ingres=[1], data={"k": "v"})
    await until(lambda: status_of(cluster).get("droppedFields") == ["ingres"])
    rule(cluster, "a", data={"k": "v"})
    await until(lambda: condition(cluster) is None, "corrected")
    assert not status_of(cluster).get("droppedFields")
    assert reason(cluster) == "Synced"


async def test_an_edit_that_writes_nothing_leaves_the_condition(cluster, operator):
    stage(cluster, "a")
    rule(cluster, "a", ingres=[1])
    await until(lambda: condition(cluster), "the condition")
    rule(cluster, "a", "none-*", ingres=[1])
    generation = cluster.found("copyrators", HOME, "rule")["metadata"]["generation"]
    await until(lambda: status_of(cluster).get("observedGeneration") == generation)
    await operator.settled()
    assert condition(cluster)["status"] == "True"


async def test_metadata_that_copies_never_have_are_named_too(cluster, operator):
    """They aren't even sent; what kubectl writes into every file isn't named."""
    stage(cluster, "a")
    metadata = {"name": "x", "lables": {"a": "b"}, "creationTimestamp": None}
    make_rule(
        cluster,
        "rule",
        {
            "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata},
            "targets": {"namespaces": ["a"]},
        },
    )
    await until(lambda: status_of(cluster).get("droppedFields") == ["metadata.lables"])
