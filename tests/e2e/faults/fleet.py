"""Bundles, tags and values that change at random, and a record of every attempt at a deploy.

The reasons for a deploy are counted here, as they are given: what the operator did is held
against that in test_crash_anywhere.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.e2e.bundles.conftest import TEMPLATE, Team
from tests.e2e.faults import attested

from localcluster.api import ApiStatusError

BROKEN = f"{TEMPLATE}---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: Not_A_Name\n"
"""The API server refuses it, so the deploy fails by werf's verdict. What was there before stays in
the chart: Helm uninstalls what its newest revision names, though that revision failed."""
NOT_FOUND = 404
RETRY = {"limit": 1, "backoff": "1s"}


@dataclass
class Release:
    """One Bundle as its users know it."""

    uid: str
    tag: str
    digests: list[str]
    """Pushed to the tag since the Bundle was made, in order; what was deployed comes first."""
    text: str
    follows_tags: bool = False
    """The Bundle takes the highest tag, so a push may be of a new one."""
    greeting: str | None = None
    """What its values say, where it has some."""
    broken: bool = False
    """What was pushed last can't be deployed."""
    is_gated: bool = False
    """Its deploys are planned, and wait for approval."""
    approved: set[str] = field(default_factory=set)
    """IDs of plans that somebody has approved."""
    reasons: int = 0
    """How many times somebody gave a reason for a deploy: a push, an edit, a wish."""
    is_corrected: bool = False
    """Its drift is put right."""
    edits: int = 0
    """How many times somebody edited its object by hand."""


