"""Namespaces, sources, rules and other people's objects that change at random.

What is decided comes from the seeded generator and from what was decided before, never from the
cluster's answers: a seed makes the same changes again. What the copies should be by now is the
oracle's to say (oracle.py).
"""

from __future__ import annotations

import base64
import contextlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.e2e.operator_process import until

from localcluster import Api
from localcluster.api import ApiStatusError

OURS = "app.kubernetes.io/managed-by"
RULE = "copyrator.flant.com/rule"
IGNORE = "copyrator.flant.com/ignore"
PLURALS = {"ConfigMap": "configmaps", "Secret": "secrets"}
KINDS = tuple(PLURALS)
TEAMS = ("red", "blue")
TIERS = ("front", "back")
NAMES = ("app", "creds", "extra", "settings")
GONE = 120.0
"""Seconds that the end of a rule or namespace may take on a loaded machine."""

Place = tuple[str, str, str]
"""Kind, namespace and name."""


Mark = tuple[str, str]
"""uid and resourceVersion: an object that nobody has touched keeps both."""


@dataclass
class Source:
    labels: dict[str, str]
    data: dict[str, str]
    mark: Mark


@dataclass
class Rule:
    form: str
    spec: dict[str, Any]


@dataclass
class Churn:
    """The world of one operator: all names begin with `word`, so that others' stay out of it."""

    api: Api
    random: Random
    home: str
    word: str
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    """The targets, with their labels."""
    sources: dict[Place, Source] = field(default_factory=dict)
    rules: dict[str, Rule] = field(default_factory=dict)
    foreign: dict[Place, Mark] = field(default_factory=dict)
    """Objects that aren't the operator's."""
    serial: Iterator[int] = field(default_factory=itertools.count)

    def begin(self, namespaces: int = 5) -> None:
        """A world to start from: some of everything, and foreign objects in the way."""
        for home in self.homes:
            self._create_namespace(home, {})
        for _ in range(namespaces):
            self._new_namespace()
        for kind, home, name in itertools.product(KINDS, self.homes, NAMES):
            if self.random.random() < 0.6:
                self._put_source((kind, home, name))
        for _ in range(4):
            self._plant_foreign()
        for form in FORMS:
            self._new_rule(form)

    def change(self, *, up: bool = True) -> str:
        """Change one thing and say what; `up` where an operator runs that may have to help."""
        changes: list[tuple[int, Callable[[], str]]] = [
            (2, self._new_namespace),
            (2, self._drop_namespace),
            (1, self._renew_namespace),
            (3, self._relabel_namespace),
            (8, self._change_source),
            (3, self._drop_source),
            (4, self._change_rule),
            (2, self._replace_rule),
            (1 if up else 0, self._renew_rule),
            (2, self._plant_foreign),
            (3, self._edit_copy),
            (2, self._delete_copy),
        ]
        weights = [weight for weight, _ in changes]
        ((_, chosen),) = self.random.choices(changes, weights)
        return f"{chosen.__name__.strip('_')} {chosen()}"

    def finish(self) -> None:
        """The last change: no rule is suspended any more."""
        for name, rule in self.rules.items():
            if rule.spec["suspend"]:
                self._change_spec(name, {**rule.spec, "suspend": False})

    @property
    def homes(self) -> tuple[str, str]:
        """The namespaces of the sources."""
        return f"{self.word}src-a", f"{self.word}src-b"

    # --- namespaces ------------------------------------------------------------------------------

    def _new_namespace(self) -> str:
        if len(self.namespaces) > 7:
            return self._drop_namespace()
        name = f"{self.word}-{next(self.serial)}"
        self._make_namespace(name)
        return f"{name} {self.namespaces[name]}"

    def _drop_namespace(self) -> str:
        if len(self.namespaces) < 3:
            return self._new_namespace()
        name = self._pick(self.namespaces)
        self._end_namespace(name)
        return name

    def _renew_namespace(self) -> str:
        """Delete a namespace, and make it again as soon as that is possible."""
        name = self._pick(self.namespaces)
        self._end_namespace(name)
        self._wait_gone(f"/api/v1/namespaces/{name}")
        self._make_namespace(name)
        return f"{name} {self.namespaces[name]}"

    def _relabel_namespace(self) -> str:
        name = self._pick(self.namespaces)
        self.namespaces[name] = labels = self._labels_of_namespace()
        every = {"team": None, IGNORE: None, **labels}
        self.api.patch(f"/api/v1/namespaces/{name}", {"metadata": {"labels": every}})
        return f"{name} {labels}"

    def _labels_of_namespace(self) -> dict[str, str]:
        ignored = {IGNORE: "true"} if self.random.random() < 0.15 else {}
        return {"team": self.random.choice(TEAMS), **ignored}

    def _make_namespace(self, name: str) -> None:
        self.namespaces[name] = labels = self._labels_of_namespace()
        self._create_namespace(name, labels)

    def _create_namespace(self, name: str, labels: dict[str, str]) -> None:
        self.api.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})

    def _end_namespace(self, name: str) -> None:
        del self.namespaces[name]
        self.foreign = {place: mark for place, mark in self.foreign.items() if place[1] != name}
        self.api.delete(f"/api/v1/namespaces/{name}")

    # --- sources ---------------------------------------------------------------------------------

    def _change_source(self) -> str:
        """Change a source, or make one that isn't there."""
        kind, home = self.random.choice(KINDS), self.random.choice(self.homes)
        where = kind, home, self.random.choice(NAMES)
        self._put_source(where)
        return f"{where} {self.sources[where]}"

    def _put_source(self, where: Place) -> None:
        labels = {"tier": self.random.choice(TIERS)}
        data = {"key": f"value-{self.random.randrange(10**6)}", "other": "same"}
        body = body_of(where, data, labels)
        if where in self.sources:
            made = self.api.replace(path_of(*where), body)
        else:
            made = self.api.create(path_of(*where[:2]), body)
        self.sources[where] = Source(labels, data, mark_of(made))

    def _drop_source(self) -> str:
        if not self.sources:
            return self._change_source()
        where = self._pick(self.sources)
        del self.sources[where]
        self.api.delete(path_of(*where))
        return f"{where}"

    # --- rules -----------------------------------------------------------------------------------

    def _new_rule(self, form: str) -> str:
        name = f"{form}-{next(self.serial)}"
        self._create_rule(name, Rule(form, self._spec(form)))
        return f"{name} {self.rules[name].spec}"

    def _change_rule(self) -> str:
        name = self._pick(self.rules)
        self._change_spec(name, self._spec(self.rules[name].form))
        return f"{name} {self.rules[name].spec}"

    def _replace_rule(self) -> str:
        """Delete a rule, and make another of its form, which may want the same copies."""
        name = self._pick(self.rules)
        form = self.rules.pop(name).form
        self.api.delete(self.rule_path(name))
        return f"{name} by {self._new_rule(form)}"

    def _renew_rule(self) -> str:
        """Delete a rule, and make one of the same name as soon as its copies are gone."""
        name = self._pick(self.rules)
        form = self.rules.pop(name).form
        self.api.delete(self.rule_path(name))
        self._wait_gone(self.rule_path(name))
        self._create_rule(name, Rule(form, self._spec(form)))
        return f"{name} {self.rules[name].spec}"

    def _create_rule(self, name: str, rule: Rule) -> None:
        body = {"apiVersion": "flant.com/v1", "kind": "CopyratorRule", "spec": rule.spec}
        self.api.create(self.rule_path(), {**body, "metadata": {"name": name}})
        self.rules[name] = rule

    def _change_spec(self, name: str, spec: dict[str, Any]) -> None:
        patch = [{"op": "replace", "path": "/spec", "value": spec}]
        self.api.patch(self.rule_path(name), patch, kind="json-patch")
        self.rules[name].spec = spec

    def _spec(self, form: str) -> dict[str, Any]:
        spec = FORMS[form](self.random, self.homes)
        targets = {"namespaces": [f"{self.word}-*"], **spec.pop("targets", {})}
        if self.random.random() < 0.3:
            targets["exclude"] = [f"{self.word}-*{self.random.randrange(10)}"]
        return {**spec, "targets": targets, "suspend": self.random.random() < 0.1}

    def rule_path(self, name: str = "") -> str:
        path = f"/apis/flant.com/v1/namespaces/{self.home}/copyrators"
        return f"{path}/{name}" if name else path

    # --- what others do to copies, and beside them -----------------------------------------------

    def _plant_foreign(self) -> str:
        """Put somebody else's object where a copy may want to be."""
        name = self.random.choice(NAMES) + self.random.choice(["", "-copy"])
        where = self.random.choice(KINDS), self._pick(self.namespaces), name
        # The label alone, such as somebody copies from somewhere, makes it nobody's.
        labels = {OURS: "copyrator"} if self.random.random() < 0.3 else {}
        with contextlib.suppress(ApiStatusError):  # a copy, or another one, stands there
            body = body_of(where, {"key": "foreign"}, labels)
            self.foreign[where] = mark_of(self.api.create(path_of(*where[:2]), body))
        return f"{where}"

    def _edit_copy(self) -> str:
        where = self._some_copy()
        if guard := self._guard_of_copy(where):
            data = {"key": base64.b64encode(b"drift").decode()}
            with contextlib.suppress(ApiStatusError):
                self.api.patch(path_of(*where), {"metadata": guard, "data": data})
        return f"{where}"

    def _delete_copy(self) -> str:
        where = self._some_copy()
        if guard := self._guard_of_copy(where):
            with contextlib.suppress(ApiStatusError):
                self.api.delete(path_of(*where), {"preconditions": guard})
        return f"{where}"

    def _some_copy(self) -> Place:
        name = self.random.choice(NAMES) + self.random.choice(["", "-copy"])
        return self.random.choice(KINDS), self._pick(self.namespaces), name

    def _guard_of_copy(self, where: Place) -> dict[str, str] | None:
        """What makes sure that the copy is hit, and nothing that takes its place."""
        try:
            found = self.api.get(path_of(*where))
        except ApiStatusError:
            return None
        if RULE not in found["metadata"].get("annotations", {}):
            return None
        return dict(zip(("uid", "resourceVersion"), mark_of(found), strict=True))

    # --- helpers ---------------------------------------------------------------------------------

    def _pick(self, things: Any) -> Any:
        return self.random.choice(sorted(things))

    def _wait_gone(self, path: str) -> None:
        def gone() -> bool:
            try:
                self.api.get(path)
            except ApiStatusError as error:
                if error.code != 404:
                    raise
                return True
            return False

        until(gone, f"{path} is gone", GONE)


