"""Bundles and their values that are bad, or whose registry is."""

from __future__ import annotations

from random import Random
from typing import Any

from hostile import texts
from hostile.bad import BUNDLES, CONFIG_MAPS, SECRETS, Bad, Places, data_object, metadata
from hostile.contents import CHARTS, PUBLIC_KEY, SIGNED
from hostile.registry import KINDS


def _bundle(random: Random, places: Places, name: str, **spec: Any) -> Bad:
    """A Bundle on the hostile registry."""
    content = {
        "registry": places.registry,
        "repo": f"{random.choice(KINDS)}/app",
        "version": random.choice(("latest", "*", "*", ">=0.1 <2", "1.*")),
        "insecure": True,
        "interval": "10s",
        "deletionPolicy": "Orphan",
        **spec,
    }
    marks = metadata(random) if random.random() < 0.1 else {}
    status = _bundle_status(random) if random.random() < 0.2 else None
    where = random.choice(places.evil)
    return Bad(BUNDLES, where, name, {"metadata": marks, "spec": content}, status)


def on_bad_registry(random: Random, places: Places, name: str) -> Bad:
    """The registry is what is hostile."""
    number = int(name.rpartition("-")[2]) % len(KINDS)
    kind = KINDS[number]
    return _bundle(random, places, name, repo=f"{kind}/app{random.randrange(3)}")


def specs(random: Random, places: Places, name: str) -> Bad:
    """Every field at its limit, or mean."""
    spec: dict[str, Any] = {
        "version": random.choice(
            (
                ">=" + texts.digits(250),
                " || ".join(f">={n}" for n in range(40)),
                " ".join(["<1"] * 80),
                "x" * 256,
                "*." * 100,
                "1.2.3-" + "a." * 100 + "1",
                "~" * 200,
                "- " * 100,
            )
        ),
        "tagFilter": random.choice(
            ("(a*)*" * 40, "(" * 250, "a{1000}" * 30, "(a{1,1000}){1,1000}", "[" * 200, ".*" * 120)
        ),
        "env": random.choice(
            (
                lambda: {f"K{n}": texts.text(random, 5_000) for n in range(256)},
                lambda: {"K": texts.deep(2_000)},
                lambda: {"K": texts.text(random, texts.BODY - 5_000)},
                lambda: {texts.text(random, 1_000_000): "x"},
                lambda: {"K": 10**300},
                lambda: texts.value(random),
            )
        )(),
        "job": {
            "podLabels": {f"k{n}": "v" for n in range(64)},
            "resources": {"limits": {"cpu": "9" * 60}},
        },
    }
    for key in random.sample(sorted(spec), random.randrange(3)):
        del spec[key]
    return _bundle(random, places, name, **spec)


def gated(random: Random, places: Places, name: str) -> Bad:
    """Bundles that are planned, compared, verified and decided about, all with junk.

    Most come in turn from the repositories of `contents`.
    """
    number = random.randrange(len(SIGNED) + len(CHARTS) + 1)
    is_signed = number < len(SIGNED)
    repository = f"signed/app{number}" if is_signed else f"charts/app{number - len(SIGNED)}"
    spec: dict[str, Any] = {
        "repo": repository if random.random() < 0.9 else "good/app",
        "version": "*",
        "approval": {"mode": random.choice(("Always", "OnRisk")), "expires": "1m"},
        "drift": {
            "mode": random.choice(("Detect", "Correct")),
            "interval": "15m",
            "ignore": [{"kind": f"K{n}", "name": "*a" * 20} for n in range(50)],
        },
        "env": random.choice(
            (
                lambda: {f"WERF_SET_{n}": "a=b" for n in range(256)},
                lambda: {"WERF_SET_A": texts.text(random, 60_000), "GODEBUG": "x"},
                lambda: {"WERF_SECRET_KEY": "x", "LD_PRELOAD": "/x", "WERF_VALUES_1": "/proc/1"},
                lambda: {text[:5_000]: "x" for text in texts.MEAN},
            )
        )(),
        "secretKey": {"secretName": random.choice(("values-0", "gone")), "key": "values.yaml"},
        "job": {
            "podLabels": {random.choice(("k", "operator.werf.dev/job")): "plan"},
            "podAnnotations": {f"k{n}": texts.text(random, 2_000) for n in range(60)},
        },
    }
    if is_signed:
        keys = {"kind": "ConfigMap", "name": f"keys-{random.choice((0, 0, 0, 1, 2))}"}
        spec["verify"] = {"anyOf": [{"cosign": {"keysFrom": keys}}] * random.choice((1, 10))}
    # Most are good enough to be deployed, and so to be verified and read.
    for key in random.sample(("drift", "env", "secretKey", "job"), random.choice((1, 3, 4, 4))):
        del spec[key]
    made = _bundle(random, places, name, **spec)
    made = Bad(made.where, places.evil[0], made.name, made.content, made.status)
    annotations = made.content["metadata"].setdefault("annotations", {})
    for key in ("approved-plan", "rejected-plan", "approved-by", "plan-at", "plan-version", "hold"):
        if random.random() < 0.4:
            mean = random.choice(("a" * 16, ">=0", texts.text(random, 20_000)))
            annotations[f"operator.werf.dev/{key}"] = mean
    return made


