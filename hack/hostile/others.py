"""What rules and Bundles meet: sources, copies, Jobs and Namespaces that are bad."""

from __future__ import annotations

from random import Random

from hostile import texts
from hostile.bad import CONFIG_MAPS, JOBS, SECRETS, SHARED, Bad, Places, data_object


def sources(random: Random, places: Places, name: str) -> Bad:
    """Sources that are large, have thousands of keys, or say to whom in 200 KB."""
    where = random.choice((CONFIG_MAPS, SECRETS))
    many = random.choice((1, 1, 1, 3_000))
    size = random.choice((10, 1_000_000))
    data = {f"k{n}": "x" * (size // many) for n in range(many)}
    annotations = {}
    if random.random() < 0.7:
        annotations["copyrator.flant.com/allow-to"] = texts.globs(
            random.choice((1_000, 200_000)), glob=random.choice(("*a*", texts.stars(200), "?*?"))
        )
    labels = {SHARED: "yes", "app": "shop", f"k{random.randrange(1_000)}": "v"}
    return data_object(
        where, random.choice(places.evil), name, data, labels=labels, annotations=annotations
    )


def forged(random: Random, places: Places, name: str) -> Bad:
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
    made = data_object(
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


def jobs(random: Random, places: Places, name: str) -> Bad:
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


def namespaces(random: Random, places: Places, _: str) -> Bad:
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
    labels = {f"k{n}": texts.label_value(random) for n in range(random.choice((0, 0, 0, 1_000)))}
    content = {"metadata": {"annotations": annotations, "labels": labels}}
    return Bad(("api/v1", "namespaces"), "", random.choice((*places.evil, *places.forged)), content)