def mark_of(found: dict[str, Any]) -> Mark:
    return found["metadata"]["uid"], found["metadata"]["resourceVersion"]


def path_of(kind: str, namespace: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/{PLURALS[kind]}" + (f"/{name}" if name else "")


def body_of(where: Place, data: dict[str, str], labels: dict[str, str]) -> dict[str, Any]:
    texts = "stringData" if where[0] == "Secret" else "data"
    return {"metadata": {"name": where[2], "labels": labels}, texts: data}


# --- forms of rules ------------------------------------------------------------------------------

Homes = tuple[str, str]


def _by_name(random: Random, homes: Homes) -> dict[str, Any]:
    source = {"kind": "ConfigMap", "namespaces": [random.choice(homes)]}
    return {"source": {**source, "name": random.choice(NAMES)}}


def _rival(random: Random, homes: Homes) -> dict[str, Any]:
    """Wants what _by_name wants, too, and has sources of one name."""
    selector = {"matchLabels": {"tier": random.choice(TIERS)}}
    namespaces = random.sample(homes, 2)
    return {"source": {"kind": "ConfigMap", "namespaces": namespaces, "selector": selector}}


def _by_label(random: Random, homes: Homes) -> dict[str, Any]:
    source = {"kind": "Secret", "namespaces": random.sample(homes, random.randint(1, 2))}
    source["selector"] = {"matchLabels": {"tier": random.choice(TIERS)}}
    return {
        "source": source,
        "targets": {"selector": {"matchLabels": {"team": random.choice(TEAMS)}}},
    }


def _renamed(random: Random, homes: Homes) -> dict[str, Any]:
    kind = random.choice(KINDS)  # a rule that changes its kind leaves copies of the former one
    source = {"kind": kind, "namespaces": [random.choice(homes)], "name": random.choice(NAMES)}
    transform = {
        "name": "{{ source.name }}-copy",
        "keys": {"rename": {"key": random.choice(["password", "token"])}},
        "labels": {"add": {"made": "yes"}},
    }
    return {"source": source, "transform": transform}


def _rendered(random: Random, homes: Homes) -> dict[str, Any]:
    texts = {"namespace": "{{ namespace.name }}", "team": "{{ namespace.labels.team }}"}
    template = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "rendered"},
        "data": {**texts, "key": f"{random.randrange(10**6)}"},
    }
    return {"template": template}


FORMS: dict[str, Callable[[Random, Homes], dict[str, Any]]] = {
    "by-name": _by_name,
    "rival": _rival,
    "by-label": _by_label,
    "renamed": _renamed,
    "rendered": _rendered,
}
