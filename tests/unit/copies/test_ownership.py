"""Who owns a copy: its records, claims, and objects that are taken over."""

import sys
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders.other_tools import COPIES, LAST_APPLIED

from copyrator.api import names
from copyrator.copies.seal.sealing import Sealer
from copyrator.copies.targets.adoption import COPIERS, copier, kept_extras
from copyrator.copies.targets.ownership import (
    ACCEPTED,
    Shapes,
    claimed_fields,
    is_ours_enough,
    is_ours_exactly,
    is_unchanged,
    merge_into,
    reference_marks,
)
from copyrator.copies.targets.reconciler import CopyWriter
from copyrator.copies.targets.records import (
    NO_EXTRAS,
    UNKNOWN,
    Copies,
    CopyRecord,
    Extras,
    RecordReader,
)
from copyrator.kube import errors

# --- managedFields as the real API server writes them (docs/facts/writes.md) ----------------------


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


# --- What becomes ours when an object is taken over -----------------------------------------------


BODY = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {
        "name": "x",
        "labels": {"app": "x"},
        "annotations": {"copyrator.flant.com/rule": "a/b"},
    },
    "data": {"key": "dmFsdWU="},
    "type": "Opaque",
}


def test_the_content_becomes_ours_and_others_keep_their_metadata():
    theirs = {
        "manager": "kubectl",
        "operation": "Apply",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:data": {"f:key": {}, "f:old": {}},
            "f:metadata": {"f:labels": {".": {}, "f:app": {}, "f:team": {}}},
        },
    }
    claimed = claimed_fields([theirs], BODY)
    assert claimed[0] == {
        **theirs,
        "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:team": {}}}},
    }
    found = Shapes().read(claimed)
    assert is_ours_exactly({"data": {"key": ""}, "type": "Opaque"}, found.shape)
    assert found.shape.owns_label("app")
    assert found.shape.owns_annotation("copyrator.flant.com/rule")
    assert found.others == {"metadata\nlabels\nteam"}


