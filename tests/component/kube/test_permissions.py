"""The operator's list of rights that it lacks: filled by refusals, emptied by what is granted."""

import logging

import pytest
from tests.clock import Clock
from tests.component.kube.fake_api import FakeApi, error

from copyrator.kube import errors, permissions
from copyrator.kube.client.client import KubeClient
from copyrator.kube.client.transport import Connection, Endpoint
from copyrator.kube.errors import Permission, Refusal
from copyrator.kube.permissions import MissingPermissions
from copyrator.kube.resources import SECRETS

CREATE = Permission("", "secrets", "create")
DENIED = (
    'secrets is forbidden: User "u" cannot create resource "secrets" in API group "" '
    'in the namespace "ns"'
)


class Authorizer:
    """Answers reviews."""

    def __init__(self):
        self.allowed = False
        self.asked = []

    async def request(self, _method, _path, *, body, **_):
        self.asked.append(body["spec"]["resourceAttributes"])
        if self.allowed is None:
            raise errors.Forbidden("you may not ask")
        return {"status": {"allowed": self.allowed}}


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def lacking(clock):
    return MissingPermissions(clock=clock)


@pytest.fixture
def authorizer():
    return Authorizer()


async def review(lacking, authorizer, clock, seconds):
    """Look once a second; return whether anything was granted."""
    granted = False
    for _ in range(seconds):
        clock.now += 1
        granted |= await lacking.review(authorizer)
    return granted


async def test_a_request_that_is_refused_shows_the_right_that_is_missing(api: FakeApi):
    lacking = MissingPermissions()
    assert lacking.sentence() is None
    api.script("create", error(403, "Forbidden", DENIED))
    connection = Connection(Endpoint(host=api.url))
    async with KubeClient(connection, on_refused=lacking.refused) as client:
        with pytest.raises(errors.Forbidden):
            await client.create(SECRETS, "ns", {"metadata": {"name": "a"}})
    assert "create secrets in ns" in str(lacking.sentence())


async def test_what_is_granted_is_forgotten_and_tried_again(lacking, authorizer, clock, caplog):
    caplog.set_level(logging.INFO)
    lacking.refused(Refusal(CREATE, "a", "x"))
    lacking.refused(Refusal(CREATE, "b", "y"))
    assert not await review(lacking, authorizer, clock, 60)
    assert lacking.missing() == [Refusal(CREATE, "b", "y")]
    assert len(authorizer.asked) < 10, "ever more slowly"
    assert authorizer.asked[0]["namespace"] == "b"
    assert authorizer.asked[0]["name"] == "y"
    authorizer.allowed = True
    assert await review(lacking, authorizer, clock, 31)
    assert lacking.sentence() is None
    said = [record.getMessage() for record in caplog.records]
    assert [line.split(":")[0] for line in said] == [
        "Missing permission",
        "Permission granted",
    ]


async def test_a_yes_that_isnt_true_is_believed_ever_more_seldom(lacking, authorizer, clock):
    authorizer.allowed = True
    granted = 0
    for _ in range(600):
        lacking.refused(Refusal(CREATE, "a"))
        granted += await review(lacking, authorizer, clock, 1)
    assert 2 < granted < 12


async def test_a_refusal_elsewhere_during_a_review_isnt_granted_by_it(lacking, authorizer, clock):
    """It may be allowed in the one namespace, and not in the other."""

    async def request(*args, **options):
        lacking.refused(Refusal(CREATE, "b"))
        return await Authorizer.request(authorizer, *args, **options)

    authorizer.request, authorizer.allowed = request, True
    lacking.refused(Refusal(CREATE, "a"))
    assert not await review(lacking, authorizer, clock, 5)
    assert lacking.missing() == [Refusal(CREATE, "b")]


async def test_what_nobody_asks_for_any_more_is_forgotten(lacking, authorizer, clock):
    lacking.refused(Refusal(CREATE, "a"))
    await review(lacking, authorizer, clock, int(permissions.FORGET))
    assert lacking.missing()
    await review(lacking, authorizer, clock, 2)
    assert not lacking.missing()


async def test_an_api_server_that_doesnt_tell_is_no_grant(lacking, authorizer, clock):
    authorizer.allowed = None
    lacking.refused(Refusal(CREATE, "a"))
    assert not await review(lacking, authorizer, clock, 10)
    assert lacking.missing()


async def test_many_rights_are_named_up_to_a_number(lacking):
    for number in range(permissions.SHOWN + 5):
        lacking.refused(Refusal(Permission("", f"kind{number:02}", "list")))
    sentence = str(lacking.sentence())
    assert sentence.count("list kind") == permissions.SHOWN
    assert "and 5 more" in sentence
