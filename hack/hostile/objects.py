"""Whole objects that are bad in one way each, by category.

Everything is what the author of one namespace may write: the API server takes most of it, and what
it refuses is a try, too.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from hostile import texts

RULES = "apis/flant.com/v1", "copyrators"
BUNDLES = "apis/operator.werf.dev/v1", "bundles"
KINDS = {"copyrators": "CopyratorRule", "bundles": "Bundle"}
"""Kinds that a body has to name: those of custom resources."""
CONFIG_MAPS = "api/v1", "configmaps"
SECRETS = "api/v1", "secrets"
JOBS = "apis/batch/v1", "jobs"

SHARED = "shared"
"""Label of the sources that a trusted rule copies from a hostile namespace."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where the bad objects go, and what they are aimed at.

    Attributes:
        evil: namespaces of the hostile author.
        forged: namespaces of his into which the trusted rule `rule` copies its `source`.
        victim: a namespace of somebody else, for which `bundle` deploys.
        rule: `namespace/name` of the trusted rule.
        registry: `host:port` of the hostile registry.
    """

    evil: tuple[str, ...]
    forged: tuple[str, ...]
    victim: str
    rule: str
    registry: str


@dataclass(frozen=True, slots=True)
class Bad:
    """One bad object.

    Attributes:
        where: the API's path and the plural.
        namespace: its namespace; empty where the object is a Namespace.
        name: its name.
        content: all but apiVersion, kind and name.
        status: what is written to its status, if anything.
        manager: the field manager that the writer claims to be.
    """

    where: tuple[str, str]
    namespace: str
    name: str
    content: dict[str, Any]
    status: dict[str, Any] | None = None
    manager: str = "kubectl"

    @property
    def body(self) -> dict[str, Any]:
        """The whole object."""
        group, plural = self.where
        kind = {"apiVersion": group.removeprefix("apis/"), "kind": KINDS.get(plural)}
        metadata = {"name": self.name, **self.content["metadata"]}
        return {**(kind if plural in KINDS else {}), **self.content, "metadata": metadata}

    @property
    def collection(self) -> str:
        """The path that it is created by."""
        group, plural = self.where
        return f"/{group}/namespaces/{self.namespace}/{plural}"

    @property
    def path(self) -> str:
        """Its own path."""
        return f"{self.collection}/{self.name}"


Make = Callable[[Random, Places, str], Bad]


@dataclass(slots=True)
class Category:
    """One way to be bad; `ring` objects of it stand at a time, and each is written anew."""

    name: str
    make: Make
    ring: int = 4
    turns: int = field(default=0)

    def next(self, random: Random, places: Places) -> Bad:
        """The next object; names repeat, so that objects change, too."""
        self.turns += 1
        return self.make(random, places, f"{self.name}-{self.turns % self.ring}")


# --- rules ---------------------------------------------------------------------------------------


def _template_rule(random: Random, places: Places, name: str) -> Bad:
    """Jinja where a rule may hold it, in one text or in thousands."""
    most = random.choice((1_000, texts.FIELD, 200_000, texts.BODY - 10_000))
    data = {f"k{n}": text for n, text in enumerate(_filled(random, most))}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": data}
    if random.random() < 0.2:
        body["metadata"] = {"name": texts.text(random, 1_024)}
    return _rule(random, places, name, {"spec": {"template": body}})


def _filled(random: Random, most: int) -> Iterator[str]:
    """Mean texts of `most` bytes in all, as JSON: a megabyte in one, or many."""
    left = most
    each = random.choice((100, 5_000, texts.FIELD, texts.BODY))
    while left > 20:
        text = texts.text(random, min(each, left))
        yield text
        left -= len(repr(text).encode()) + 20


def _deep_rule(random: Random, places: Places, name: str) -> Bad:
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
    return _rule(random, places, name, {"spec": {"template": body}})


def _old_rule(random: Random, places: Places, name: str) -> Bad:
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


def _selector_rule(random: Random, places: Places, name: str) -> Bad:
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


def _tenant_rule(random: Random, places: Places, name: str) -> Bad:
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


def _raw_rule(random: Random, places: Places, name: str) -> Bad:
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
    metadata = _metadata(random) if random.random() < 0.2 else {}
    status = _rule_status(random) if random.random() < 0.3 else None
    where = random.choice(places.evil)
    return Bad(RULES, where, name, {"metadata": metadata, **content}, status)


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


def _metadata(random: Random) -> dict[str, Any]:
    """Labels and annotations up to what an object may have (256 KiB)."""
    annotations = random.choice(
        (
            lambda: {"copyrator.flant.com/requestedAt": texts.text(random, 200_000)},
            lambda: {"operator.werf.dev/requestedAt": texts.text(random, 200_000)},
            lambda: {f"app.kubernetes.io/k{n}": "x" for n in range(8_000)},
            lambda: {"kubectl.kubernetes.io/last-applied-configuration": "{" * 200_000},
            lambda: {"a": random.choice(texts.UNICODE) * 50},
        )
    )()
    labels = {f"k{n}": texts.label_value(random) for n in range(random.choice((0, 3, 1_500)))}
    return {
        "annotations": annotations,
        "labels": labels,
        "finalizers": [f"evil.example/{n}" for n in range(random.choice((0, 0, 1, 500)))],
    }


# --- what rules meet -----------------------------------------------------------------------------


def _source(random: Random, places: Places, name: str) -> Bad:
    """Sources that are large, have thousands of keys, or say to whom in 200 KB."""
    where = random.choice((CONFIG_MAPS, SECRETS))
    many = random.choice((1, 1, 3_000, 20_000))
    size = random.choice((10, 1_000_000))
    data = {f"k{n}": "x" * (size // many) for n in range(many)}
    annotations = {}
    if random.random() < 0.7:
        annotations["copyrator.flant.com/allow-to"] = texts.globs(
            random.choice((1_000, 200_000)), glob=random.choice(("*a*", texts.stars(200), "?*?"))
        )
    labels = {SHARED: "yes", "app": "shop", f"k{random.randrange(1_000)}": "v"}
    return _data(
        where, random.choice(places.evil), name, data, labels=labels, annotations=annotations
    )


def _forged(random: Random, places: Places, name: str) -> Bad:
    """A copy that bears the operator's marks and manager, and that nobody may delete."""
    home, _, source = places.rule.partition("/")
    mark = "copyrator.flant.com/"
    annotations = {
        mark + "rule": random.choice((places.rule, f"{home}/gone", "x", "x" * 100_000)),
        mark + "source": random.choice((f"{home}/{source}", "/", "x" * 100_000)),
        mark + "content-hash": random.choice(("A" * 43, "", texts.text(random, 50_000))),
        mark + "references": random.choice(("[" * 5_000, "[]", texts.text(random, 50_000))),
    }
    finalizers = random.choice(
        ([], ["evil.example/hold"], [f"evil.example/{n}" for n in range(99)])
    )
    owners = [
        {"apiVersion": "v1", "kind": "Pod", "name": f"p{n}", "uid": f"u{n}"} for n in range(100)
    ]
    made = _data(
        random.choice((CONFIG_MAPS, SECRETS)),
        random.choice(places.forged),
        random.choice((source, name)),
        {f"k{n}": "forged" for n in range(random.choice((1, 5_000)))},
        labels={"app.kubernetes.io/managed-by": "copyrator", SHARED: "yes"},
        annotations=annotations,
        finalizers=finalizers,
        ownerReferences=random.choice(([], owners)),
    )
    return Bad(
        made.where,
        made.namespace,
        made.name,
        made.content,
        manager=random.choice(("copyrator", "kubectl", "x" * 128)),
    )


