import sys

import pytest

from copyrator.api import names
from copyrator.copies.seal.sealing import Sealer
from copyrator.copies.targets.ownership import Shapes
from copyrator.copies.targets.records import NO_EXTRAS, UNKNOWN, CopyRecord, Extras, RecordReader

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


def test_an_annotation_without_our_label_is_no_mark():
    body = metadata(sealed_for="other")
    body["metadata"]["labels"] = {}
    assert read(body).marks == ""


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


def test_a_watch_has_delivered_what_is_not_newer_than_it():
    record = read(metadata())
    assert [record.is_delivered(version) for version in (41, 42, 43)] == [False, True, True]
    assert not read(metadata(resourceVersion="x")).is_delivered(43)
    body = metadata()
    body["metadata"]["labels"] = {}
    assert not read(body).is_delivered(43), "the watch of copies never delivers it"


def test_the_fields_of_our_write_are_its_shape():
    assert "data\na" in read(metadata()).shape.ours
    assert read(metadata(managed=False)).shape.ours == frozenset()


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


def test_a_copy_costs_less_than_its_share_of_the_memory():
    reader = RecordReader("secrets", SEALER, Shapes())
    one, other = reader(metadata()), reader(metadata())
    assert one.shape is other.shape
    assert one.owner is other.owner
    sizes = [sys.getsizeof(one), sys.getsizeof(one._identity), sys.getsizeof(one._version)]
    assert sum(sizes) <= 200
