"""What the operator takes from kopf's inside: each of these fails when a new kopf changes it.

pyproject.toml allows one minor version of kopf. Who raises it starts here.
"""

import gc
import importlib
import inspect
import logging
import re
import weakref
from pathlib import Path
from unittest.mock import Mock

import kopf
import pytest
from kopf._cogs.clients import api, errors, watching
from kopf._core.engines import peering
from kopf._core.reactor import orchestration, running
from kopf._core.reactor.inventory import ResourceMemories

from copyrator import handlers
from copyrator.handlers import lifecycle
from copyrator.handlers.deduplication import EventDeduplicator
from copyrator.handlers.lifecycle import COLLECTED_EVENTS, WATCHER, NoMemories
from copyrator.kube.resources import RULES

SOURCES = Path(handlers.__path__[0]).parent
PRIVATE = {
    "kopf._cogs.clients.errors",
    "kopf._core.engines.activities",
    "kopf._core.reactor.inventory",
    "kopf._core.reactor.running",
}
"""The private modules that the operator names; each has its tests below."""


def test_no_other_private_module_is_named() -> None:
    texts = [path.read_text() for path in SOURCES.rglob("*.py")]
    assert {name for text in texts for name in re.findall(r"kopf\._[a-z][\w.]+", text)} == PRIVATE


@pytest.mark.parametrize("name", ["kopf._core.engines.activities", "kopf._core.reactor.running"])
def test_the_loggers_that_are_silenced_are_those_of_modules(name: str) -> None:
    logger: logging.Logger = importlib.import_module(name).logger
    assert logger.name == name


def test_answers_of_the_api_server_are_errors_of_one_module() -> None:
    of_answers = [
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.APIError)
    ]
    assert errors.APINotFoundError in of_answers
    assert {kind.__module__ for kind in of_answers} == {"kopf._cogs.clients.errors"}


def test_memories_are_recalled_by_the_method_that_keeps_none() -> None:
    theirs, ours = (
        inspect.signature(kind.recall).parameters for kind in (ResourceMemories, NoMemories)
    )
    assert {name: one.kind for name, one in theirs.items()} == {
        name: one.kind for name, one in ours.items()
    }
    assert "memories" in inspect.signature(kopf.spawn_tasks).parameters


@pytest.mark.parametrize(
    ("module", "text"),
    [
        (orchestration, f'name=f"{WATCHER}{{what}}"'),
        (running, 'name="credentials retriever"'),
        (watching, "def infinite_watch("),
        (api, "failed; TCP closed; will re-authenticate"),
        (api, "content.iter_chunked("),
    ],
)
def test_kopf_still_says(module: object, text: str) -> None:
    assert text in inspect.getsource(module)  # type: ignore[arg-type]


def test_kopf_run_looks_no_user_up_whose_uid_may_have_no_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nameless() -> str:
        raise OSError("No username set in the environment")

    monkeypatch.setenv("POD_ID", "restored afterwards")
    monkeypatch.delenv("POD_ID")
    monkeypatch.setattr("getpass.getuser", nameless)
    lifecycle.join_kopf_run(Mock(lifecycle.Lifecycle))
    assert peering.detect_own_id(manual=False) == "copyrator"


async def test_the_garbage_of_events_is_collected_however_much_else_is_freed() -> None:
    """Python's own collections are off here: deletions put them off."""

    class Node:
        me: object = None

    left: list[weakref.ref[Node]] = []

    def leave(*_: object) -> None:
        node = Node()
        node.me = node
        left.append(weakref.ref(node))

    registry = kopf.OperatorRegistry()
    lifecycle._register_events(registry, EventDeduplicator(RULES, leave))
    (handler,) = registry._watching._handlers
    collects = gc.isenabled()
    gc.disable()
    try:
        for number in range(10 * COLLECTED_EVENTS):
            metadata = {"namespace": "a", "name": f"rule-{number}", "resourceVersion": "1"}
            await handler.fn(event={"type": "ADDED", "object": {"metadata": metadata}})
        assert sum(one() is not None for one in left) <= COLLECTED_EVENTS
    finally:
        if collects:
            gc.enable()
    assert len(left) == 10 * COLLECTED_EVENTS
