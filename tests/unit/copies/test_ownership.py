"""managedFields as the real API server writes them (docs/facts/writes.md)."""

import pytest

from copyrator.copies.targets.ownership import Shapes, is_ours_enough, is_ours_exactly

METADATA = {
    "f:labels": {".": {}, "f:app": {}, "f:app.kubernetes.io/managed-by": {}},
    "f:annotations": {".": {}, "f:copyrator.flant.com/rule": {}},
}
WANTED = {"data": {"a": "1", "b": "2"}, "type": "Opaque"}


def entry(fields, manager="copyrator", operation="Update", subresource=None):
    made = {"manager": manager, "operation": operation, "fieldsV1": fields}
    return made if subresource is None else {**made, "subresource": subresource}


def ours(*keys, **more):
    data = {".": {}, **{f"f:{key}": {} for key in keys}}
    return entry({"f:data": data, "f:type": {}, "f:metadata": METADATA, **more})


def theirs(**data):
    return entry({"f:data": {f"f:{key}": {} for key in data}}, manager="kubectl-edit")


@pytest.mark.parametrize(
    ("entries", "right"),
    [
        ([ours("a", "b")], True),
        ([ours("a"), theirs(b={})], False),  # somebody edited b
        ([ours("a", "b"), theirs(c={})], False),  # somebody added c
        ([ours("a")], False),  # somebody deleted b
        ([ours("a", "b", "c")], False),  # we wrote another content
        ([ours("a", "b"), theirs(b={})], True),  # somebody applied the same value
        ([ours("a", "b"), entry({"f:immutable": {}}, "kubectl")], False),
        ([ours("a", "b"), entry({"f:metadata": {"f:labels": {"f:x": {}}}}, "kubectl")], True),
        ([ours("a", "b"), entry({"f:status": {}}, "controller", subresource="status")], True),
        ([theirs(a={}, b={})], False),
        ([], False),
        ([entry(ours("a", "b")["fieldsV1"], operation="Apply")], False),
    ],
)
def test_drift_of_secrets_is_seen_without_their_data(entries, right):
    assert is_ours_exactly(WANTED, Shapes().read(entries).shape) is right


@pytest.mark.parametrize("data", [{}, {"data": {}}, {"data": None}])
def test_a_config_map_without_keys_is_right_without_fields(data):
    shape = Shapes().read([entry({"f:metadata": METADATA})]).shape
    assert is_ours_exactly(data, shape)


def test_labels_and_annotations_of_ours_are_known():
    shape = Shapes().read([ours("a")]).shape
    assert shape.owns_label("app")
    assert not shape.owns_label("other")
    assert shape.owns_annotation("copyrator.flant.com/rule")


def test_the_leaves_of_all_entries_that_arent_of_a_subresource_are_read():
    found = Shapes().read(
        [
            entry({"f:status": {"f:x": {}}}, "controller", subresource="status"),
            ours("a", **{"f:list": {".": {}, 'k:{"name":"n"}': {".": {}, "f:name": {}}}}),
            {"manager": "kubectl"},
            entry({"f:data": {".": {}, "f:a": {}, "f:b": {}}, "f:metadata": {}}, "kubectl"),
            entry({"f:metadata": {"f:finalizers": {".": {}, 'v:"x"': {}}}}, "kubectl"),
        ]
    )
    assert found.shape.ours == {
        "data\na",
        "type",
        "metadata\nlabels\napp",
        "metadata\nlabels\napp.kubernetes.io/managed-by",
        "metadata\nannotations\ncopyrator.flant.com/rule",
        'list\nk:{"name":"n"}\nname',
    }
    assert found.shape.foreign == {"data\nb"}
    assert found.others == {'metadata\nfinalizers\nv:"x"'}
    assert Shapes().read(None).shape.ours == frozenset()


def test_equal_shapes_are_one_object():
    shapes = Shapes()
    first, second = shapes.read([ours("a")]).shape, shapes.read([ours("a")]).shape
    assert first is second
    assert shapes.read([ours("b")]).shape is not first


