"""Statuses of Bundles that have seen a lot."""

from __future__ import annotations

import hashlib
from typing import Any


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


def soak(i: int) -> list[dict[str, Any]]:
    """How long the versions of that history have been deployed."""
    return [
        {
            "version": f"1.{j}.{i}",
            "digest": digest(i, j),
            "since": f"2026-11-{j + 1:02d}T10:{i % 60:02d}:00Z",
            "until": f"2026-11-{j + 2:02d}T10:{i % 60:02d}:00Z",
            "longest": f"23h{j}m",
            "brokenBy": f"a deploy of 1.{j + 1}.{i} began",
        }
        for j in range(10)
    ]
