"""The pods of the operator's Jobs: restricted profile, werf's directories, volumes, variables.

The operator's proxies are among the variables, so that werf pulls through the same ones.

Sources: docs/facts/werf.md for what werf reads and where it writes; the restricted profile of
kubernetes.io/docs/concepts/security/pod-security-standards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from urllib.parse import urlsplit

from copyrator.api import names
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.docker_config import KEY
from copyrator.api.object_refs import ValuesKind
from copyrator.bundles.jobs.identity import ValuesFiles

LONG_TTL: Final = 3 * 24 * 3600
"""TTL in seconds until the Job's outcome is in the status, when it is reduced; also that of a plan
which doesn't wait for a decision any more.
"""
DEPLOY_CONTAINER: Final = "werf"
LOGIN_CONTAINER: Final = "login"


GRACE_OF_OTHERS: Final = 30
"""Seconds that containers of others have after the outcome is recorded: a pod's default grace, in
which a kubelet ends native sidecars, so that the Job is complete."""


class JobKind(StrEnum):
    """The purpose of a Job; the value of its label."""

    DEPLOY = "deploy"
    PLAN = "plan"
    DRIFT = "drift"
    UNINSTALL = "uninstall"

    @property
    def is_further(self) -> bool:
        """Whether it is a feature's own Job."""
        return self not in (JobKind.DEPLOY, JobKind.UNINSTALL)


@dataclass(frozen=True, slots=True)
class Kept:
    """How long a Job is kept after its end."""

    seconds: int | None
    """None: it must not be deleted."""
    grace: int = GRACE_OF_OTHERS
    until: datetime | None = None
    """When that changes by itself."""


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
                    "labels": {**spec.pods.labels, **spec.job.pod_labels, **labels},
                    "annotations": {
                        **spec.pods.annotations,
                        **spec.job.pod_annotations,
                        **annotations,
                    },
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


def merge_variables(
    spec: BundleSpec, ours: Mapping[str, str], defaults: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The variables of a container: ours, which take precedence, the spec's, and defaults.

    The spec's may refer to ours as ``$(NAME)``.
    """
    theirs = {name: value for name, value in spec.env.items() if name not in ours}
    known = {**ours, **theirs}
    return {**known, **{k: v for k, v in (defaults or {}).items() if k not in known}}


HOME: Final = "/home/build"
REPORT_PATH: Final = "/tmp/report.json"  # noqa: S108 - an emptyDir of the pod's own
DOCKER_CONFIG_DIR: Final = "/run/copyrator/docker"
CA_DIR: Final = "/run/copyrator/ca"
CA_KEY: Final = "ca.crt"
RENDER_DIR: Final = "/run/copyrator/render"
RENDER_SIZE: Final = "64Mi"
"""Of the directory in memory where renders and diffs are, until werf has ended."""
VALUES_DIR: Final = "/run/copyrator/values"
VALUES_VOLUME: Final = "values-"
"""Prefix of the names of the volumes with values."""
_USER: Final = 1000
"""The user ``build`` of the werf image."""

Env = list[dict[str, Any]]


def literal(text: str) -> str:
    """A value that Kubernetes doesn't change: ``$(NAME)`` in a variable would be expanded."""
    return text.replace("$", "$$")


def variables(values: Mapping[str, str]) -> Env:
    """Variables with literal values, in the order given."""
    return [{"name": name, "value": value} for name, value in values.items()]


def common(spec: BundleSpec) -> dict[str, str]:
    """Variables of all containers. Only the buildah mode ``docker`` works without privileges."""
    found = {
        "HOME": HOME,
        "TMPDIR": "/tmp",  # noqa: S108 - as above
        "WERF_BUILDAH_MODE": "docker",
        "WERF_TELEMETRY": "0",
    }
    if spec.insecure:
        found["WERF_INSECURE_REGISTRY"] = "1"
    if spec.skip_tls_verify:
        found["WERF_SKIP_TLS_VERIFY_REGISTRY"] = "1"
    if spec.ca_secret:
        found["SSL_CERT_FILE"] = f"{CA_DIR}/{CA_KEY}"
    return found


def release(spec: BundleSpec) -> dict[str, str]:
    """The release's name and namespace."""
    return {"WERF_NAMESPACE": spec.project_namespace, "WERF_RELEASE": spec.release}


def values_paths(values: Sequence[ValuesFiles]) -> list[str]:
    """Where the files of values are mounted, in the order in which werf reads them."""
    return [f"{VALUES_DIR}/{i:03}/{key}" for i, source in enumerate(values) for key in source.keys]


def values_variables(paths: Sequence[str]) -> dict[str, str]:
    """Variables ``WERF_VALUES_OPERATOR_000`` …: padded, because werf sorts the names as text."""
    width = max(3, len(str(len(paths))))
    return {f"WERF_VALUES_OPERATOR_{i:0{width}}": path for i, path in enumerate(paths)}


def added_metadata(labels: Mapping[str, str], annotations: Mapping[str, str]) -> dict[str, str]:
    """Labels and annotations for every object of the release."""
    return {
        f"WERF_ADD_{family}_OPERATOR_{i:03}": literal(f"{key}={value}")
        for family, found in (("LABEL", labels), ("ANNOTATION", annotations))
        for i, (key, value) in enumerate(sorted(found.items()))
    }


def container(spec: BundleSpec, name: str, command: Sequence[str], env: Env) -> dict[str, Any]:
    """A container for the restricted profile; on failure the end of its log is its message."""
    return {
        "name": name,
        "image": spec.werf_image,
        "command": list(command),
        "env": env,
        "resources": dict(spec.job.resources),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "home", "mountPath": HOME},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - as above
        ],
    }


