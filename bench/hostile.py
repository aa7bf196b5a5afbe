"""A trusted rule among hostile neighbours: how long new namespaces wait, and a restart.

The same with notifications whose receivers hang, against the same without notifications.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass

from bench.objects import secret, secret_path
from bench.process import BenchError
from bench.rig import HOME, RECEIVERS, Rig, until
from bench.scenario import Figures, Goal, Run, scenario
from hostile.bad import Places
from hostile.neighbours import Plan, neighbours
from hostile.newcomers import Newcomers, bare_client, percentile, waits, whoami

QUIET_SECONDS = 60.0
WORD = "newcomer"
ONE = {"secrets": 1}
PLACES = Places(("evil-0", "evil-1"), (f"{WORD}-forged-0",), "victim", "copyrator/hostile", "")


@scenario(
    "hostile",
    "A new namespace each second for {size} s, with malformed objects and a misbehaving registry",
    size=300,
    runs=1,
    goals={
        "p99_seconds": Goal("namespace to copy, 99th percentile", "s", 1.0),
        "p50_seconds": Goal("namespace to copy, median", "s"),
        "bare_p99_seconds": Goal("bare client at the same time, 99th percentile", "s"),
        "quiet_p99_seconds": Goal("without malformed objects, 99th percentile", "s"),
        "quiet_p50_seconds": Goal("without malformed objects, median", "s"),
        "ready_seconds": Goal("ready after a restart with them present", "s", 5.0),
        "first_seconds": Goal("the next new namespace after it", "s"),
        "peak_mb": Goal("memory, peak", "MB", 300.0),
        "bad_mb": Goal("malformed objects written", "MB"),
    },
    warm_up=False,
)
def hostile(rig: Rig, size: int) -> Iterator[Run]:
    """Others do their worst, and it doesn't matter."""
    newcomers, plan = _prepare(rig)

    def run() -> Figures:
        operator = rig.start()
        try:
            time.sleep(5)
            quiet, _ = _waits(rig, newcomers, QUIET_SECONDS)
            operator.forget_peak()
            with neighbours(plan) as running:  # they go on during the restart
                bad, bare = _waits(rig, newcomers, size)
                peak = operator.peak
                operator.stop()
                operator = rig.start()
                first, _ = _waits(rig, newcomers, 1)
                peak = max(peak, operator.peak)
        finally:
            operator.stop()
        assert running.done is not None
        return {
            "p99_seconds": percentile(bad, 0.99),
            "p50_seconds": percentile(bad, 0.5),
            "bare_p99_seconds": percentile(bare, 0.99),
            "quiet_p99_seconds": percentile(quiet, 0.99),
            "quiet_p50_seconds": percentile(quiet, 0.5),
            "ready_seconds": operator.ready_after,
            "first_seconds": first[0],
            "peak_mb": peak,
            "bad_mb": running.done.megabytes,
        }

    yield run


_FLAPPING = tuple(f"flapping-{number}" for number in range(20))
"""Rules and their sources, which come and go: so there is always something to tell."""
FLAP_SECONDS = 5.0
TURNS = (False, True, True, False)
"""Without and with notifications: what grows meanwhile counts on both sides."""


@scenario(
    "hostile-notifier",
    "The same for {size} s without notifications and {size} s with five entries whose receivers "
    "hang, in turns; 20 rules change every five seconds",
    size=300,
    runs=1,
    goals={
        "p99_seconds": Goal("namespace to copy with them, 99th percentile", "s", 1.0),
        "p50_seconds": Goal("namespace to copy with them, median", "s"),
        "bare_p99_seconds": Goal("bare client at the same time, 99th percentile", "s"),
        "plain_p99_seconds": Goal("namespace to copy without them, 99th percentile", "s"),
        "plain_p50_seconds": Goal("namespace to copy without them, median", "s"),
        "plain_bare_p99_seconds": Goal("bare client without them, 99th percentile", "s"),
        "p99_ratio": Goal("99th percentile with them, against without", "times"),
        "hung": Goal("messages that hung", ""),
    },
    warm_up=False,
)
def hostile_notifier(rig: Rig, size: int) -> Iterator[Run]:
    """Receivers hang while there is something to tell, and new namespaces wait no longer."""
    newcomers, plan = _prepare(rig)
    rig.namespaces("flapping-source", "flapping")
    for name in _FLAPPING:
        source = {"kind": "Secret", "namespace": "flapping-source", "name": name}
        rig.rule(name, {"source": source, "targets": {"namespaces": ["flapping"]}})

    def run() -> Figures:
        found: dict[bool, tuple[list[float], list[float]]] = {True: ([], []), False: ([], [])}
        with _hanging() as receiver, rig.operator(), neighbours(plan), _flapping(rig):
            for told in TURNS:
                with _told(rig, receiver.port) if told else nullcontext():
                    waited = _waits(rig, newcomers, size / 2)
                for kept, new in zip(found[told], waited, strict=True):
                    kept.extend(new)
        if not receiver.messages:
            raise BenchError("no receiver was sent a message, so none has hung")
        (ours, bare), (plain, plain_bare) = found[True], found[False]
        p99, plain_p99 = percentile(ours, 0.99), percentile(plain, 0.99)
        return {
            "p99_seconds": p99,
            "p50_seconds": percentile(ours, 0.5),
            "bare_p99_seconds": percentile(bare, 0.99),
            "plain_p99_seconds": plain_p99,
            "plain_p50_seconds": percentile(plain, 0.5),
            "plain_bare_p99_seconds": percentile(plain_bare, 0.99),
            "p99_ratio": p99 / plain_p99,
            "hung": receiver.messages,
        }

    yield run


