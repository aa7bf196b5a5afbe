"""What stays of objects that are written by others, too."""

import pytest

from copyrator.api import names
from copyrator.copies.targets.ownership import Shapes, is_unchanged, merge_into, reference_marks


def shape(fields):
    entry = {"manager": names.FIELD_MANAGER, "operation": "Update", "fieldsV1": fields}
    return Shapes().read([entry]).shape


@pytest.mark.parametrize(
    ("live", "body", "ours", "merged"),
    [
        # What controllers add to an object stays.
        (
            {"secrets": [{"name": "t"}], "automountServiceAccountToken": True},
            {"automountServiceAccountToken": False},
            {"f:automountServiceAccountToken": {}},
            {"secrets": [{"name": "t"}], "automountServiceAccountToken": False},
        ),
        # What we wrote before and don't want any more goes.
        ({"old": 1}, {"new": 2}, {"f:old": {}}, {"new": 2}),
        # Of a list of references the items of others stay, and ours go.
        (
            {"imagePullSecrets": [{"name": "ours"}, {"name": "theirs"}]},
            {"imagePullSecrets": [{"name": "new"}]},
            {"f:imagePullSecrets": {'k:{"name":"ours"}': {}}},
            {"imagePullSecrets": [{"name": "theirs"}, {"name": "new"}]},
        ),
        # ... also where the API server has but one owner for the whole list.
        (
            {
                "metadata": {"annotations": {names.ANN_REFERENCES: "ours,more"}},
                "imagePullSecrets": [{"name": "ours"}, {"name": "theirs"}],
            },
            {"metadata": {}, "imagePullSecrets": [{"name": "new"}]},
            {"f:automountServiceAccountToken": {}},
            {"metadata": {}, "imagePullSecrets": [{"name": "theirs"}, {"name": "new"}]},
        ),
        # ... and where none of ours is wanted any more.
        (
            {
                "metadata": {"annotations": {names.ANN_REFERENCES: "ours"}},
                "imagePullSecrets": [{"name": "ours"}, {"name": "theirs"}],
            },
            {"metadata": {}},
            {"f:imagePullSecrets": {}},
            {"metadata": {}, "imagePullSecrets": [{"name": "theirs"}]},
        ),
        # Fields whose names begin alike are others.
        (
            {"spec": {"a": 1}, "spe": 1},
            {"new": 2},
            {"f:spec": {"f:a": {"f:b": {}}}},
            {"new": 2, "spe": 1},
        ),
        # A list of something else isn't merged.
        (
            {"imagePullSecrets": [{"name": "theirs", "x": "y"}]},
            {"imagePullSecrets": [{"name": "new"}]},
            {},
            {"imagePullSecrets": [{"name": "new"}]},
        ),
        (
            {"imagePullSecrets": ["theirs"]},
            {"imagePullSecrets": [{"name": "new"}]},
            {},
            {"imagePullSecrets": [{"name": "new"}]},
        ),
        (
            {"imagePullSecrets": [{"name": "theirs"}]},
            {"imagePullSecrets": "odd"},
            {},
            {"imagePullSecrets": "odd"},
        ),
        # Other lists of references have no annotation.
        (
            {
                "metadata": {"annotations": {names.ANN_REFERENCES: "kept"}},
                "secrets": [{"name": "kept"}, {"name": "ours"}],
            },
            {"metadata": {}, "secrets": [{"name": "new"}]},
            {"f:secrets": {'k:{"name":"ours"}': {}}},
            {"metadata": {}, "secrets": [{"name": "kept"}, {"name": "new"}]},
        ),
        # What is wanted and there already stays in its place, whoever wrote it.
        (
            {"secrets": [{"name": "b"}, {"name": "a"}, {"name": "ours"}]},
            {"secrets": [{"name": "a"}, {"name": "ours"}]},
            {"f:secrets": {'k:{"name":"ours"}': {}}},
            {"secrets": [{"name": "b"}, {"name": "a"}, {"name": "ours"}]},
        ),
        # Where nothing is left of our list it goes; an empty one that is wanted stays.
        ({"secrets": [{"name": "o"}]}, {}, {"f:secrets": {'k:{"name":"o"}': {}}}, {}),
        (
            {"secrets": [{"name": "o"}]},
            {"secrets": []},
            {"f:secrets": {'k:{"name":"o"}': {}}},
            {"secrets": []},
        ),
        # A status stays, even if a body has one.
        ({"status": 1}, {"status": 2}, {"f:status": {}}, {"status": 1}),
        # The status is its controller's.
        (
            {"status": {"used": 1}},
            {"spec": {}},
            {"f:spec": {}},
            {"spec": {}, "status": {"used": 1}},
        ),
    ],
)
def test_what_others_own_of_other_kinds_stays(live, body, ours, merged):
    assert merge_into(live, body, shape(ours)) == merged


def test_the_references_that_we_write_are_named_in_an_annotation():
    payload = {"imagePullSecrets": [{"name": "two"}, {"name": "one"}]}
    assert reference_marks(payload) == {names.ANN_REFERENCES: "one,two"}
    assert reference_marks({"imagePullSecrets": []}) == {}


def test_a_body_that_would_change_nothing_is_known():
    live = {"metadata": {"name": "x", "managedFields": [], "labels": {"a": "b"}}, "spec": 1}
    assert is_unchanged(live, {"metadata": {"labels": {"a": "b"}, "finalizers": []}, "spec": 1})
    assert not is_unchanged(live, {"metadata": {"labels": {"a": "b"}}, "spec": 2})
    assert not is_unchanged(live, {"metadata": {"labels": {}}, "spec": 1})
    assert not is_unchanged(live, {"metadata": {"labels": {"a": "b"}}})
    for part in ("annotations", "finalizers", "ownerReferences"):
        other = {"metadata": {"labels": {"a": "b"}, part: ["x"]}, "spec": 1}
        assert not is_unchanged(live, other)
