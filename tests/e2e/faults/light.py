"""A small world that changes a little: a source, its rule, namespaces, a Bundle. And what is right.

Everything is changed by a way of its own to the API server, never through the proxy.
"""

import base64
import contextlib
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.bundles.conftest import Team

from localcluster import Api
from localcluster.api import ApiStatusError

PAUSE = 1.5
"""Seconds between two changes."""
LABEL = "light"


@dataclass
class Light:
    """The home is the operator's namespace, whose rules it trusts."""

    api: Api
    home: str
    team: Team
    word: str = field(default_factory=lambda: f"l{secrets.token_hex(3)}")
    step: int = 0
    targets: list[str] = field(default_factory=list)

    def begin(self, targets: int = 3) -> None:
        self.api.create(f"/api/v1/namespaces/{self.home}/secrets", self._source())
        rule = {"apiVersion": "flant.com/v1", "kind": "CopyratorRule", "spec": self._spec()}
        self.api.create(self._rules(), {**rule, "metadata": {"name": self.word}})
        for _ in range(targets):
            self._new_namespace()
        self.team.publish("1.0.0", "first")
        self.team.bundle(self.word)

    def change(self) -> None:
        """The source, the rule and the Bundle; now and then there is a new namespace."""
        self.step += 1
        self.api.replace(f"/api/v1/namespaces/{self.home}/secrets/{self.word}", self._source())
        self.api.patch(self._rules(self.word), {"spec": self._spec()})
        # Seen by the status; no reason to deploy.
        self.team.patch("bundles", self.word, spec={"timeout": f"{600 + self.step}s"})
        if self.step % 8 == 0 and len(self.targets) < 6:
            self._new_namespace()

    @contextmanager
    def changing(self, *, undeterred: bool = False) -> Iterator[None]:
        """Change something every `PAUSE` seconds for the length of a block.

        With `undeterred` the API server may be away meanwhile; `change` then has to be called once
        more in the end, because any of its parts may have failed.
        """
        over = threading.Event()
        failed: list[BaseException] = []

        def work() -> None:
            try:
                while not over.wait(PAUSE):
                    with contextlib.suppress(*((OSError, ApiStatusError) if undeterred else ())):
                        self.change()
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=work, name="changes")
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
        assert not failed, failed

    def wrong(self) -> list[str]:
        """What isn't as it should be by now."""
        found = [f"the copy in {name}" for name in self.targets if not self._is_right(name)]
        rule, bundle = self.api.get(self._rules(self.word)), self.team.get("bundles", self.word)
        for what, body in (("rule", rule), ("Bundle", bundle or {})):
            status = body.get("status", {})
            ready = {one["type"]: one["status"] for one in status.get("conditions", [])}
            seen = status.get("observedGeneration") == body["metadata"]["generation"]
            if not seen or ready.get("Ready") != "True":
                found.append(f"the {what}: {ready}, its last state {'' if seen else 'not '}seen")
        return found

    def _is_right(self, namespace: str) -> bool:
        try:
            copy = self.api.get(f"/api/v1/namespaces/{namespace}/secrets/{self.word}")
        except ApiStatusError:
            return False
        value = base64.b64decode(copy["data"]["step"]).decode()
        label = copy["metadata"]["labels"].get(LABEL)
        return (value, label) == (str(self.step), f"s{self.step}")

    def _new_namespace(self) -> None:
        name = f"{self.word}-{len(self.targets)}"
        self.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        self.targets.append(name)

    def _source(self) -> dict[str, Any]:
        return {"metadata": {"name": self.word}, "stringData": {"step": str(self.step)}}

    def _spec(self) -> dict[str, Any]:
        return {
            "source": {"kind": "Secret", "name": self.word},
            "targets": {"namespaces": [f"{self.word}-*"]},
            "transform": {"labels": {"add": {LABEL: f"s{self.step}"}}},
        }

    def _rules(self, name: str = "") -> str:
        path = f"/apis/flant.com/v1/namespaces/{self.home}/copyrators"
        return f"{path}/{name}" if name else path