def _job(random: Random, places: Places, name: str) -> Bad:
    """A Job with the marks of a Bundle's."""
    labels = {
        "operator.werf.dev/bundle": random.choice(("bundles-0", "shop", "9" * 63)),
        "operator.werf.dev/job": random.choice(("deploy", "uninstall", "x")),
    }
    annotations = {
        f"operator.werf.dev/{key}": texts.text(random, 30_000)
        for key in ("attempt", "generation", "digest", "bundle-uid", "given-up", "deployment")
    }
    container = {"name": "werf", "image": "evil.example/none", "args": ["x" * 100_000]}
    pod = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    content = {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {"suspend": True, "template": pod},
    }
    return Bad(JOBS, random.choice(places.evil), name, content)


def _namespace(random: Random, places: Places, _: str) -> Bad:
    """What the author of a namespace says of it, in 200 KB."""
    annotations = {
        "copyrator.flant.com/allow-from": random.choice(
            (
                lambda: texts.globs(200_000, glob=random.choice(("*a*", texts.stars(200)))),
                lambda: "*",
                lambda: texts.text(random, 200_000),
            )
        )()
    }
    labels = {f"k{n}": texts.label_value(random) for n in range(random.choice((0, 1_000)))}
    content = {"metadata": {"annotations": annotations, "labels": labels}}
    return Bad(("api/v1", "namespaces"), "", random.choice((*places.evil, *places.forged)), content)


