"""Commands ask only for what they show, and side by side."""

import asyncio
import secrets
from dataclasses import dataclass, field

import aiohttp
import pytest
from tests.e2e.cli.conftest import copying, secret
from tests.e2e.installation import RULES
from tests.e2e.vanishing import vanish

NUMBER = 10
"""Rules with a source each, all in one namespace."""
KINDS = 8
"""Kinds that copies are looked for in."""
ALONE = 4
"""Sources that are listed by their name; with further ones the namespace is, and they are read."""


@dataclass
class Recorder:
    """The requests of the commands that run in this process."""

    paths: list[str] = field(default_factory=list)
    open: int = 0
    most: int = 0
    """At a time."""
    rounds: int = 0
    """Of requests one after another: one that begins after others have ended is of a later one."""


@pytest.fixture
def recorder(monkeypatch):
    found, send = Recorder(), aiohttp.ClientSession._request

    async def record(session, method, url, **options):
        found.paths.append(f"{method} {url}")
        found.open += 1
        found.most = max(found.most, found.open)
        own = found.rounds + 1
        try:
            await asyncio.sleep(0)  # others that are ready begin, too
            return await send(session, method, url, **options)
        finally:
            found.open -= 1
            found.rounds = max(found.rounds, own)

    monkeypatch.setattr(aiohttp.ClientSession, "_request", record)
    return found


@pytest.fixture(scope="module")
def rules(stage):
    """Rules `word-0` and on, with copies in the namespace `word`, which has a Bundle `word`."""
    word = f"t{secrets.token_hex(3)}"
    stage.api.create("/api/v1/namespaces", {"metadata": {"name": word}})
    names = [f"{word}-{number}" for number in range(NUMBER)]
    for name in names:
        stage.apply(secret(stage.home, name, "password"), copying(stage.home, name, word))
    body = stage.bundle(word, "app", suspend=True)
    body["metadata"]["namespace"] = word
    stage.apply(body)
    for name in names:
        stage.wait_reason(RULES.format(stage.home), name, "Synced")
    yield word
    for name in names:
        stage.delete_rule(name)
    vanish(stage.cluster, [word])


OPERATOR = 2  # its Deployment and then its Lease, beside the others: of either chain may be a round
FREEZES = 2  # the ConfigMap of all, the namespace
FIND_OBJECT = OPERATOR + 1 + 2  # a Bundle, Secret and ConfigMap of that name
DRY_RUN = 4 + 1  # who may impersonate, the hash key, namespaces, rules; the kind's copies
SOURCES = ALONE + 1 + (NUMBER - ALONE)

COMMANDS = {
    "get rules -A": (1 + OPERATOR, 2, 2),
    "get bundles -n {word}": (1 + OPERATOR + FREEZES, 2, 3),
    "get bundles -n {word} -o json": (1 + OPERATOR, 2, 2),
    "get copies -n {word}": (1 + OPERATOR + KINDS, KINDS, 3),
    "get all -n {word}": (2 + OPERATOR + FREEZES + 1 + KINDS, KINDS, 4),
    "why {word}/{word}-7": (FIND_OBJECT + DRY_RUN + SOURCES, 6, 8),
    "why --kind rule {home}/{word}-7": (1 + OPERATOR, 2, 2),
    "why --kind bundle {word}/{word}": (1 + OPERATOR + FREEZES, 2, 3),
    "describe rule {home}/{word}-7": (3 + OPERATOR, 2, 3),  # its Events, and those of the namespace
    "plan rule {home}/{word}-7": (2 + DRY_RUN + SOURCES, 6, 9),
}
"""Requests; how many of them are sent at a time at least; and in how many rounds at most."""


@pytest.mark.parametrize(("command", "wanted"), COMMANDS.items(), ids=COMMANDS)
def test_a_command_sends_few_requests_and_does_not_wait_between_them(
    stage, rules, recorder, command, wanted
):
    stage.types(command.format(word=rules, home=stage.home))
    requests, together, rounds = wanted
    assert len(recorder.paths) <= requests, "\n".join(recorder.paths)
    assert recorder.most >= together, "\n".join(recorder.paths)
    assert recorder.rounds <= rounds, "\n".join(recorder.paths)
