"""What a side misses while the API server, or a proxy before it, misbehaves."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.e2e.faults import proxy
from tests.e2e.faults.proxy import Fault, FaultProxy, only

from bench.choices.objects import FINALIZER, bundle
from bench.choices.passing import Passing
from bench.rig import BUNDLES, Rig, until
from localcluster import ApiStatusError

FAULT_SECONDS = 3.0
LIMIT = 30.0
"""Seconds after the fault within which a key must have been passed on."""

RESTART = "killed and started again"

KINDS = ("created", "changed", "forced by the status", "deleted", "deleted, with our finalizer")

CASES: dict[str, Fault | None] = {
    "no fault": None,
    "watches refused (503)": proxy.answers(503, "ServiceUnavailable"),
    "410 within the watch": proxy.fails_within(410, "Expired"),
    "500 within the watch": proxy.fails_within(500, "InternalError"),
    "half an event": proxy.truncates,
    "watches close at once": proxy.closes_at_once,
    "watches go silent": proxy.goes_silent,
    RESTART: None,
}


def missed(rig: Rig, broken: FaultProxy, side: str, each: int) -> dict[str, float]:
    """For each case: the keys missed, the requests meanwhile, and whether the process ended.

    In each case `each` objects are changed in each way.
    """
    kubeconfig = broken.kubeconfig(
        rig.operator_kubeconfig, rig.cluster.layout.config / "choices-kopf"
    )
    figures: dict[str, float] = {}
    kinds = dict.fromkeys(KINDS, 0)
    with Passing(rig, side, kubeconfig) as child:
        for number, (name, fault) in enumerate(CASES.items()):
            changes = _Changes(rig, f"case-{number}", each)
            changes.prepare()
            child.restart_ended()
            until(lambda c=changes: c.names() <= set(child.keys()), f"{side} is ready", 120)  # type: ignore[misc]
            since = time.monotonic()
            with _trouble(broken, child, name, fault):
                changes.make(child)
                time.sleep(FAULT_SECONDS)
                asked = len(broken.since(since, only("watch", "list", of=("bundles",))))
            if name == RESTART:
                child.start()
            left, ended = _left(changes, child)
            for kind in left:
                kinds[kind] += 1
            rig.tell(f"{side}, {name}: {len(left)} missed, {asked} requests{', ended' * ended}")
            figures[f"missed of {len(KINDS) * each}: {name}"] = float(len(left))
            figures[f"lists and watches a second: {name}"] = asked / FAULT_SECONDS
            figures[f"the process ended: {name}"] = float(ended)
            changes.tidy_up()
    of = len(CASES) * each
    return figures | {f"missed in all, of {of}: {kind}": float(n) for kind, n in kinds.items()}


def _left(changes: _Changes, child: Passing) -> tuple[list[str], bool]:
    """Wait; return the kinds of what was missed, and whether the process had to be restarted."""
    ended, until_ = False, time.monotonic() + LIMIT
    while (left := changes.left(child)) and time.monotonic() < until_:
        ended |= child.restart_ended()
        time.sleep(0.2)
    return left, ended


@contextmanager
def _trouble(broken: FaultProxy, child: Passing, name: str, fault: Fault | None) -> Iterator[None]:
    """Misbehave while the block runs."""
    if name == RESTART:
        child.kill()
    if fault is None:
        yield
        return
    with broken.fault(fault, only("watch", of=("bundles",))):
        yield


class _Changes:
    """Some Bundles of a namespace of their own, and what is done to them."""

    def __init__(self, rig: Rig, word: str, each: int) -> None:
        self._rig = rig
        self._numbers = range(each)
        self._word = word
        self._wanted: dict[str, tuple[str, int]] = {}
        """By key: the kind of change, and the resourceVersion it made; 0 where it is gone."""

    def prepare(self) -> None:
        """Make those that aren't to be created."""
        for kind, number in itertools.product(range(1, len(KINDS)), self._numbers):
            finalizers = [FINALIZER] if kind == len(KINDS) - 1 else []
            self._rig.api.create(BUNDLES, bundle(self._name(kind, number), finalizers=finalizers))

    def names(self) -> set[str]:
        """The keys of those."""
        numbers = itertools.product(range(1, len(KINDS)), self._numbers)
        return {f"bundles/{self._name(kind, number)}" for kind, number in numbers}

    def make(self, child: Passing) -> None:
        """Make all changes; what was passed on before counts no more."""
        child.forget()
        api = self._rig.api
        for kind, number in itertools.product(range(len(KINDS)), self._numbers):
            name = self._name(kind, number)
            path = f"{BUNDLES}/{name}"
            if KINDS[kind] == "created":
                api.create(BUNDLES, bundle(name))
            elif KINDS[kind] == "changed":
                api.patch(path, {"spec": {"version": "2.0.0"}})
            elif KINDS[kind] == "forced by the status":
                api.patch(f"{path}/status", {"status": {"forceUpdate": 1}})
            else:
                api.delete(path)
            body = self._rig.found(path) or {"metadata": {"resourceVersion": "0"}}
            version = int(body["metadata"]["resourceVersion"])
            self._wanted[f"bundles/{name}"] = KINDS[kind], version

    def left(self, child: Passing) -> list[str]:
        """The kinds of change of the keys that weren't passed on, one for each."""
        keys = child.keys()
        return [
            kind
            for key, (kind, version) in self._wanted.items()
            if not _is_passed_on(keys.get(key), version)
        ]

    def tidy_up(self) -> None:
        """Delete all."""
        for key in self._wanted:
            path = f"{BUNDLES}/{key.partition('/')[2]}"
            with suppress(ApiStatusError):
                self._rig.api.patch(path, {"metadata": {"finalizers": None}})
                self._rig.api.delete(path)
        until(lambda: not any(self._exists(key) for key in self._wanted), "they are gone", 60)

    def _exists(self, key: str) -> bool:
        return self._rig.found(f"{BUNDLES}/{key.partition('/')[2]}") is not None

    def _name(self, kind: int, number: int) -> str:
        return f"{self._word}-{kind}-{number}"


def _is_passed_on(key: tuple[int, bool] | None, version: int) -> bool:
    """Whether a key was passed on after the change; any key will do where the object is gone."""
    if key is None:
        return False
    seen, gone = key
    return gone or seen >= version > 0
