"""What a copy costs in memory: the watch's store and the registry, fed as the server feeds them."""

import gc
import json
import sys
import tracemalloc
import uuid

import msgspec
from tests.long import LONG

from copyrator.api.keys import CopyKey
from copyrator.api.rule_spec import Transform
from copyrator.copies.seal.sealing import KEY_BYTES, Sealer
from copyrator.copies.targets.content import copied_content, new_object
from copyrator.copies.targets.ownership import Shapes, claimed_fields
from copyrator.copies.targets.records import Copies, RecordReader
from copyrator.kube.watch.reflector import Store

SOURCES, TARGETS = (100, 110) if LONG else (10, 110)
"""11,000, or a quarter: the tables have just grown, so this is a bad moment to measure."""
BYTES = 400
"""What a copy may take; what the queue holds of it comes on top while it is worked on."""


def metadata_of(contents, sealer, source, target, serial):
    """The metadata of a copy, as JSON."""
    content = contents[source]
    name = f"application-credentials-{source:03}"
    place = CopyKey("secrets", f"team-with-a-longish-name-{target:04}", name)
    body = new_object(content, place, "copyrator/rule", sealer)
    metadata = {
        **body["metadata"],
        "uid": str(uuid.UUID(int=serial, version=4)),
        "resourceVersion": str(10_000_000 + serial),
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [
            {**entry, "time": "2026-01-01T00:00:00Z"} for entry in claimed_fields([], body)
        ],
    }
    return json.dumps({"metadata": metadata}).encode()


def test_a_copy_is_remembered_in_four_hundred_bytes():
    sealer = Sealer(bytes(KEY_BYTES))
    contents = []
    for number in range(SOURCES):
        metadata = {"namespace": "source", "name": f"source-{number}", "labels": {"app": "x"}}
        source = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": metadata,
            "type": "Opaque",
            "data": {f"key-{number}": "dmFsdWU=", "password": "cGFzcw=="},
        }
        contents.append(copied_content(source, Transform(), rule="copyrator/rule", sealer=sealer))
    raw = [
        metadata_of(contents, sealer, source, target, source * TARGETS + target)
        for source in range(SOURCES)
        for target in range(TARGETS)
    ]
    # Names are interned: the interpreter's table of all that is grows by megabytes at a time.
    found = (msgspec.json.decode(body)["metadata"] for body in raw)
    names = [sys.intern(text) for one in found for text in (one["name"], one["namespace"])]
    gc.collect()
    tracemalloc.start()
    store = Store(RecordReader("secrets", sealer, Shapes()))
    copies = Copies(store.records)
    store.begin_list()
    for body in raw:
        change = store.listed(msgspec.json.decode(body))
        assert change is not None
        copies.observe(*change)
    store.end_list("20000000")
    gc.collect()
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(copies.owned_by("copyrator/rule")) == SOURCES * TARGETS
    assert size / len(raw) <= BYTES
    assert len(names) == 2 * len(raw)
