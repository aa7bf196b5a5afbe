from types import SimpleNamespace

import pytest

from copyrator.api import names
from copyrator.api.keys import CopyKey
from copyrator.api.rule_spec import KeyTransform, Transform
from copyrator.api.selectors import Globs
from copyrator.copies.seal.sealing import Sealer
from copyrator.copies.sources.bindings import CopyRequest, DesiredCopy
from copyrator.copies.targets.content import (
    carry_on,
    copied_content,
    new_object,
    rendered_content,
)
from copyrator.copies.targets.namespaces import Namespace
from copyrator.copies.targets.ownership import Shapes
from copyrator.copies.targets.records import CopyRecord, Extras

SEALER = Sealer(b"k" * 32)
NO_TRANSFORM = Transform()
PLACE = CopyKey("secrets", "team-a", "creds")
SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {
        "name": "creds",
        "namespace": "default",
        "labels": {"app": "x", "app.kubernetes.io/managed-by": "Helm"},
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "{secret}",
            "note": "n",
        },
        "ownerReferences": [{"uid": "u"}],
        "finalizers": ["f"],
    },
    "type": "Opaque",
    "data": {"a": "YQ==", "b": "Yg=="},
    "status": {"never": "copied"},
}


def content(source=SECRET, transform=NO_TRANSFORM, rule="default/rule"):
    return copied_content(source, transform, rule=rule, sealer=SEALER)


def test_a_copy_holds_the_content_and_our_marks_and_nothing_of_the_sources_owners():
    body = new_object(content(), PLACE, "default/rule", SEALER)
    annotations = body["metadata"].pop("annotations")
    assert body == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "creds",
            "namespace": "team-a",
            "labels": {"app": "x", names.LABEL_MANAGED_BY: names.MANAGED_BY},
        },
        "type": "Opaque",
        "data": {"a": "YQ==", "b": "Yg=="},
    }
    seal = annotations.pop(names.ANN_HASH)
    assert SEALER.open(seal, "secrets", "team-a", "creds", "default/rule") == content().digest
    assert annotations == {
        "note": "n",
        names.ANN_RULE: "default/rule",
        names.ANN_SOURCE: "default/creds",
    }


@pytest.mark.parametrize(
    "change",
    [
        {"data": {"a": "YQ=="}},
        {"type": "kubernetes.io/tls"},
        {"immutable": True},
        {"metadata": {**SECRET["metadata"], "labels": {"app": "y"}}},
        {"metadata": {**SECRET["metadata"], "annotations": {"note": "m"}}},
    ],
)
def test_every_change_that_is_copied_changes_the_digest(change):
    assert content({**SECRET, **change}).digest != content().digest


@pytest.mark.parametrize(
    "change",
    [
        {"status": {}},
        {"metadata": {**SECRET["metadata"], "finalizers": []}},
        {"metadata": {**SECRET["metadata"], "resourceVersion": "7"}},
        {
            "metadata": {
                **SECRET["metadata"],
                "annotations": {"note": "n", "kubectl.kubernetes.io/restartedAt": "now"},
            }
        },
    ],
)
def test_no_other_change_does(change):
    assert content({**SECRET, **change}).digest == content().digest


def test_a_transform_is_applied():
    transform = Transform(keys=KeyTransform(include=Globs(("a",)), rename={"a": "z"}))
    assert content(transform=transform).payload["data"] == {"z": "YQ=="}


def test_a_service_accounts_tokens_stay_at_home():
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "x", "namespace": "y"},
        "secrets": [{"name": "token"}],
        "imagePullSecrets": [{"name": "pull"}],
    }
    assert content(account).payload == {"imagePullSecrets": [{"name": "pull"}]}


def test_a_templates_secret_is_hashed_as_the_api_server_keeps_it():
    def rendered(**fields):
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "n"}, **fields}
        return rendered_content(body, Transform(), rule="a/b", sealer=SEALER)

    made = rendered(stringData={"a": "x"}, data={"b": "eA=="})
    assert made.payload == {"data": {"a": "eA==", "b": "eA=="}, "type": "Opaque"}
    assert made.digest == rendered(data={"a": "eA==", "b": "eA=="}, type="Opaque").digest


def test_a_rendered_copy_has_all_that_the_template_says_and_our_marks():
    body = {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "n", "labels": {"a": "b"}, "annotations": {"note": "n"}},
        "spec": {"x": 1},
        "status": {},
    }
    made = rendered_content(body, Transform(), rule="a/b", sealer=SEALER)
    assert (made.api_version, made.kind, made.payload) == (
        "example.com/v1",
        "Thing",
        {"spec": {"x": 1}},
    )
    assert made.labels == {"a": "b", names.LABEL_MANAGED_BY: names.MANAGED_BY}
    assert made.annotations == {"note": "n", names.ANN_RULE: "a/b"}


def test_a_replacing_body_carries_on_what_others_put_there():
    extras = Extras(
        labels={"theirs": "l", "app": "older"},
        annotations={"theirs": "a"},
        finalizers=("example.com/hold",),
        owners=({"uid": "u"},),
    )
    body = new_object(content(), PLACE, "default/rule", SEALER)
    metadata = carry_on(body, extras, uid="the-uid", resource_version="7")["metadata"]
    assert metadata["uid"] == "the-uid"
    assert metadata["resourceVersion"] == "7"
    assert metadata["labels"]["theirs"] == "l"
    assert metadata["labels"]["app"] == "x", "what we want wins"
    assert metadata["annotations"]["theirs"] == "a"
    assert metadata["finalizers"] == ["example.com/hold"]
    assert metadata["ownerReferences"] == [{"uid": "u"}]


