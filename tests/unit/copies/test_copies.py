"""What the watch told, what we wrote, and which of the two is newer."""

import pytest

from copyrator.copies.targets.ownership import ACCEPTED, Shapes
from copyrator.copies.targets.records import NO_EXTRAS, UNKNOWN, Copies, CopyRecord, Extras

SHAPE = Shapes().read([]).shape
NAME = ("team-a", "app")


def record(version, owner="ns/rule", uid="uid-1", extras=NO_EXTRAS):
    return CopyRecord(
        uid=uid,
        resource_version=str(version),
        owner=owner,
        digest=UNKNOWN,
        shape=SHAPE,
        extras=extras,
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
    def version(self):
        found = self.copies.get(NAME)
        return found and found.resource_version

    def owned(self, owner="ns/rule"):
        return NAME in self.copies.owned_by(owner)


@pytest.fixture
def cluster():
    return Cluster()


def test_what_the_watch_tells_is_known(cluster):
    assert cluster.tell(record(1))
    assert cluster.version == "1"
    assert cluster.owned()
    assert cluster.tell(None)
    assert cluster.version is None
    assert not cluster.owned()


def test_our_write_is_known_before_the_watch_tells_and_its_echo_is_no_news(cluster):
    cluster.copies.wrote(NAME, record(5))
    assert cluster.version == "5"
    assert cluster.owned()
    assert not cluster.tell(record(5))
    assert cluster.version == "5"


def test_a_response_that_comes_after_the_deletion_is_of_the_past(cluster):
    """The watch delivered version 5 and a deletion as 6; then the response to our write came."""
    cluster.tell(record(4))
    cluster.tell(record(5))
    cluster.tell(None)
    cluster.delivered = 6
    cluster.copies.wrote(NAME, record(5))
    assert cluster.version is None
    assert not cluster.owned()


def test_a_copy_without_our_label_is_known_from_a_read(cluster):
    """The watch delivers the loss of the label as a deletion, with the version of the change."""
    cluster.tell(record(5))
    cluster.tell(None)
    cluster.delivered = 6
    cluster.copies.wrote(NAME, record(6, extras=Extras(unlabelled=True)))
    assert cluster.version == "6"
    assert cluster.owned()


def test_a_change_after_our_write_is_news(cluster):
    cluster.copies.wrote(NAME, record(5))
    assert not cluster.tell(record(5))
    assert cluster.tell(record(6))


def test_a_change_that_overtakes_our_writes_echo_is_news(cluster):
    cluster.copies.wrote(NAME, record(5))
    assert cluster.tell(record(6))
    assert cluster.version == "6"


def test_an_older_event_doesnt_hide_our_write(cluster):
    cluster.tell(record(1))
    cluster.copies.wrote(NAME, record(5))
    assert not cluster.tell(record(3))
    assert cluster.version == "5"


def test_an_answer_that_is_slower_than_the_watch_changes_nothing(cluster):
    cluster.tell(record(6))
    cluster.copies.wrote(NAME, record(5))
    assert cluster.version == "6"


def test_our_delete_is_known_before_the_watch_tells(cluster):
    cluster.tell(record(1))
    cluster.copies.deleted(NAME, "uid-1")
    assert cluster.version is None
    assert not cluster.owned()
    assert not cluster.tell(None)
    assert cluster.version is None


def test_a_successor_of_what_we_deleted_is_news(cluster):
    cluster.tell(record(1))
    cluster.copies.deleted(NAME, "uid-1")
    cluster.tell(None)
    assert cluster.tell(record(9, uid="uid-2"))
    assert cluster.version == "9"


def test_the_end_of_a_predecessor_doesnt_hide_what_we_made(cluster):
    cluster.tell(record(1))
    cluster.copies.deleted(NAME, "uid-1")
    cluster.copies.wrote(NAME, record(5, uid="uid-2"))
    assert not cluster.tell(None)
    assert cluster.version == "5"
    assert not cluster.tell(record(5, uid="uid-2"))


def test_the_end_of_what_we_made_is_news_even_when_its_beginning_wasnt_told(cluster):
    cluster.tell(record(1))
    cluster.copies.wrote(NAME, record(5))
    assert cluster.tell(None)
    assert cluster.version is None


def test_a_write_that_no_watch_ever_tells_of_is_given_up_after_a_while(cluster):
    cluster.copies.wrote(NAME, record(5))
    assert cluster.copies.forget_stale() == []
    assert cluster.version == "5"
    assert cluster.copies.forget_stale() == [NAME]
    assert cluster.version is None
    assert not cluster.owned()


def test_ownership_moves_with_the_annotation(cluster):
    cluster.tell(record(1))
    cluster.tell(record(2, owner="ns/other"))
    assert not cluster.owned()
    assert cluster.owned("ns/other")
    assert len(cluster.copies.owned_by("ns/other")) == 1
    cluster.tell(record(3, owner=""))
    assert len(cluster.copies.owned_by("ns/other")) == 0


def test_a_copy_that_was_accepted_as_it_is_stays_so_until_it_changes(cluster):
    mine = record(5)
    mine.shape = ACCEPTED
    cluster.copies.wrote(NAME, mine)
    cluster.tell(record(5))
    assert cluster.copies.get(NAME).shape is ACCEPTED
    cluster.tell(record(6))
    assert cluster.copies.get(NAME).shape is SHAPE


def test_a_copy_that_is_accepted_as_it_stands_stays_so_when_the_watch_was_faster(cluster):
    cluster.tell(record(5))
    ours = record(5)
    ours.shape = ACCEPTED
    cluster.copies.wrote(NAME, ours)
    assert cluster.copies.get(NAME).shape is ACCEPTED
    cluster.tell(record(6))
    assert cluster.copies.get(NAME).shape is not ACCEPTED
