"""The common parts of the operator's Jobs: kinds, container names, the manifest. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from copyrator.api import names
from copyrator.api.bundle_spec import BundleSpec

LONG_TTL: Final = 3 * 24 * 3600
"""TTL in seconds until the Job's outcome is in the status, when it is reduced; also that of a plan
which doesn't wait for a decision any more.
"""
DEPLOY_CONTAINER: Final = "werf"
LOGIN_CONTAINER: Final = "login"


class JobKind(StrEnum):
    """The purpose of a Job; the value of its label."""

    DEPLOY = "deploy"
    PLAN = "plan"
    DRIFT = "drift"
    """A plan of what is deployed."""
    UNINSTALL = "uninstall"


def base_job(
    spec: BundleSpec, kind: JobKind, name: str, uid: str, pod_spec: Mapping[str, Any]
) -> dict[str, Any]:
    """A Job of a Bundle that runs one pod, once."""
    labels = {names.LABEL_BUNDLE: spec.name, names.LABEL_JOB_KIND: kind.value}
    annotations = {names.ANN_DEPLOYMENT: spec.name}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": spec.namespace,
            "labels": labels,
            "annotations": annotations | {names.ANN_BUNDLE_UID: uid},
        },
        "spec": {
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": LONG_TTL,
            "podFailurePolicy": {
                # An eviction isn't the bundle's fault; the Job's reason then distinguishes it.
                "rules": [
                    {
                        "action": "FailJob",
                        "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                    }
                ]
            },
            "template": {
                "metadata": {
                    "labels": dict(spec.job.pod_labels) | labels,
                    "annotations": dict(spec.job.pod_annotations) | annotations,
                },
                "spec": pod_spec,
            },
        },
    }


def owner_reference(bundle: str, uid: str) -> dict[str, Any]:
    """The Bundle as the owner of an object in its namespace."""
    return {
        "apiVersion": names.BUNDLE_API_VERSION,
        "kind": names.BUNDLE_KIND,
        "name": bundle,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def merged(
    spec: BundleSpec, ours: Mapping[str, str], defaults: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The variables of a container: ours, which take precedence, the spec's, and defaults.

    The spec's may refer to ours as ``$(NAME)``.
    """
    theirs = {name: value for name, value in spec.env.items() if name not in ours}
    known = {**ours, **theirs}
    return {**known, **{k: v for k, v in (defaults or {}).items() if k not in known}}