def test_what_others_set_in_the_metadata_is_told():
    found = Shapes().read([ours("a"), entry({"f:metadata": {"f:labels": {"f:x": {}}}}, "kubectl")])
    assert found.others == {"metadata\nlabels\nx"}
    assert found.shape.foreign == frozenset()


POLICY = {"spec": {"podSelector": {}, "ingress": [{"from": []}], "policyTypes": ["Ingress"]}}
POLICY_FIELDS = {"f:spec": {"f:ingress": {}, "f:podSelector": {}, "f:policyTypes": {}}}
QUOTA = {"spec": {"hard": {"pods": "5", "cpu": "1"}}}
QUOTA_FIELDS = {"f:spec": {"f:hard": {".": {}, "f:pods": {}, "f:cpu": {}}}}
ACCOUNT = {"imagePullSecrets": [{"name": "ours"}], "automountServiceAccountToken": False}
ACCOUNT_FIELDS = {
    "f:automountServiceAccountToken": {},
    "f:imagePullSecrets": {".": {}, 'k:{"name":"ours"}': {}},
}
BINDING = {"roleRef": {"kind": "ClusterRole", "name": "edit"}, "subjects": [{"kind": "Group"}]}
BINDING_FIELDS = {"f:roleRef": {}, "f:subjects": {}}


@pytest.mark.parametrize(
    ("wanted", "fields", "foreign", "right"),
    [
        (POLICY, POLICY_FIELDS, {}, True),
        (
            POLICY,
            {"f:spec": {"f:podSelector": {}, "f:policyTypes": {}}},
            {"f:spec": {"f:ingress": {}}},
            False,
        ),
        (QUOTA, QUOTA_FIELDS, {}, True),
        (QUOTA, {"f:spec": {"f:hard": {"f:pods": {}}}}, {}, False),
        (QUOTA, QUOTA_FIELDS, {"f:spec": {"f:hard": {"f:memory": {}}}}, False),
        (ACCOUNT, ACCOUNT_FIELDS, {}, True),
        (ACCOUNT, ACCOUNT_FIELDS, {"f:secrets": {'k:{"name":"token"}': {}}}, True),
        (ACCOUNT, ACCOUNT_FIELDS, {"f:imagePullSecrets": {'k:{"name":"x"}': {}}}, True),
        (BINDING, BINDING_FIELDS, {}, True),
        (BINDING, {"f:roleRef": {}}, {"f:subjects": {}}, False),
        (QUOTA, {"f:spec": {}}, {}, True),  # a field that is owned whole
        (QUOTA, {"f:spec": {"f:hard": {}}}, {}, True),
        (QUOTA, {"f:specs": {"f:hard": {}}}, {}, False),
        ({"spec": {"x": "1"}}, {"f:spec": {"f:x": {"f:y": {}}}}, {}, True),  # a field below it
        ({"spec": {"x": "1"}}, {"f:spec": {"f:y": {"f:x": {}}}}, {}, False),
        ({"spec": {"x": "", "y": [], "z": {}, "n": None}}, {}, {}, True),
        ({"spec": {"list": [1]}}, {"f:spec": {"f:list": {"v:1": {}}}}, {}, True),
        (
            {"spec": {"list": ["a"]}},
            {"f:spec": {"f:list": {".": {}, 'v:"a"': {}}}},
            {"f:spec": {"f:list": {'v:"b"': {}}}},
            True,
        ),
        ({"f:x": "1"}, {"f:f:x": {}}, {}, True),  # a name that looks like a step
        ({}, {}, {"f:metadata": {}, "f:more": {}}, True),
        ({"metadata": 1}, {"f:metadata": {}}, {"f:metadata": {".": {}}}, True),
    ],
)
def test_other_kinds_let_controllers_add_what_is_theirs(wanted, fields, foreign, right):
    entries = [entry(fields), entry(foreign, "controller")]
    assert is_ours_enough(wanted, Shapes().read(entries).shape) is right
