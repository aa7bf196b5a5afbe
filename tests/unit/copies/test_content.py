"""Content, metadata and transforms of copies."""

import pytest

from copyrator.api import names
from copyrator.api.keys import CopyKey
from copyrator.api.rule_spec import KeyTransform, LabelTransform, MetadataTransform, Transform
from copyrator.api.selectors import Globs
from copyrator.copies.seal.sealing import Sealer
from copyrator.copies.targets.content import (
    TransformError,
    carry_on,
    copied_annotations,
    copied_content,
    copied_labels,
    new_object,
    rendered_content,
    transform_data,
    transform_type,
)
from copyrator.copies.targets.ownership import Shapes
from copyrator.copies.targets.records import Extras

# --- What a copy holds, and what holds it ---------------------------------------------------------


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


# --- Labels and annotations -----------------------------------------------------------------------


def test_labels_are_removed_by_globs_and_added():
    transform = Transform(
        labels=LabelTransform(add={"new": "1"}, remove=Globs(("old-*", "gone"))),
        annotations=MetadataTransform(add={"note": "n"}, remove=Globs(("an*",))),
    )
    labels = copied_labels({"old-a": "", "gone": "", "stays": "yes"}, transform)
    assert labels == {"stays": "yes", "new": "1", names.LABEL_MANAGED_BY: names.MANAGED_BY}
    annotations = copied_annotations({"any": "x"}, transform, rule="a/b", origin=None)
    assert annotations == {"note": "n", names.ANN_RULE: "a/b"}


def test_too_many_labels_for_so_many_patterns_are_refused():
    labels = {f"{'key' * 60}-{number}": "x" for number in range(4_000)}
    patterns = tuple(f"*{number:04}-of-many-patterns-with-some-length" for number in range(1_000))
    remove = MetadataTransform(remove=Globs(patterns))
    with pytest.raises(TransformError, match="too many for so many patterns"):
        copied_labels(labels, Transform(labels=LabelTransform(remove=Globs(patterns))))
    with pytest.raises(TransformError, match="too many for so many patterns"):
        copied_annotations(labels, Transform(annotations=remove), rule="a/b", origin=None)


# --- What a transform makes of the content --------------------------------------------------------


CONTENT = {"data": {"a.crt": "1", "a.key": "2", "b": "3"}, "binaryData": {"c": "4"}, "type": "T"}


@pytest.mark.parametrize(
    ("keys", "data", "binary"),
    [
        (KeyTransform(), {"a.crt": "1", "a.key": "2", "b": "3"}, {"c": "4"}),
        (KeyTransform(include=Globs(("a.*",))), {"a.crt": "1", "a.key": "2"}, {}),
        (KeyTransform(exclude=Globs(("*.key",))), {"a.crt": "1", "b": "3"}, {"c": "4"}),
        (
            KeyTransform(include=Globs(("a.*", "c")), exclude=Globs(("a.key",))),
            {"a.crt": "1"},
            {"c": "4"},
        ),
        (KeyTransform(rename={"b": "bee"}), {"a.crt": "1", "a.key": "2", "bee": "3"}, {"c": "4"}),
        (
            KeyTransform(rename={"b": "c", "c": "b"}),
            {"a.crt": "1", "a.key": "2", "c": "3"},
            {"b": "4"},
        ),
        (KeyTransform(rename={"missing": "x"}), CONTENT["data"], CONTENT["binaryData"]),
    ],
)
def test_keys_are_chosen_and_renamed(keys, data, binary):
    assert transform_data(CONTENT, keys) == {"data": data, "binaryData": binary, "type": "T"}


@pytest.mark.parametrize("rename", [{"b": "a.crt"}, {"b": "c"}])
def test_a_collision_is_an_error_that_names_the_keys(rename):
    with pytest.raises(TransformError) as error:
        transform_data(CONTENT, KeyTransform(rename=rename))
    name = rename["b"]
    first, second = ("a.crt", "b") if name == "a.crt" else ("b", "c")
    assert str(error.value) == (
        f"the keys {first!r} and {second!r} would both be named {name!r}; leave one out in "
        "spec.transform.keys or rename it"
    )


