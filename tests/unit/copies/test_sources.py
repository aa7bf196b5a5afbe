"""What is held of a source."""

import msgspec

from copyrator.copies.sources.records import SOURCE_OVERHEAD, SourceReader

BODY = {
    "metadata": {
        "name": "creds",
        "namespace": "ops",
        "uid": "u",
        "resourceVersion": 7,
        "labels": {"a": "b"},
        "annotations": {},
        "managedFields": [{}],
    },
    "type": "Opaque",
    "data": {"a": "YQ=="},
    "status": {},
}
READ = SourceReader("v1", "Secret")


def test_a_source_is_held_with_all_that_is_copied_and_nothing_else():
    record = READ(BODY)
    assert record.body == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "creds", "namespace": "ops", "labels": {"a": "b"}},
        "type": "Opaque",
        "data": {"a": "YQ=="},
    }
    assert record.resource_version == "7"
    assert record.refused is None
    assert record.size == len(msgspec.json.encode(record.body)) + SOURCE_OVERHEAD
    assert (record.name, record.namespace, record.annotations) == ("creds", "ops", {})
    assert record.held == record.size


def test_of_a_source_that_is_never_copied_only_the_name_is_held():
    record = READ({**BODY, "type": "helm.sh/release.v1"})
    assert record.refused == "it is a Helm release"
    assert record.body == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "creds", "namespace": "ops"},
    }
    assert record.size == len(msgspec.json.encode(record.body)) + SOURCE_OVERHEAD
