"""What the last look before a write must find; and when a source counts as gone."""

from types import SimpleNamespace

import pytest

from copyrator.api.keys import ObjectName
from copyrator.copies.sources.watches import _NamedSource
from copyrator.copies.targets.reconciler import CopyWriter
from copyrator.kube import errors
from copyrator.kube.watch.reflector import Seen

NAME = ObjectName("team", "app")


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


def test_a_source_that_exists_and_was_not_read_is_not_known_to_be_absent():
    mirror = SimpleNamespace(store={NAME: Seen("7")}, synced=True, lists=1)
    source = _NamedSource(SimpleNamespace(mirror=mirror), NAME, lambda *_: None, lambda: None)
    assert (source.synced, source.lists) == (False, 0)
    mirror.store.clear()
    assert (source.synced, source.lists) == (True, 1)
    mirror.synced = False
    assert not source.synced