@dataclass
class Fleet:
    """The Bundles of one team."""

    team: Team
    random: Random
    live: dict[str, Release] = field(default_factory=dict)
    gone: dict[str, Release] = field(default_factory=dict)
    serial: Iterator[int] = field(default_factory=itertools.count)
    public_key: bytes = b""

    def begin(self, bundles: int = 3) -> None:
        """Some Bundles; every second one has approval, and all attest what they run."""
        self.public_key = attested.make_key(self.team)
        for _ in range(bundles):
            self._new_bundle()

    def change(self) -> str:
        """Change one thing and say what."""
        changes: list[tuple[int, Callable[[], str]]] = [
            (4, self._push),
            (1, self._push_broken),
            (2, self._edit_values),
            (2, self._edit_spec),
            (1, self._edit_what_does_not_matter),
            (1, self._request),
            (1, self._force),
            (1, self._replace_bundle),
            (2, self._edit_by_hand),
            (4, self._approve),
            (1, self._reject),
            (1, self._forget_decisions),
        ]
        weights = [weight for weight, _ in changes]
        ((_, chosen),) = self.random.choices(changes, weights)
        return f"{chosen.__name__.strip('_')} {chosen()}"

    def finish(self) -> None:
        """The last change: what can't be deployed is replaced, and drift isn't recurring."""
        for name, release in self.live.items():
            if release.broken or release.is_corrected:
                self._publish(name, release, broken=False)

    def edit_all_by_hand(self) -> None:
        """What is put right by corrections alone: nothing is pushed after it."""
        for name, release in self.live.items():
            if release.is_corrected:
                assert self._edit(name)

    def approve_all(self) -> list[str]:
        """Approve what waits, also what was rejected; says what."""
        return [self._decide(name, "approved-plan") for name in self.live]

    def _new_bundle(self) -> str:
        number = next(self.serial)
        name = f"app{number}"
        release = Release("", "1.0.0", [], "", follows_tags=self.random.random() < 0.5)
        self._publish(name, release, broken=False)
        spec: dict[str, Any] = {"version": "1.*" if release.follows_tags else "1.0.0"}
        spec |= {"retry": RETRY, "attest": attested.ATTEST}
        if number % 2 == 0:
            release.is_gated = True
            spec["approval"] = {"mode": "Always"}
        if self.random.random() < 0.5:
            release.greeting = self._word()
            self.team.create("configmaps", f"{name}-values", data=_values(release.greeting))
            spec["values"] = f"{name}-values"
        release.is_corrected = number == 0 or self.random.random() < 0.5
        if release.is_corrected:
            spec["drift"] = {"mode": "Correct"}
        made = self.team.bundle(name, repo=self.repo(name), **spec)
        release.uid = made["metadata"]["uid"]
        self.live[name] = release
        return f"{name} {spec}"

    def _push(self) -> str:
        name = self._pick()
        self._publish(name, self.live[name], broken=False)
        return f"{name} {self.live[name].tag} {self.live[name].text}"

    def _push_broken(self) -> str:
        name = self._pick()
        self._publish(name, self.live[name], broken=True)
        return f"{name} {self.live[name].tag} {self.live[name].text}"

    def _publish(self, name: str, release: Release, *, broken: bool) -> None:
        if release.follows_tags and release.digests and self.random.random() < 0.5:
            release.tag = f"1.{len(release.digests)}.0"
        template = BROKEN if broken else TEMPLATE
        release.text, release.broken = self._word(), broken
        repo = self.repo(name)
        digest = self.team.publish(release.tag, release.text, repo=repo, template=template)
        release.digests.append(digest)
        release.reasons += 1

    def _edit_values(self) -> str:
        name = self._pick()
        release = self.live[name]
        if release.greeting is None:
            return self._push()
        release.greeting = self._word()
        release.reasons += 1
        self.team.patch("configmaps", f"{name}-values", data=_values(release.greeting))
        return f"{name} {release.greeting}"

    def _edit_spec(self) -> str:
        name = self._pick()
        self.live[name].reasons += 1
        self.team.patch("bundles", name, spec={"env": {"WERF_ENV": self._word()}})
        return name

    def _edit_what_does_not_matter(self) -> str:
        """No reason for a deploy; a failed one is tried afresh after any edit of the spec."""
        name = self._pick()
        release = self.live[name]
        release.reasons += release.broken
        self.team.patch("bundles", name, spec={"timeout": f"{self.random.randint(600, 999)}s"})
        return name

    def _request(self) -> str:
        name = self._pick()
        self.live[name].reasons += 1
        self.team.annotate(name, requestedAt=self._word())
        return name

    def _force(self) -> str:
        """The original's way to ask for a deploy."""
        name = self._pick()
        self.live[name].reasons += 1
        path = f"{self.team.path('bundles', name)}/status"
        self.team.api.patch(path, {"status": {"forceUpdate": 1}})
        return name

    def _replace_bundle(self) -> str:
        """Delete a Bundle, whose release goes, and make another."""
        name = self._pick()
        self.gone[name] = self.live.pop(name)
        self.team.delete("bundles", name)
        return f"{name} by {self._new_bundle()}"

    def _edit_by_hand(self) -> str:
        """Edit an object of a release, and ask for a plan, by which that is found."""
        found = [name for name in sorted(self.live) if self.live[name].is_corrected]
        if not found:
            return self._push()
        name = self.random.choice(found)
        return name if self._edit(name) else f"{name}, which isn't deployed yet"

    def _edit(self, name: str) -> bool:
        try:
            self.team.patch("configmaps", f"{name}-app", data={"text": self._word()})
        except ApiStatusError as error:
            if error.code != NOT_FOUND:
                raise
            return False
        self.live[name].edits += 1
        self.team.annotate(name, **{"plan-at": self._word()})
        return True

    def _approve(self) -> str:
        return self._decide(self._pick(), "approved-plan")

    def _reject(self) -> str:
        return self._decide(self._pick(), "rejected-plan")

    def _decide(self, name: str, verb: str) -> str:
        """Decide about the plan that waits, if one does."""
        plan = self.team.status(name).get("plan", {})
        if plan.get("outcome") != "Planned" or plan.get("decision") == "Approved":
            return f"{name}: no plan waits"
        if verb == "approved-plan":
            self.live[name].approved.add(plan["id"])
        both = {"approved-plan": None, "rejected-plan": None, "approved-by": "ann"}
        self.team.annotate(name, **both | {verb: plan["id"]})
        return f"{name} {plan['id']}"

    def _forget_decisions(self) -> str:
        """A GitOps tool takes away what isn't in its repository."""
        name = self._pick()
        gone = ("approved-plan", "rejected-plan", "approved-by")
        self.team.annotate(name, **dict.fromkeys(gone))
        return name

    def repo(self, name: str) -> str:
        """Of a Bundle."""
        return f"{self.team.repo}/{name}"

    def _word(self) -> str:
        return f"w{self.random.randrange(10**6)}"

    def _pick(self) -> str:
        return self.random.choice(sorted(self.live))


def _values(greeting: str) -> dict[str, str]:
    return {"values.yaml": f"greeting: {greeting}\n"}