def _data(
    where: tuple[str, str], namespace: str, name: str, data: dict[str, str], **metadata: Any
) -> Bad:
    """A ConfigMap or Secret."""
    if where == SECRETS:
        data = {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}
    return Bad(where, namespace, name, {"metadata": metadata, "data": data})


# --- Bundles -------------------------------------------------------------------------------------


def _bundle(random: Random, places: Places, name: str, **spec: Any) -> Bad:
    """A Bundle on the hostile registry."""
    content = {
        "registry": places.registry,
        "repo": f"{random.choice(KINDS_OF_REPOSITORY)}/app",
        "version": random.choice(("latest", "*", ">=0.1 <2", "1.*")),
        "insecure": True,
        "interval": "10s",
        "deletionPolicy": "Orphan",
        **spec,
    }
    metadata = _metadata(random) if random.random() < 0.1 else {}
    status = _bundle_status(random) if random.random() < 0.2 else None
    where = random.choice(places.evil)
    return Bad(BUNDLES, where, name, {"metadata": metadata, "spec": content}, status)


KINDS_OF_REPOSITORY = (
    *("pages", "endless", "many", "digits", "deep", "zipped", "huge", "slow", "stalls"),
    *("hosts", "circle", "astray", "realm", "loopback", "tokens", "later", "headers", "junk"),
)
"""What registry.py does, by the first part of a repository's path."""


def _registry_bundle(random: Random, places: Places, name: str) -> Bad:
    """The registry is what is hostile."""
    number = int(name.rpartition("-")[2]) % len(KINDS_OF_REPOSITORY)
    kind = KINDS_OF_REPOSITORY[number]
    return _bundle(random, places, name, repo=f"{kind}/app{random.randrange(3)}")


def _bundle_spec(random: Random, places: Places, name: str) -> Bad:
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


def _values(random: Random, places: Places, name: str) -> Bad:
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
    return _data(SECRETS if secret else CONFIG_MAPS, places.evil[0], name, {"values.yaml": text})


def _values_bundle(random: Random, places: Places, name: str) -> Bad:
    """Names all of them."""
    kinds = ("Secret", "ConfigMap")
    named = [
        {"kind": kind, "name": f"values-{n}", "optional": True} for n in range(8) for kind in kinds
    ]
    made = _bundle(random, places, name, valuesFrom=named, repo="good/app", version="1.0.0")
    return Bad(made.where, places.evil[0], made.name, made.content, made.status)


def _squatter(random: Random, places: Places, name: str) -> Bad:
    """A Bundle that says that a release of somebody else's is its own."""
    made = _bundle(random, places, name, project_namespace=places.victim)
    return Bad(made.where, made.namespace, random.choice(("shop", name)), made.content)


def _bundle_status(random: Random) -> dict[str, Any]:
    """What the holder of bundles/status may forge."""
    long = "x" * random.choice((1, 100_000))
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
    }


CATEGORIES: dict[str, tuple[Make, int]] = {
    "templates": (_template_rule, 6),
    "deep": (_deep_rule, 4),
    "old": (_old_rule, 6),
    "selectors": (_selector_rule, 6),
    "tenants": (_tenant_rule, 8),
    "raw": (_raw_rule, 12),
    "sources": (_source, 4),
    "forged": (_forged, 6),
    "jobs": (_job, 4),
    "namespaces": (_namespace, 1),
    "registry": (_registry_bundle, 2 * len(KINDS_OF_REPOSITORY)),
    "bundles": (_bundle_spec, 8),
    "values": (_values, 8),
    "large": (_values_bundle, 3),
    "squatters": (_squatter, 3),
}
"""By name: what makes an object, and how many of them stand at a time."""


def categories(names: tuple[str, ...] = ()) -> list[Category]:
    """The categories of these names; all, where none is named.

    Raises:
        KeyError: there is none of that name.
    """
    return [Category(name, *CATEGORIES[name]) for name in names or CATEGORIES]
