"""What happens while kopf doesn't watch yet, or any more, is seen as soon as it does.

kopf lists and watches only after the operator has listed for itself, worked, and said "Started";
and after a 410 it lists again and doesn't say what has gone. Nothing of this waits for the resync.
"""

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.e2e.copies.conftest import DATA, Operator, User, deploy
from tests.e2e.faults.proxy import FaultProxy, Seen, fails_within, holds, only
from tests.e2e.operator_process import until

from localcluster import Api, Cluster

pytestmark = pytest.mark.timeout(180)

SEEN = 20.0
"""Seconds from the moment when kopf may list, for a list, a watch and the work."""


@dataclass
class Scene:
    """Rules of every fate, on ConfigMaps of the same name."""

    user: User
    operator: Operator
    proxy: FaultProxy
    source: str
    target: str

    def rule(self, name: str, key: str, *, copy: str | None = None) -> None:
        """Copy the source `key` to the target, there named as the rule unless said otherwise."""
        self.user.create("configmaps", self.source, key, data={"from": key})
        self.user.rule(self.operator.namespace, name, self.spec(key, copy or name))

    def spec(self, key: str, copy: str) -> dict[str, object]:
        return {
            "source": {"kind": "ConfigMap", "namespace": self.source, "name": key},
            "targets": {"namespaces": [self.target]},
            "transform": {"name": copy},
        }

    def copy(self, name: str) -> dict[str, str] | None:
        return self.user.data("configmaps", self.target, name)

    def delete_at_once(self, name: str) -> None:
        """Delete a rule that nobody is to look at any more: its finalizer is taken off."""
        home = self.operator.namespace
        self.user.patch("copyrators", home, name, metadata={"finalizers": None})
        self.user.delete("copyrators", home, name)

    def meddle(self, word: str) -> None:
        """Make a rule, edit one, and let one vanish whose copy another rule waits for."""
        self.rule(f"{word}-new", f"{word}-new")
        edited = {"transform": {"name": f"{word}-renamed"}}
        self.user.patch("copyrators", self.operator.namespace, f"{word}-edited", spec=edited)
        self.delete_at_once(f"{word}-old")

    def prepare(self, word: str) -> None:
        self.rule(f"{word}-edited", f"{word}-edited")
        self.rule(f"{word}-old", f"{word}-old", copy=f"{word}-shared")

    def wait_prepared(self, word: str) -> None:
        until(lambda: self.copy(f"{word}-edited"), "the first rule's copy is there")
        until(lambda: self.copy(f"{word}-shared"), "the second one's, too")
        self.rule(f"{word}-heir", f"{word}-heir", copy=f"{word}-shared")

    def is_as_meant(self, word: str) -> bool:
        heir = {"from": f"{word}-heir"}
        return (
            self.copy(f"{word}-new") == {"from": f"{word}-new"}
            and self.copy(f"{word}-renamed") == {"from": f"{word}-edited"}
            and self.copy(f"{word}-edited") is None
            and self.copy(f"{word}-shared") == heir
        )

    def wait_as_meant(self, word: str) -> None:
        def what() -> str:
            names = ("new", "renamed", "edited", "shared")
            found = {name: self.copy(f"{word}-{name}") for name in names}
            return f"all is as meant: {found}\n{self.operator.log.read_text()}"

        until(lambda: self.is_as_meant(word), what, SEEN)


@pytest.fixture(scope="module")
def scene(cluster: Cluster, api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    logs: Path = tmp_path_factory.mktemp("before")
    user, word = User(api), f"w{secrets.token_hex(3)}"
    with FaultProxy(cluster) as proxy, deploy(cluster, logs / "operator.log", DATA) as operator:
        operator.kubeconfig = proxy.kubeconfig(operator.kubeconfig, logs / "kubeconfig")
        scene = Scene(user, operator, proxy, f"{word}-source", f"{word}-target")
        for namespace in (scene.source, scene.target):
            api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        yield scene
    for namespace in (scene.source, scene.target):
        api.delete(f"/api/v1/namespaces/{namespace}")


def after_the_start(operator: Operator, *verbs: str) -> Callable[[Seen], bool]:
    """These requests about rules, once the operator has listed them for itself."""
    of_rules = only(*verbs, of=("copyrators",))
    return lambda one: of_rules(one) and "Started:" in operator.log.read_text()


def test_what_happens_between_our_list_and_kopfs_is_seen(scene: Scene) -> None:
    released = threading.Event()
    scene.prepare("start")
    with scene.proxy.fault(holds(released), after_the_start(scene.operator, "list", "watch")):
        scene.operator.start()
        scene.wait_prepared("start")
        scene.meddle("start")
        assert scene.copy("start-new") is None, "kopf has listed already"
        released.set()
        scene.wait_as_meant("start")


def test_what_happens_before_kopf_lists_again_after_a_410_is_seen(scene: Scene) -> None:
    scene.prepare("gone")
    scene.wait_prepared("gone")
    until(lambda: scene.user.condition(scene.operator.namespace, "gone-heir"), "the heir waits")
    released, began = threading.Event(), time.monotonic()
    lists, watches = only("list", of=("copyrators",)), only("watch", of=("copyrators",))
    with scene.proxy.fault(holds(released), lists):
        with scene.proxy.fault(fails_within(410, "Expired"), watches):
            until(lambda: [one for one in scene.proxy.met(began) if lists(one)], "kopf lists again")
            scene.meddle("gone")
            assert scene.copy("gone-new") is None, "kopf watches still"
        released.set()
        scene.wait_as_meant("gone")
