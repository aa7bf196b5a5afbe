"""What a Bundle takes in memory: at most 10 KB, however long its life has been."""

from __future__ import annotations

import gc
import hashlib
import json
import tracemalloc
from typing import Any

from copyrator.api.bundle_spec import BundleDefaults
from copyrator.registry.bundles import BundleRegistry, read_entry

LIMIT = 10 * 1024
COUNT = 200


def digest(*parts: object) -> str:
    return "sha256:" + hashlib.sha256(repr(parts).encode()).hexdigest()


def status(i: int) -> dict[str, Any]:
    """A status with everything in it: ten past deploys of other versions, five rejected tags."""
    version, time = f"1.10.{i}", f"2026-11-21T10:{i % 60:02d}:00Z"
    pair = {"digest": digest(i), "version": version}
    hashes = {"valuesHash": digest("values", i)[7:39], "specHash": digest("spec", i)[7:39]}
    return {
        "ready": 1,
        "target": pair,
        "deploy": pair,
        "conditions": [
            {
                "type": kind,
                "status": "True",
                "reason": "Deployed",
                "message": f"{version} ({digest(i)[:19]}) is deployed as revision {i}",
                "observedGeneration": 3,
                "lastTransitionTime": time,
            }
            for kind in ("Ready", "Reconciling", "Stalled")
        ],
        "observedGeneration": 3,
        "available": {
            **pair,
            "time": time,
            "rejected": [{"version": f"2.0.{i}-rc{j}", "reason": "PreRelease"} for j in range(5)],
        },
        "deployed": {
            **pair,
            **hashes,
            "reference": f"registry.example.com:5000/team-{i}/shop/app",
            "revision": 1000 + i,
            "namespace": f"team-{i}",
            "generation": 3,
            "verified": True,
            "time": time,
        },
        "attempted": {
            **pair,
            **hashes,
            "reference": f"registry.example.com:5000/team-{i}/shop/app",
            "job": f"app-{i}-deploy-{digest(i)[:10]}",
            "attempt": 1000 + i,
            "failures": 0,
            "interruptions": 0,
            "outcome": "Succeeded",
            "reason": "Deployed",
            "message": "deployed",
            "generation": 3,
            "startedAt": time,
            "finishedAt": time,
        },
        "history": [
            {
                "version": f"1.{j}.{i}",
                "digest": digest(i, j),
                "revision": 1000 + j,
                "outcome": "Succeeded",
                "reason": "Deployed",
                "job": f"app-{i}-deploy-{digest(i, j)[7:17]}",
                "time": f"2026-11-{j + 1:02d}T10:{i % 60:02d}:00Z",
            }
            for j in range(10)
        ],
        "nextPollAt": time,
        "lastHandledRequest": f"request-{i}",
    }


def body(i: int) -> str:
    return json.dumps(
        {
            "metadata": {
                "namespace": f"team-{i}",
                "name": f"app-{i}",
                "uid": f"00000000-0000-0000-0000-{i:012d}",
                "resourceVersion": str(100_000 + i),
                "generation": 3,
                "creationTimestamp": f"2026-01-01T00:00:{i % 60:02d}Z",
                "finalizers": ["operator.werf.dev/uninstall"],
                "labels": {"app.kubernetes.io/name": f"app-{i}"},
                "annotations": {"operator.werf.dev/requestedAt": f"request-{i}"},
            },
            "spec": {
                "registry": "registry.example.com",
                "repo": f"team-{i}/app",
                "version": "1.*",
                "auth": "registry-creds",
                "values": f"values-{i}",
                "env": {"WERF_ENV": "production"},
            },
            "status": status(i),
        }
    )


def test_a_bundle_with_all_its_history_takes_less_than_the_budget() -> None:
    bundles, defaults = BundleRegistry(), BundleDefaults()
    texts = [body(i) for i in range(COUNT + 1)]
    bundles.take(read_entry(json.loads(texts.pop()), defaults))  # what is made once for all
    gc.collect()

    tracemalloc.start()
    for text in texts:
        bundles.take(read_entry(json.loads(text), defaults))
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(bundles) == COUNT + 1
    assert taken / COUNT < LIMIT


def test_what_is_not_there_is_one_object_for_all() -> None:
    one, two = (read_entry(json.loads(body(i)), BundleDefaults()).status for i in (1, 2))
    assert one.extra is two.extra
    assert one.attempted.extra is two.history[0].extra
    assert one.history[0].outcome is two.history[0].outcome