def _prepare(rig: Rig) -> tuple[Newcomers, Plan]:
    """The rule that new namespaces wait for, and what the neighbours are told."""
    rig.namespaces("hostile-source", *PLACES.evil, *PLACES.forged, PLACES.victim)
    for name in PLACES.evil:
        account = {"metadata": {"name": "werf"}}
        rig.api.create(f"/api/v1/namespaces/{name}/serviceaccounts", account)
    rig.api.create(secret_path("hostile-source"), secret("hostile"))
    source = {"kind": "Secret", "namespace": "hostile-source", "name": "hostile"}
    rig.rule("hostile", {"source": source, "targets": {"namespaces": [f"{WORD}-*"]}})
    return Newcomers(rig.api, WORD), Plan(str(rig.cluster.state_dir), PLACES, seed=7)


@dataclass(slots=True)
class _Hanging:
    """A receiver.

    Attributes:
        messages: connections that it took, each for one message.
    """

    port: int
    messages: int = 0


@contextmanager
def _hanging() -> Iterator[_Hanging]:
    """Take connections and never answer, until the block ends."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        found = _Hanging(server.getsockname()[1])
        taken: list[socket.socket] = []

        def take() -> None:
            with suppress(OSError):
                while True:
                    taken.append(server.accept()[0])
                    found.messages += 1

        thread = threading.Thread(target=take, name="receiver that hangs")
        thread.start()
        try:
            yield found
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
            for one in taken:
                one.close()


@contextmanager
def _told(rig: Rig, port: int) -> Iterator[None]:
    """Have notifications sent, to five entries of two services, until the block ends."""
    configs, name = f"/api/v1/namespaces/{HOME}/configmaps", "copyrator-notifications"
    urls = {"webhook": f"http://127.0.0.1:{port}/hook", "chat": f"mmost://127.0.0.1:{port}/token"}
    receivers = {"metadata": {"name": RECEIVERS}, "stringData": urls}
    if rig.found(secret_path(HOME, RECEIVERS)) is None:
        rig.api.create(secret_path(HOME), receivers)
    entries = [
        {
            "name": f"{key}-{number}",
            "urlFrom": {"secretName": RECEIVERS, "key": key},
            "minInterval": "1s",
        }
        for key, many in (("webhook", 3), ("chat", 2))
        for number in range(many)
    ]
    data = {"notifications.yaml": json.dumps({"entries": entries})}
    rig.api.create(configs, {"metadata": {"name": name}, "data": data})
    try:
        yield
    finally:
        rig.api.delete(f"{configs}/{name}")


@contextmanager
def _flapping(rig: Rig) -> Iterator[None]:
    """Create and delete the sources of `_FLAPPING` in turns, until the block ends."""
    over = threading.Event()

    def flap() -> None:
        while not over.is_set():
            for name in _FLAPPING:
                rig.api.create(secret_path("flapping-source"), secret(name))
            over.wait(FLAP_SECONDS)
            for name in _FLAPPING:
                rig.api.delete(secret_path("flapping-source", name))
            over.wait(FLAP_SECONDS)

    thread = threading.Thread(target=flap, name="flapping sources")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _waits(rig: Rig, newcomers: Newcomers, seconds: float) -> tuple[list[float], list[float]]:
    """How long each new namespace waited for the operator, and for a bare client beside it."""
    since, ourselves = rig.cluster.audit_offset(), whoami(rig.api)
    found: tuple[dict[str, float], dict[str, float]] = {}, {}
    with bare_client(rig.api, WORD):
        names = newcomers.come(seconds)

        def served() -> bool:
            nonlocal found
            events = rig.cluster.audit_events(since)
            ours, theirs = (waits(events, names, who, ONE) for who in (rig.user, ourselves))
            found = ours, theirs
            return len(ours) == len(theirs) == len(names)

        until(served, "all new namespaces have their copy", 120)
    return list(found[0].values()), list(found[1].values())