def pod_spec(spec: BundleSpec, volumes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A pod without containers: its user and its writable directories.

    Of a gated Bundle it gets no variables of Services, as a Service may be named ``werf-set-x``; of
    one with ``spec.kubeConfig`` no token of the operator's cluster, where nothing is done.
    """
    placement: dict[str, Any] = {}
    ids = spec.pods.has_ids
    if spec.job.node_selector:
        placement["nodeSelector"] = dict(spec.job.node_selector)
    if spec.job.tolerations:
        placement["tolerations"] = [dict(toleration) for toleration in spec.job.tolerations]
    return {
        "restartPolicy": "Never",
        "serviceAccountName": spec.service_account,
        **placement,
        **({"enableServiceLinks": False} if spec.is_gated else {}),
        **({"automountServiceAccountToken": False} if spec.is_remote else {}),
        "securityContext": {
            "runAsNonRoot": True,
            **({"runAsUser": _USER, "runAsGroup": _USER, "fsGroup": _USER} if ids else {}),
            "seccompProfile": {"type": "RuntimeDefault"},
            **spec.job.security_context,
        },
        "volumes": [
            {"name": "home", "emptyDir": {}},
            {"name": "tmp", "emptyDir": {}},
            *(dict(volume) for volume in volumes),
        ],
    }


def values_volumes(values: Sequence[ValuesFiles]) -> list[dict[str, Any]]:
    """A volume for each values source. A source deleted now blocks the pod until it exists."""
    found = []
    for i, source in enumerate(values):
        if source.kind is ValuesKind.SECRET:
            origin = {"secret": {"secretName": source.name}}
        else:
            origin = {"configMap": {"name": source.name}}
        found.append({"name": f"{VALUES_VOLUME}{i:03}", **origin})
    return found


def values_mounts(values: Sequence[ValuesFiles]) -> list[dict[str, Any]]:
    """The mounts of the values' volumes in the container."""
    return [
        {"name": f"{VALUES_VOLUME}{i:03}", "mountPath": f"{VALUES_DIR}/{i:03}", "readOnly": True}
        for i, _ in enumerate(values)
    ]


def docker_config_volume(secret: str) -> dict[str, Any]:
    """A dockerconfigjson Secret as the directory that WERF_DOCKER_CONFIG names."""
    items = [{"key": KEY, "path": "config.json"}]
    return {"name": "docker", "secret": {"secretName": secret, "items": items}}


def ca_volume(secret: str) -> dict[str, Any]:
    """The registry's CA, and nothing else of that Secret (which may hold its key as well)."""
    items = [{"key": CA_KEY, "path": CA_KEY}]
    return {"name": "ca", "secret": {"secretName": secret, "items": items}}


def whole_seconds(seconds: float) -> int:
    """Seconds as the API and werf take them: whole, and at least one."""
    return max(1, math.ceil(seconds))


_SCHEMES: Final = ("https", "http")
_API_SERVER: Final = "$(KUBERNETES_SERVICE_HOST)"
"""Kubernetes expands it to the address; werf would use a proxy for the API server too."""


def proxies_with_password(proxies: Mapping[str, str]) -> list[str]:
    """Names of the variables with credentials, which anybody who may read Jobs would see."""
    found = {scheme: urlsplit(proxies.get(scheme, "")) for scheme in _SCHEMES}
    return [f"{scheme.upper()}_PROXY" for scheme, url in found.items() if "@" in url.netloc]


def variables_for_jobs(proxies: Mapping[str, str]) -> dict[str, str]:
    """Proxy variables for werf, without those with credentials.

    Args:
        proxies: proxies by scheme, and under ``no`` the hosts without a proxy, as
            ``urllib.request.getproxies_environment`` reads them.
    """
    names = {f"{scheme.upper()}_PROXY": proxies.get(scheme) for scheme in _SCHEMES}
    left_out = proxies_with_password(proxies)
    found = {name: literal(url) for name, url in names.items() if url and name not in left_out}
    if not found:
        return {}
    exceptions = [literal(proxies["no"])] if proxies.get("no") else []
    return {**found, "NO_PROXY": ",".join([*exceptions, _API_SERVER])}


class Login(StrEnum):
    """How werf gets the registry's credentials."""

    NONE = "none"
    PASSWORD = "password"  # noqa: S105 - the name of a form
    DOCKER_CONFIG = "docker-config"
    """The Secret of ``spec.auth`` has no other credential, and is mounted."""
    SELECTED = "selected"
    """A Secret of the operator's with the registry's credential alone is mounted."""