def test_the_source_is_left_as_it_is():
    before = repr(CONTENT)
    transform_data(CONTENT, KeyTransform(include=Globs(("b",)), rename={"b": "z"}))
    assert repr(CONTENT) == before


def test_too_many_keys_for_so_many_patterns_are_refused_and_many_of_either_are_not():
    many = {"data": {f"{'key' * 60}-{number}": "x" for number in range(4_000)}}
    patterns = tuple(
        f"*{number:04}-of-many-patterns-with-some-length-to-it" for number in range(1_000)
    )
    for keys in (KeyTransform(exclude=Globs(patterns)), KeyTransform(include=Globs(patterns))):
        with pytest.raises(
            TransformError,
            match=r"4000 keys, too many .* in spec.transform; use fewer or shorter patterns$",
        ):
            transform_data(many, keys)
    transform_data(many, KeyTransform(exclude=Globs(patterns[:2])))
    transform_data(CONTENT, KeyTransform(exclude=Globs(patterns)))


def typed(type_: str | None, keys: tuple[str, ...], transform: Transform):
    content = {"data": dict.fromkeys(keys, "eA=="), **({"type": type_} if type_ else {})}
    return transform_type(content, "Secret", transform)


SOME_KEYS = Transform(keys=KeyTransform(include=Globs(("ca.crt",))))
OPAQUE = Transform(keys=SOME_KEYS.keys, type="Opaque")
REQUIRED = [
    ("kubernetes.io/tls", ("ca.crt",), "tls.crt and tls.key"),
    ("kubernetes.io/tls", ("ca.crt", "tls.crt"), "tls.key"),
    ("kubernetes.io/tls", ("tls.key",), "tls.crt"),
    ("kubernetes.io/tls", (), "tls.crt and tls.key"),
    ("kubernetes.io/dockerconfigjson", ("ca.crt",), ".dockerconfigjson"),
    ("kubernetes.io/dockercfg", ("ca.crt",), ".dockercfg"),
    ("kubernetes.io/ssh-auth", ("known_hosts",), "ssh-privatekey"),
    ("kubernetes.io/basic-auth", ("ca.crt",), "username or password"),
]


@pytest.mark.parametrize(("type_", "keys", "missing"), REQUIRED)
def test_keys_that_the_type_requires_and_are_not_copied_are_named_with_the_remedy(
    type_, keys, missing
):
    with pytest.raises(TransformError) as caught:
        typed(type_, keys, SOME_KEYS)
    assert str(caught.value) == (
        f"a Secret of the type {type_} must have {missing}; set spec.transform.type: Opaque, or "
        "copy the keys, too"
    )
    assert typed(type_, keys, OPAQUE)["type"] == "Opaque"


@pytest.mark.parametrize(
    ("type_", "keys"),
    [
        ("kubernetes.io/tls", ("tls.crt", "tls.key")),
        ("kubernetes.io/tls", ("tls.crt", "tls.key", "ca.crt")),
        ("kubernetes.io/dockerconfigjson", (".dockerconfigjson",)),
        ("kubernetes.io/basic-auth", ("password",)),
        ("kubernetes.io/basic-auth", ("username",)),
        ("Opaque", ("ca.crt",)),
        ("example.com/own", ()),
        (None, ("ca.crt",)),
    ],
)
def test_a_type_whose_keys_are_copied_stays(type_, keys):
    assert typed(type_, keys, SOME_KEYS).get("type") == type_


def test_a_type_that_the_copy_is_to_have_requires_its_keys_too():
    tls = Transform(type="kubernetes.io/tls")
    assert typed("Opaque", ("tls.crt", "tls.key"), tls)["type"] == "kubernetes.io/tls"
    with pytest.raises(TransformError, match=r"must have tls\.key;"):
        typed("Opaque", ("tls.crt",), tls)
