import pytest
from tests.builders.other_tools import COPIES, LAST_APPLIED

from copyrator.copies.targets.adoption import COPIERS, copier, kept_extras

TRACKING = "argocd.argoproj.io/tracking-id"
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1234"}
MARKED = {"kubed.appscode.com/origin": "{}"}
"""Of config-syncer."""


def managed(*parts, manager="tool"):
    """Fields under metadata as one manager wrote them."""
    fields = {}
    for part, keys in parts:
        fields[f"f:{part}"] = {key if key.startswith("k:") else f"f:{key}": {} for key in keys}
    return {"manager": manager, "operation": "Update", "fieldsV1": {"f:metadata": fields}}


@pytest.mark.parametrize("tool", COPIERS, ids=lambda tool: tool.name)
def test_each_tools_copies_are_known_and_lose_its_marks(tool):
    annotations = {**COPIES[tool.name]["annotations"]}
    annotations.pop(LAST_APPLIED, None)  # which isn't the tool's
    assert copier({"annotations": annotations}) is tool
    kept = kept_extras({"annotations": {**annotations, "theirs": "yes"}})
    assert kept.annotations == {"theirs": "yes"}


@pytest.mark.parametrize(
    "annotations",
    [
        {},
        {"replicator.v1.mittwald.de/replicate-to": "*"},
        {"replicator.v1.mittwald.de/replicate-from": "source/app"},
        {"reflector.v1.k8s.emberstack.com/reflects": "source/app"},
        {"reflector.v1.k8s.emberstack.com/reflection-auto-enabled": "true"},
        {"kubed.appscode.com/sync": ""},
    ],
)
def test_what_people_write_on_objects_of_their_own_makes_none_of_them_a_copy(annotations):
    assert copier({"annotations": annotations}) is None
    assert kept_extras({"annotations": annotations}).annotations == annotations


def test_labels_of_the_tools_go_too():
    for tool in ("config-syncer", "ClusterSecret"):
        made = COPIES[tool]
        metadata = {**made, "labels": {**made["labels"], "app": "x"}}
        assert kept_extras(metadata).labels == {"app": "x"}


def test_what_a_tool_should_never_have_copied_goes_and_what_others_put_there_stays():
    annotations = {**MARKED, LAST_APPLIED: "{…}", "team": "a"}
    copied = managed(("annotations", ["kubed.appscode.com/origin", LAST_APPLIED, "team"]))
    metadata = {"annotations": annotations, "managedFields": [copied]}
    assert kept_extras(metadata).annotations == {"team": "a"}
    tools = managed(("annotations", ["kubed.appscode.com/origin"]))
    theirs = managed(("annotations", [LAST_APPLIED, "team"]), manager="kubectl")
    metadata = {"annotations": annotations, "managedFields": [tools, theirs]}
    assert kept_extras(metadata).annotations == {LAST_APPLIED: "{…}", "team": "a"}


def test_of_labels_goes_what_the_tool_wrote_with_its_mark():
    labels = {"app.kubernetes.io/instance": "shop", "team": "a"}
    mark = ("annotations", ["kubed.appscode.com/origin"])
    for part, kept in ((("labels", [*labels]), {"team": "a"}), (("labels", ["team"]), labels)):
        metadata = {
            "labels": labels,
            "annotations": MARKED,
            "managedFields": [managed(mark, part)],
        }
        assert kept_extras(metadata).labels == kept


def test_owners_that_a_tool_copied_from_another_namespace_go():
    mark = "replicator.v1.mittwald.de/replicated-from-version"
    copied = managed(("annotations", [mark]), ("ownerReferences", ['k:{"uid":"1234"}']))
    metadata = {
        "annotations": COPIES["kubernetes-replicator"]["annotations"],
        "ownerReferences": [OWNER, {**OWNER, "uid": "5678"}],
        "managedFields": [copied],
    }
    assert [owner["uid"] for owner in kept_extras(metadata).owners] == ["5678"]


def test_of_an_object_that_no_tool_made_everything_stays():
    metadata = {
        "labels": {"app.kubernetes.io/instance": "theirs"},
        "annotations": {TRACKING: "theirs"},
        "ownerReferences": [OWNER],
        "finalizers": ["theirs/hold"],
        "managedFields": [managed(("annotations", [TRACKING]))],
    }
    kept = kept_extras(metadata)
    assert (kept.labels, kept.annotations) == (metadata["labels"], metadata["annotations"])
    assert (kept.owners, kept.finalizers) == ((OWNER,), ("theirs/hold",))


@pytest.mark.parametrize(
    ("mark", "owner"),
    [
        ("trust.cert-manager.io/hash", ("trust.cert-manager.io/v1alpha1", "Bundle")),
        ("trust-manager.io/hash", ("trust-manager.io/v1alpha2", "ClusterBundle")),
        ("", ("secretgen.carvel.dev/v1alpha1", "SecretImport")),
    ],
)
def test_the_owner_whose_deletion_would_delete_the_copies_goes_others_stay(mark, owner):
    """With trust-manager's own field manager, which applies them: without managedFields, too."""
    mine = {"apiVersion": owner[0], "kind": owner[1], "name": "x", "uid": "9", "controller": True}
    metadata = {
        "name": "x",
        "annotations": {mark: "1"} if mark else {},
        "ownerReferences": [mine, OWNER],
    }
    assert kept_extras(metadata).owners == (OWNER,)


@pytest.mark.parametrize(
    "change",
    [{"name": "y"}, {"controller": False}, {"kind": "SecretExport"}, {"apiVersion": "v1"}],
)
def test_another_owner_makes_no_copy_of_secretgen(change):
    owner = {
        "apiVersion": "secretgen.carvel.dev/v1alpha1",
        "kind": "SecretImport",
        "name": "x",
        "controller": True,
        **change,
    }
    assert copier({"name": "x", "ownerReferences": [owner]}) is None