def keys(random: Random, places: Places, name: str) -> Bad:
    """Keys that `gated` names: a good one, many, and junk."""
    number = int(name.rpartition("-")[2])
    data = (
        {"key": PUBLIC_KEY},
        {f"k{n}": PUBLIC_KEY for n in range(3_000)},
        {"key": texts.text(random, 500_000), "b": PUBLIC_KEY[:60] + PUBLIC_KEY},
    )[number % 3]
    labels = {"k": texts.label_value(random)}
    return data_object(CONFIG_MAPS, places.evil[0], name, data, labels=labels)


def values(random: Random, places: Places, name: str) -> Bad:
    """Values of up to 1 MB each, that one Bundle or another names."""
    text = random.choice(
        (
            lambda: "\n".join(f"key{n}: value-{n}-{'x' * 20}" for n in range(25_000)),
            lambda: "\n".join(f"{n}: x" for n in range(90_000)),
            texts.aliases,
            lambda: texts.nested_yaml(random.choice((500, 100_000))),
            lambda: "a: " + texts.digits(900_000),
            lambda: "- " * 300_000,
            lambda: "{" * 900_000,
            lambda: "&a [*a]",
            lambda: "x" * 1_000_000,
            lambda: texts.text(random, 900_000),
        )
    )()
    secret = random.random() < 0.7
    name = f"values-{name.rpartition('-')[2]}"
    return data_object(
        SECRETS if secret else CONFIG_MAPS, places.evil[0], name, {"values.yaml": text}
    )


def of_values(random: Random, places: Places, name: str) -> Bad:
    """Names all of them."""
    kinds = ("Secret", "ConfigMap")
    named = [
        {"kind": kind, "name": f"values-{n}", "optional": True} for n in range(8) for kind in kinds
    ]
    made = _bundle(random, places, name, valuesFrom=named, repo="good/app", version="1.0.0")
    return Bad(made.where, places.evil[0], made.name, made.content, made.status)


def squatters(random: Random, places: Places, name: str) -> Bad:
    """A Bundle that says that a release of somebody else's is its own."""
    made = _bundle(random, places, name, project_namespace=places.victim)
    return Bad(made.where, made.namespace, random.choice(("shop", name)), made.content)


def _bundle_status(random: Random) -> dict[str, Any]:
    """What the holder of bundles/status may forge."""
    long = "x" * random.choice((1, 100_000))
    plan = {
        "job": random.choice(("jobs-0", "gated-0-plan-0", long)),
        "number": random.choice((-1, 1, 2**62)),
        "outcome": random.choice(("Running", "Succeeded", long)),
        "digest": "sha256:" + "a" * 64,
        "version": long,
        "attempt": 2**62,
        "id": random.choice(("a" * 16, long)),
    }
    return {
        "ready": 1,
        "forceUpdate": random.choice((0, 1)),
        "target": {"digest": long, "version": long},
        "deploy": {"digest": "sha256:" + "a" * 64, "version": texts.text(random, 10_000)},
        "observedGeneration": 2**62,
        "nextPollAt": random.choice(("9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z")),
        "attempted": {
            "job": random.choice(("x" * 10_000, "..", "bundles-0-deploy-0")),
            "attempt": 2**62,
            "failures": random.choice((-1, 2**62)),
            "outcome": "Running",
            "version": long,
        },
        "plan": plan,
        "drift": {"check": {key: value for key, value in plan.items() if key != "id"}},
    }
