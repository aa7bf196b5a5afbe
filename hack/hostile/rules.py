"""Rules that are bad in one way each."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from hostile import texts
from hostile.bad import RULES, Bad, Places, metadata

EVERYWHERE = {"namespaces": ["*"]}


def templates(random: Random, places: Places, name: str) -> Bad:
    """Jinja where a rule may hold it, in one text or in thousands."""
    most = random.choice((1_000, texts.FIELD, 200_000, texts.BODY - 10_000))
    data = {f"k{n}": text for n, text in enumerate(_filled(random, most))}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": data}
    if random.random() < 0.2:
        body["metadata"] = {"name": texts.text(random, 1_024)}
    return _rule(random, places, name, {"spec": {"template": body, "targets": EVERYWHERE}})


def _filled(random: Random, most: int) -> Iterator[str]:
    """Mean texts of `most` bytes in all, as JSON: a megabyte in one, or many."""
    left = most
    each = random.choice((most // 1_000 + 1, 5_000, texts.FIELD, texts.BODY))
    while left > 20:
        text = texts.text(random, min(each, left))
        yield text
        left -= len(repr(text).encode()) + 20


def deep(random: Random, places: Places, name: str) -> Bad:
    """A template that is nested, or wide, or not an object."""
    value: Any = random.choice(
        (
            lambda: texts.deep(random.choice((60, 65, 300, 2_000, 9_000))),
            lambda: texts.deep(5_000, is_list=True),
            lambda: [0] * _many(random),
            lambda: {f"k{n}": "{{ a }}" for n in range(_many(random))},
            lambda: [{}] * _many(random),
            lambda: texts.value(random),
        )
    )()
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": value}
    return _rule(random, places, name, {"spec": {"template": body, "targets": EVERYWHERE}})


def old_form(random: Random, places: Places, name: str) -> Bad:
    """The old form, whose selector and namespace have no type."""
    selector = random.choice(
        (
            lambda: {f"k{n}": "v" for n in range(_many(random))},
            lambda: ",".join(f"k{n}=v" for n in range(_many(random))),
            lambda: "=" * 1_000_000,
            lambda: texts.text(random, 1_000_000),
            lambda: texts.value(random),
            lambda: {"app": "shop"},
        )
    )()
    homes = random.choice(
        (
            lambda: [f"n{n}" for n in range(_many(random))],
            lambda: texts.text(random, 300_000),
            lambda: texts.value(random),
            lambda: [*places.evil, "kube-system", "default"],
            lambda: places.evil[0],
        )
    )()
    content = {"ruleType": random.choice(("secret", "ConfigMap", "9" * 63)), "selector": selector}
    return _rule(random, places, name, {**content, "namespace": homes})


def selectors(random: Random, places: Places, name: str) -> Bad:
    """As many globs, keys, expressions and names as the CRD lets through."""
    label = {"matchLabels": {f"k{n}": "v" for n in range(64)}}
    expressions = [
        {"key": f"k{n}", "operator": "NotIn", "values": [f"v{m}" for m in range(64)]}
        for n in range(64)
    ]
    globs = [f"{'*a' * 28}{n}*"[:63] for n in range(1_000)]
    spec: dict[str, Any] = {
        "source": {"kind": random.choice(("Secret", "ConfigMap")), "name": "mean"},
        "targets": {
            "namespaces": globs if random.random() < 0.7 else ["*"],
            "exclude": globs[: random.choice((0, 10, 1_000))],
        },
    }
    if random.random() < 0.5:
        spec["targets"]["selector"] = {**label, "matchExpressions": expressions}
    if random.random() < 0.5:
        del spec["source"]["name"]
        spec["source"]["selector"] = {"matchExpressions": expressions}
    if random.random() < 0.3:
        spec["source"]["namespaces"] = [f"n{n}" for n in range(1_000)]
    if random.random() < 0.5:
        spec["transform"] = _transform(random)
    return _rule(random, places, name, {"spec": spec})


def _transform(random: Random) -> dict[str, Any]:
    return {
        "name": texts.text(random, 1_024),
        "keys": {
            "include": [f"{'*a' * 100}{n}*" for n in range(1_000)],
            "rename": {f"k{n}": f"r{n}" for n in range(1_000)},
        },
        "labels": {"add": {f"k{n}": "v" for n in range(64)}, "remove": ["*a" * 100] * 64},
        "annotations": {
            "add": {f"k{n}": texts.text(random, 10_000) for n in range(random.choice((1, 64)))}
        },
    }


def of_tenants(random: Random, places: Places, name: str) -> Bad:
    """What is served where tenant rules are on: it copies his sources wherever it may."""
    source: dict[str, Any] = {"kind": random.choice(("ConfigMap", "Secret"))}
    if random.random() < 0.5:
        source["name"] = f"sources-{random.randrange(4)}"
    else:
        source["selector"] = random.choice(
            ({}, {"matchLabels": {f"k{random.randrange(1_000)}": "v"}})
        )
    spec: dict[str, Any] = {"source": source, "targets": {"namespaces": ["*"]}}
    if random.random() < 0.7:
        spec["transform"] = {"name": texts.text(random, 1_024)}
    if random.random() < 0.3:
        spec["onConflict"] = random.choice(("Adopt", "Overwrite"))
    spec["limit"] = random.choice((1, 10_000_000))
    return _rule(random, places, name, {"spec": spec})


def raw(random: Random, places: Places, name: str) -> Bad:
    """Any JSON where the CRD has no type, and where it has one."""
    form = random.choice(
        (
            lambda: {"spec": texts.value(random)},
            lambda: {"spec": {"source": texts.value(random)}},
            lambda: {"spec": {"template": texts.value(random)}},
            lambda: {"ruleType": "secret", "selector": texts.value(random, 5)},
            lambda: {"ruleType": "secret", "namespace": texts.value(random, 5)},
            lambda: {"spec": {"template": {"kind": "ConfigMap", "apiVersion": "v1"}}},
        )
    )()
    return _rule(random, places, name, form)


def _many(random: Random) -> int:
    """Parts of a value: some thousands most times, because many cost the API server seconds."""
    return random.choice((65, 1_000, 2_000, 3_000, 5_000, 5_000, 60_000))


def _rule(random: Random, places: Places, name: str, content: dict[str, Any]) -> Bad:
    marks = metadata(random) if random.random() < 0.2 else {}
    status = _rule_status(random) if random.random() < 0.3 else None
    where = random.choice(places.evil)
    return Bad(RULES, where, name, {"metadata": marks, **content}, status)


def _rule_status(random: Random) -> dict[str, Any]:
    return {
        "observedGeneration": random.choice((-1, 0, 2**62)),
        "conditions": [
            {
                "type": f"T{n}",
                "status": "True",
                "reason": "R",
                "message": "x" * random.choice((1, 30_000)),
                "lastTransitionTime": "0001-01-01T00:00:00Z",
            }
            for n in range(random.choice((0, 1, 8)))
        ],
        "copies": {"desired": 2**62, "ready": -(2**62)},
    }