def shape(fields):
    entry = {"manager": "copyrator", "operation": "Update", "fieldsV1": fields}
    return Shapes().read([entry]).shape


def written(data=("a", "b"), labels=("app", names.LABEL_MANAGED_BY), **annotations):
    """The fields of a copy of SECRET as our write leaves them."""
    ours = {"note": {}, names.ANN_RULE: {}, names.ANN_SOURCE: {}, names.ANN_HASH: {}} | annotations
    return {
        "f:type": {},
        "f:data": {".": {}, **{f"f:{key}": {} for key in data}},
        "f:metadata": {
            "f:labels": {f"f:{key}": {} for key in labels},
            "f:annotations": {f"f:{key}": {} for key, kept in ours.items() if kept is not None},
        },
    }


def test_a_copy_is_undisturbed_while_all_that_we_wrote_is_ours():
    wanted = content()
    right = shape(written())
    for _ in range(2):
        assert wanted.is_undisturbed(right)
    assert not wanted.is_undisturbed(shape(written(data=("a",))))
    assert not wanted.is_undisturbed(shape(written(data=("a", "b", "c"))))
    assert not wanted.is_undisturbed(shape(written(labels=(names.LABEL_MANAGED_BY,))))
    for key in ("note", names.ANN_RULE, names.ANN_HASH):
        assert not wanted.is_undisturbed(shape(written(**{key: None})))
    assert wanted.is_undisturbed(right)


def test_a_copy_of_another_kind_may_have_more_fields():
    def fields(**more):
        return written() | {"f:data": {}, "f:type": {}, "f:spec": {"f:x": {}, **more}}

    wanted = content({**SECRET, "kind": "Thing", "spec": {"x": 1}})
    assert wanted.is_undisturbed(shape(fields(**{"f:y": {}})))
    assert not wanted.is_undisturbed(shape(written()))
    assert not content({**SECRET, "spec": {"x": 1}}).is_undisturbed(shape(fields(**{"f:y": {}})))


def record(digest, fields):
    return CopyRecord(
        uid="u",
        resource_version="1",
        owner="default/rule",
        digest=digest,
        shape=shape(fields),
    )


def test_a_copy_is_right_with_our_digest_and_undisturbed():
    wanted = content()
    binding = SimpleNamespace(undisturbed=lambda _namespace, found: wanted.is_undisturbed(found))

    def is_right(found):
        return CopyRequest(binding, DesiredCopy("x", wanted), Namespace("a")).is_right(found)

    assert is_right(record(wanted.digest, written()))
    assert not is_right(record(bytes(len(wanted.digest)), written()))
    assert not is_right(record(wanted.digest, written(data=("a",))))


BARE = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {
        "labels": {"app": "x", names.LABEL_MANAGED_BY: names.MANAGED_BY, "more": "l"},
        "annotations": {
            "note": "n",
            names.ANN_RULE: "default/rule",
            names.ANN_SOURCE: "default/creds",
            "more": "a",
        },
    },
    "type": "Opaque",
    "data": {"a": "YQ==", "b": "Yg=="},
    "status": {"any": "thing"},
}


@pytest.mark.parametrize(
    ("change", "held"),
    [
        ({}, True),
        ({"metadata": BARE["metadata"] | {"labels": {"app": "y"}}}, False),
        ({"metadata": BARE["metadata"] | {"labels": None}}, False),
        ({"metadata": BARE["metadata"] | {"annotations": {}}}, False),
        ({"metadata": None}, False),
        ({"data": {"a": "YQ=="}}, False),
        ({"data": {"a": "YQ==", "b": "Yg==", "c": ""}}, False),
        ({"type": "other"}, False),
        ({"immutable": True}, False),
        ({"immutable": None, "binaryData": {}}, True),
    ],
)
def test_a_secret_holds_a_content_when_it_has_all_of_it_and_no_more(change, held):
    assert content().is_held_by(BARE | change) is held


def test_an_empty_field_is_as_none():
    assert content({**SECRET, "binaryData": {}}).is_held_by(BARE)


@pytest.mark.parametrize(
    ("wanted", "found", "held"),
    [
        ({"x": 1}, {"x": 1, "y": 2}, True),
        ({"x": 1}, {"x": 2}, False),
        ({"x": 1}, {}, False),
        ({"x": 1}, None, False),
        ({"x": 1}, [1], False),
        ({"x": {"y": [1, 2]}}, {"x": {"y": [1, 2], "z": 3}}, True),
        ({"x": {"y": [1, 2]}}, {"x": {"y": [1, 2, 3]}}, False),
        ({"x": {"y": [1, 2]}}, {"x": {"y": [2, 1]}}, False),
        ({"x": [1]}, {"x": {"0": 1}}, False),
        ({"x": [{"a": 1}]}, {"x": [{"a": 1, "default": 2}]}, True),
        ({"x": [{"a": 1}]}, {"x": [{"a": 2}]}, False),
        ({"x": None, "y": "", "z": [], "w": {}}, {"other": 1}, True),
        ({"x": 0}, {}, False),
    ],
)
def test_an_object_of_another_kind_may_have_more_in_its_maps_and_not_in_its_lists(
    wanted, found, held
):
    thing = content({**SECRET, "kind": "Thing", "data": None, "type": None, "spec": wanted})
    assert thing.is_held_by({"metadata": BARE["metadata"], "spec": found}) is held
