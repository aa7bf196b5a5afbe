"""What rules and Bundles meet: sources, copies, Jobs and Namespaces that are bad."""

from __future__ import annotations

from random import Random
from typing import Any

from hostile import texts
from hostile.bad import CONFIG_MAPS, JOBS, PODS, SECRETS, SHARED, Bad, Places, data_object


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
    """A Job with the marks of a Bundle's: a deploy, plan or drift check, suspended or running."""
    pod = {"metadata": _marks(random), "spec": _pod_spec()}
    content = {
        "metadata": _marks(random),
        "spec": {"suspend": random.random() < 0.5, "template": pod},
    }
    status = {"active": 2**31 - 1, "ready": 1} if random.random() < 0.3 else None
    return Bad(JOBS, random.choice(places.evil), name, content, status)


def pods(random: Random, places: Places, name: str) -> Bad:
    """A pod that says that it is such a Job's, and how it ended."""
    marks = _marks(random)
    job = random.choice(("jobs-0", "bundles-0-plan-0", "9" * 63))
    marks["labels"] |= {"batch.kubernetes.io/job-name": job, "job-name": job}
    ended = {
        "exitCode": random.choice((0, 10, 12, 2**31 - 1)),
        "message": texts.text(random, 4_000),
        "reason": "Completed",
    }
    ended |= {"startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:00Z"}
    one = {"name": "werf", "image": "x", "imageID": "", "ready": False, "restartCount": 2**31 - 1}
    status = {
        "phase": random.choice(("Failed", "Succeeded", "Running")),
        "containerStatuses": [{**one, "state": {"terminated": ended}}],
    }
    content = {"metadata": marks, "spec": _pod_spec()}
    return Bad(PODS, random.choice(places.evil), name, content, status)


def _marks(random: Random) -> dict[str, Any]:
    """Labels, annotations and an owner, as the operator writes them, or nearly."""
    bundle = random.choice(("bundles-0", "gated-0", "shop", "9" * 63))
    labels = {
        "operator.werf.dev/bundle": bundle,
        "operator.werf.dev/job": random.choice(("deploy", "plan", "drift", "uninstall", "x")),
    }
    annotations = {
        f"operator.werf.dev/{key}": texts.text(random, 30_000)
        for key in ("attempt", "generation", "digest", "bundle-uid", "given-up", "deployment")
    }
    owner = {
        "apiVersion": "operator.werf.dev/v1",
        "kind": "Bundle",
        "name": bundle,
        "uid": random.choice(("u", "00000000-0000-0000-0000-000000000000")),
        "controller": True,
    }
    owners = random.choice(([], [owner]))
    return {"labels": labels, "annotations": annotations, "ownerReferences": owners}


def _pod_spec() -> dict[str, Any]:
    container = {"name": "werf", "image": "evil.example/none", "args": ["x" * 100_000]}
    return {"restartPolicy": "Never", "serviceAccountName": "werf", "containers": [container]}


def namespaces(random: Random, places: Places, _: str) -> Bad:
    """What the author of a namespace says of it, in 200 KB."""
    key = random.choice(("copyrator.flant.com/allow-from", "operator.werf.dev/accept-from"))
    annotations = {
        key: random.choice(
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