def test_who_keeps_nothing_is_left_out_and_subresources_stay():
    mine = {"manager": "copyrator", "operation": "Update", "fieldsV1": {"f:data": {"f:old": {}}}}
    gone = {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:data": {"f:key": {}}}}
    status = {"manager": "x", "operation": "Update", "subresource": "status", "fieldsV1": {}}
    claimed = claimed_fields([mine, gone, status], BODY)
    assert [entry["manager"] for entry in claimed] == ["x", "copyrator"]
    assert "f:old" not in claimed[1]["fieldsV1"]["f:data"]


def test_others_keep_what_we_dont_write_at_any_depth():
    def theirs(**metadata):
        return {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:metadata": metadata}}

    left = {"f:finalizers": {".": {}, 'v:"x"': {}}}
    found = claimed_fields(
        [
            {"manager": "empty"},
            theirs(**{"f:labels": {".": {}, "f:app": {}}}),
            theirs(**{"f:labels": {"f:app": {}, "f:team": {}}, "f:annotations": {".": {}}, **left}),
            theirs(**{".": {}}),
            theirs(**{"f:labels": {}}),
        ],
        BODY,
    )
    assert found[:-1] == [theirs(**{"f:labels": {"f:team": {}}, **left})]


# --- What stays of objects that are written by others, too ----------------------------------------


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
        # A list of something else isn't merged.
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


# --- What is remembered of a copy -----------------------------------------------------------------


SEALER = Sealer(b"k" * 32)
DIGEST = SEALER.digest({"data": "x"})
UID = "7c1f1c6e-4d5b-4f0e-9a53-0d5f0a1b2c3d"


def metadata(namespace="team-a", sealed_for="team-a", managed=True, **more):
    seal = SEALER.seal(DIGEST, "secrets", sealed_for, "creds", "default/rule")
    annotations = {names.ANN_RULE: "default/rule", names.ANN_HASH: seal}
    fields = {
        "f:data": {"f:a": {}},
        "f:metadata": {
            "f:labels": {"f:app.kubernetes.io/managed-by": {}},
            "f:annotations": {f"f:{key}": {} for key in annotations},
        },
    }
    entry = {"manager": "copyrator", "operation": "Update", "fieldsV1": fields}
    base = {
        "name": "creds",
        "namespace": namespace,
        "uid": UID,
        "resourceVersion": "42",
        "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY},
        "annotations": annotations,
        "managedFields": [entry] if managed else [],
    }
    for key, value in more.items():
        base[key] = {**base[key], **value} if isinstance(value, dict) else value
    return {"metadata": base}


def read(body):
    return RecordReader("secrets", SEALER, Shapes())(body)


def test_a_copy_is_read_with_all_that_a_write_needs():
    record = read(metadata())
    assert record.uid == UID
    assert record.resource_version == "42"
    assert record.owner == "default/rule"
    assert record.digest == DIGEST
    assert record.extras is NO_EXTRAS
    assert not record.deleting


@pytest.mark.parametrize(
    ("sealed_for", "managed", "owner", "digest", "marks"),
    [
        ("team-a", True, "default/rule", DIGEST, ""),
        ("team-a", False, "default/rule", DIGEST, ""),  # restored from a backup
        # A lost key, or somebody who calls himself as we do:
        ("other", True, "", UNKNOWN, "default/rule"),
        ("other", False, "", UNKNOWN, "default/rule"),  # a copy's manifest applied elsewhere
    ],
)
def test_ours_is_what_carries_our_seal_for_its_place(sealed_for, managed, owner, digest, marks):
    record = read(metadata(sealed_for=sealed_for, managed=managed))
    assert (record.owner, record.digest, record.marks) == (owner, digest, marks)


def test_an_object_that_only_carries_our_label_isnt_ours():
    body = metadata()
    body["metadata"]["annotations"] = {}
    assert (read(body).owner, read(body).marks) == ("", "")


@pytest.mark.parametrize("uid", [UID, "uid-1", "exactly-16-bytes", "", UID.upper(), "ü"])
def test_any_uid_survives(uid):
    record = CopyRecord(
        uid=uid, resource_version="1", owner="a/b", digest=DIGEST, shape=read(metadata()).shape
    )
    assert record.uid.rstrip("\0") == uid
    assert record.digest == DIGEST


def test_versions_are_compared_as_numbers_where_they_are_numbers():
    def at(version):
        shape = Shapes().read([]).shape
        return CopyRecord(uid=UID, resource_version=version, owner="", digest=DIGEST, shape=shape)

    assert at("10").is_newer_than(at("9"))
    assert not at("9").is_newer_than(at("10"))
    assert not at("9").is_newer_than(at("9"))
    assert at("b").is_newer_than(at("a"))
    assert at("b").is_newer_than(at("1"))
    assert at("1").is_newer_than(at("b"))


def test_a_copy_costs_less_than_its_share_of_the_memory():
    reader = RecordReader("secrets", SEALER, Shapes())
    one, other = reader(metadata()), reader(metadata())
    assert one.shape is other.shape
    assert one.owner is other.owner
    sizes = [sys.getsizeof(one), sys.getsizeof(one._identity), sys.getsizeof(one._version)]
    assert sum(sizes) <= 200


def test_a_watch_has_delivered_what_is_not_newer_than_it():
    record = read(metadata())
    assert [record.is_delivered(version) for version in (41, 42, 43)] == [False, True, True]
    assert not read(metadata(resourceVersion="x")).is_delivered(43)
    body = metadata()
    body["metadata"]["labels"] = {}
    assert not read(body).is_delivered(43), "the watch of copies never delivers it"


@pytest.mark.parametrize(
    ("change", "field", "value"),
    [
        ({"labels": {"theirs": "l"}}, "labels", {"theirs": "l"}),
        ({"annotations": {"theirs": "a"}}, "annotations", {"theirs": "a"}),
        ({"finalizers": ["f"]}, "finalizers", ("f",)),
        ({"ownerReferences": [{"uid": "u"}]}, "owners", ({"uid": "u"},)),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, "deleting", True),
        ({"labels": {names.LABEL_MANAGED_BY: "helm"}}, "unlabelled", True),
    ],
)
def test_each_addition_of_others_alone_is_kept(change, field, value):
    assert read(metadata(**change)).extras == Extras(**{field: value})


def test_a_label_that_others_set_as_well_is_kept():
    body = metadata(labels={"both": "l", "ours": "l"})
    ours, theirs = ({"f:metadata": {"f:labels": {f"f:{k}": {} for k in keys}}} for keys in KEYS)
    body["metadata"]["managedFields"] = [
        {"manager": "copyrator", "operation": "Update", "fieldsV1": ours},
        {"manager": "kubectl", "operation": "Update", "fieldsV1": theirs},
    ]
    assert read(body).extras == Extras(labels={"both": "l"})


KEYS = (("both", "ours", names.LABEL_MANAGED_BY), ("both", names.LABEL_MANAGED_BY))


# --- What the watch told, what we wrote, and which of the two is newer ----------------------------


SHAPE = Shapes().read([]).shape
NAME = ("team-a", "app")


def record(version, owner="ns/rule", uid="uid-1", shape=SHAPE, **more):
    return CopyRecord(
        uid=uid, resource_version=str(version), owner=owner, digest=UNKNOWN, shape=shape, **more
    )


class Cluster:
    """A store that the reflector would keep, and the Copies on it."""

    def __init__(self):
        self.store = {}
        self.delivered = 0
        self.copies = Copies(self.store, lambda _namespace: self.delivered)

    def tell(self, new):
        """The watch tells; returns whether it was news."""
        old = self.store.get(NAME)
        if new is None:
            del self.store[NAME]
        else:
            self.store[NAME] = new
        return self.copies.observe(NAME, old, new)

    @property
    def known(self):
        """The version that is known, and whose it is."""
        found = self.copies.get(NAME)
        owner = "ns/rule" if found is None else found.owner
        assert [*self.copies.owned_by(owner)] == ([NAME] if found and owner else [])
        return found and (int(found.resource_version), found.owner)


@pytest.fixture
def cluster():
    return Cluster()


def news(version, **more):
    """The watch tells of a version; of a deletion with None."""
    told = None if version is None else record(version, **more)
    return lambda cluster: cluster.tell(told) or pytest.fail(f"{version} was no news")


def no_news(version, **more):
    told = None if version is None else record(version, **more)
    return lambda cluster: cluster.tell(told) and pytest.fail(f"{version} was news")


def wrote(version, **more):
    """The response to a write of ours, or a read, has this version."""
    return lambda cluster: cluster.copies.wrote(NAME, record(version, **more))


def deleted(cluster):
    cluster.copies.deleted(NAME, "uid-1")


def delivered(version):
    return lambda cluster: setattr(cluster, "delivered", version)


@pytest.mark.parametrize(
    ("steps", "version"),
    {
        "what the watch tells": ([news(1)], 1),
        "a deletion that the watch tells of": ([news(1), news(None)], None),
        "our write before the watch tells": ([wrote(5)], 5),
        "its echo is no news": ([wrote(5), no_news(5)], 5),
        "a response after the deletion, delivered as version 6": (
            [news(4), news(5), news(None), delivered(6), wrote(5)],
            None,
        ),
        # The watch delivers the loss of the label as a deletion with the version of the change.
        "a read of one without our label": (
            [news(5), news(None), delivered(6), wrote(6, extras=Extras(unlabelled=True))],
            6,
        ),
        "a change after our write": ([wrote(5), no_news(5), news(6)], 6),
        "a change that overtakes our write's echo": ([wrote(5), news(6)], 6),
        "an older event doesn't hide our write": ([news(1), wrote(5), no_news(3)], 5),
        "an answer slower than the watch": ([news(6), wrote(5)], 6),
        "our delete before the watch tells": ([news(1), deleted], None),
        "our delete's echo": ([news(1), deleted, no_news(None)], None),
        "a successor of what we deleted": (
            [news(1), deleted, no_news(None), news(9, uid="uid-2")],
            9,
        ),
        "the end of a predecessor": (
            [news(1), deleted, wrote(5, uid="uid-2"), no_news(None)],
            5,
        ),
        "the end of what we made, its beginning untold": ([news(1), wrote(5), news(None)], None),
    }.values(),
)
def test_the_newer_of_what_the_watch_told_and_we_wrote_is_known(cluster, steps, version):
    for step in steps:
        step(cluster)
    assert cluster.known == (version and (version, "ns/rule"))


def test_a_write_that_no_watch_ever_tells_of_is_given_up_after_a_while(cluster):
    cluster.copies.wrote(NAME, record(5))
    assert cluster.copies.forget_stale() == []
    assert cluster.known == (5, "ns/rule")
    assert cluster.copies.forget_stale() == [NAME]
    assert cluster.known is None


def test_ownership_moves_with_the_annotation(cluster):
    cluster.tell(record(1))
    cluster.tell(record(2, owner="ns/other"))
    assert cluster.known == (2, "ns/other")
    assert [*cluster.copies.owned_by("ns/rule")] == []
    cluster.tell(record(3, owner=""))
    assert [*cluster.copies.owned_by("ns/other")] == []


@pytest.mark.parametrize(
    "steps", [(wrote, no_news), (news, wrote)], ids=["first", "after the watch"]
)
def test_a_copy_that_was_accepted_as_it_is_stays_so_until_it_changes(cluster, steps):
    for step in steps:
        step(5, **({"shape": ACCEPTED} if step is wrote else {}))(cluster)
    assert cluster.copies.get(NAME).shape is ACCEPTED
    cluster.tell(record(6))
    assert cluster.copies.get(NAME).shape is SHAPE


# --- Seals and digests ----------------------------------------------------------------------------


PLACE = ("secrets", "team-a", "creds", "default/rule")


@pytest.mark.parametrize("part", range(4))
def test_a_seal_opens_at_its_place_only(part):
    digest = SEALER.digest({"data": {"a": "b"}})
    seal = SEALER.seal(digest, *PLACE)
    assert len(seal) == 32, "it fits a line and shows nothing of the content"
    assert SEALER.open(seal, *PLACE) == digest
    elsewhere = list(PLACE)
    elsewhere[part] += "x"
    assert SEALER.open(seal, *elsewhere) is None
    assert Sealer(b"o" * 32).open(seal, *PLACE) is None


JUNK = ["", "nonsense", "ü", "AAAA", "=" * 32, "A" * 31, "A" * 1000]
SEAL = SEALER.seal(SEALER.digest({}), *PLACE)


@pytest.mark.parametrize("text", JUNK + [SEAL[:9] + sign + SEAL[9:] for sign in "\n !\0"])
def test_junk_and_a_seal_with_anything_between_open_nowhere(text):
    assert SEALER.open(text, *PLACE) is None


@given(st.dictionaries(st.text(), st.text()), st.dictionaries(st.text(), st.text()))
def test_the_digest_differs_exactly_when_the_content_or_the_key_does(one, other):
    assert (SEALER.digest(one) == SEALER.digest(other)) == (one == other)
    assert SEALER.digest(one) == SEALER.digest(dict(reversed(one.items())))
    assert SEALER.digest(one) != Sealer(b"o" * 32).digest(one)


@pytest.mark.parametrize("key", [b"", b"short", b"x" * 33])
def test_a_key_of_another_length_is_refused(key):
    with pytest.raises(ValueError, match="bytes"):
        Sealer(key)


def test_seals_are_those_of_the_versions_before_so_that_an_upgrade_writes_nothing():
    sealer = Sealer(bytes(range(32)))
    digest = sealer.digest({"data": {"a": "YQ=="}})
    assert digest.hex() == "bf6f80fdfe067fb889215ad03298ae8c"
    assert sealer.seal(digest, *PLACE) == "v2-A_f4Gf7iJIVrQMpiujLnEAwmJ-QaK"


def test_sealers_with_one_key_are_equal():
    assert Sealer(b"k" * 32) == SEALER
    assert hash(Sealer(b"k" * 32)) == hash(SEALER)
    assert Sealer(b"o" * 32) != SEALER
    assert SEALER != b"k" * 32


# --- Copies that other tools made -----------------------------------------------------------------


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


@pytest.mark.parametrize("data", [{}, {"data": {}}, {"data": None}])
def test_a_config_map_without_keys_is_right_without_fields(data):
    shape = Shapes().read([entry({"f:metadata": METADATA})]).shape
    assert is_ours_exactly(data, shape)


async def test_an_object_of_another_uid_is_not_merged_with():
    writer = SimpleNamespace(_whole={"metadata": {"uid": "theirs"}})
    assert await CopyWriter._live(writer, "theirs") is writer._whole
    with pytest.raises(errors.ConflictError):
        await CopyWriter._live(writer, "ours")


@pytest.mark.parametrize(
    "found",
    [
        {"owner": "ops/rule", "marks": "ops/rule", "deleting": False},
        {"owner": "", "marks": "ops/other", "deleting": False},
        {"owner": "", "marks": "ops/rule", "deleting": True},
    ],
)
async def test_only_an_unsealed_object_with_the_rules_marks_is_resealed(found):
    async def read():
        return {"metadata": {}}

    view = SimpleNamespace(reader=lambda _live: SimpleNamespace(**found))
    writer = SimpleNamespace(read=read, _view=view)
    with pytest.raises(errors.ConflictError):
        await CopyWriter._reseal(writer, SimpleNamespace(owner="ops/rule"))
