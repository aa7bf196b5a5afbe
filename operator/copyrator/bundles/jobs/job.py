"""Jobs that deploy and uninstall: pure functions from an order to a manifest."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from copyrator.api import names, structs
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import Attempted
from copyrator.api.names import BUNDLE_PREFIX, SECRET_KEY_ENV
from copyrator.bundles.jobs import pod
from copyrator.bundles.jobs.identity import NAME_LENGTH, ValuesFiles, hash_of, job_name
from copyrator.bundles.jobs.pod import (
    DEPLOY_CONTAINER,
    LOGIN_CONTAINER,
    JobKind,
    Login,
    base_job,
    merge_variables,
    owner_reference,
)
from copyrator.bundles.jobs.script import (
    APPLY_COMMAND,
    KUBECONFIG_DIR,
    SealedFile,
    uninstall_command,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployOrder:
    """The input of an attempt's Job, or of a feature's."""

    spec: BundleSpec
    uid: str
    version: str
    digest: str
    """``sha256:…``; exactly this manifest is pulled."""
    generation: int
    attempt: int
    values_hash: str | None = None
    request: str = ""
    login: Login = Login.NONE
    marks: Mapping[str, str] = field(default_factory=dict)
    """Annotations that features add to the Job (``names.JOB_MARKS``)."""
    values: tuple[ValuesFiles, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels for the release's objects; likewise ``annotations``."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    sealed: tuple[SealedFile, ...] | None = None
    """The files of ``values`` as a feature's script checks and copies them: werf reads the copies.

    The secret key's is the last. None: werf reads what is mounted.
    """
    secrets: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Secrets that features mount, and the directories, by the volumes' names."""
    kubeconfig: SealedFile | None = None
    """The copy of the kubeconfig of ``spec.kubeConfig``."""
    command: Callable[[DeployOrder], tuple[str, ...]] | None = None
    """Makes a feature's for werf's container, in place of the engine's; it checks
    ``checked_files``."""
    image: str | None = None
    """werf's image by digest; None: as the spec names it."""
    recorded_name: str | None = None
    """The Job's, where an attempt has recorded it."""
    name_length: int = NAME_LENGTH
    """Characters that the Job's name may have, where it isn't recorded."""
    rolls_back: bool = True
    """Whether werf may roll back where the spec asks for it."""

    @property
    def job(self) -> str:
        """The Job's name."""
        if self.recorded_name is not None:
            return self.recorded_name
        parts = self.generation, self.digest, self.values_hash, self.request, self.attempt
        name, length = self.spec.name, self.name_length
        return job_name(name, JobKind.DEPLOY, self.uid, *parts, length=length)

    @property
    def flags(self) -> tuple[str, ...]:
        """Those of werf's apply."""
        return (AUTO_ROLLBACK,) if self.spec.auto_rollback and self.rolls_back else ()

    @property
    def checked_files(self) -> tuple[SealedFile, ...]:
        """The copies that the script checks; the kubeconfig is in force before werf runs."""
        files = self.sealed or ()
        return files if self.kubeconfig is None else (*files, self.kubeconfig)


DEADLINE_MARGIN: Final = 300.0
"""Seconds from a deploy's timeout to its Job's deadline: werf ends first, and reports why."""
_IN_NO_SHELL: Final = re.compile(
    r"(?![A-Za-z_][A-Za-z0-9_]*\Z).*"
    r"|_|BASH(?:OPTS|PID|_.*)?|COMP_WORDBREAKS|EPOCH.*|IFS|LINENO|OLDPWD|OPT(?:ARG|ERR|IND)|PATH"
    r"|POSIXLY_CORRECT|PPID|PS[0-4]|PWD|S?RANDOM|SHELLOPTS|SHLVL",
    re.DOTALL,
)
"""Variables that dash, bash or busybox drops, sets or reads; PATH finds the shell itself."""
AUTO_ROLLBACK: Final = "--auto-rollback"
"""A flag, as the variable of that name has no effect in werf 2.67 (facts/werf.md)."""


def build_deploy_job(order: DeployOrder) -> dict[str, Any]:
    """The Job for one attempt; the Bundle owns it."""
    spec, flags = order.spec, order.flags
    command: tuple[str, ...] = (*APPLY_COMMAND, *flags)
    if any(_IN_NO_SHELL.fullmatch(name) for name in spec.env):
        command = "werf", "bundle", "apply", *flags
    if order.command is not None:
        command = order.command(order)
    env = pod.variables(_deploy_env(order)) + _secret_key(order)
    main = pod.container(spec, DEPLOY_CONTAINER, command, env)
    main["terminationMessagePath"] = pod.REPORT_PATH
    job = owned_job(order, JobKind.DEPLOY, order.job, main)
    job["metadata"]["annotations"] |= {
        names.ANN_ATTEMPT: str(order.attempt),
        names.ANN_DIGEST: order.digest,
    }
    # A rollback begins after the timeout, and may take the same time.
    longest = spec.timeout * (2 if flags else 1)
    job["spec"]["activeDeadlineSeconds"] = pod.whole_seconds(longest + DEADLINE_MARGIN)
    return job


def owned_job(order: DeployOrder, kind: JobKind, name: str, main: dict[str, Any]) -> dict[str, Any]:
    """A Job of a Bundle with this container, and with the volumes and the login that it needs."""
    spec = order.spec
    volumes, mounts = _values(order)
    if order.kubeconfig is not None:
        volumes.append(_kubeconfig_volume(name))
        mounts.append(_KUBECONFIG_MOUNT)
    inits = []
    if order.login is Login.PASSWORD:
        inits.append(_login(spec))
    elif order.login is not Login.NONE:
        secret = login_secret(name) if order.login is Login.SELECTED else spec.auth
        volumes.append(pod.docker_config_volume(secret or ""))
        mounts.append({"name": "docker", "mountPath": pod.DOCKER_CONFIG_DIR, "readOnly": True})
    if spec.ca_secret:
        volumes.append(pod.ca_volume(spec.ca_secret))
        mounts.append(_ca_mount())
    main["volumeMounts"] += mounts
    pod_spec = pod.pod_spec(spec, volumes)
    if inits:
        pod_spec["initContainers"] = inits
    pod_spec["containers"] = [main]
    if order.image is not None:
        for one in (*inits, main):  # another program may not run beside the one that planned
            one["image"] = order.image
    job = base_job(spec, kind, name, order.uid, pod_spec)
    if spec.server:
        job["metadata"]["annotations"][names.ANN_SERVER] = spec.server
    job["metadata"]["annotations"] |= order.marks
    job["metadata"]["ownerReferences"] = [owner_reference(spec.name, order.uid)]
    return job


ADDED_VOLUME: Final = "approved"
"""Of a Secret of features that isn't the Job's alone."""
_RENDER_MOUNT: Final = {"name": "render", "mountPath": pod.RENDER_DIR}
_RENDER_VOLUME: Final = {
    "name": "render",
    "emptyDir": {"medium": "Memory", "sizeLimit": pod.RENDER_SIZE},
}
"""A directory in memory: what a chart renders, Secrets included, is on no disk."""
_KUBECONFIG_MOUNT: Final = {"name": "kubeconfig", "mountPath": KUBECONFIG_DIR, "readOnly": True}


def login_secret(job: str) -> str:
    """Name of the Secret with the registry's credential, where that of ``spec.auth`` has more."""
    return f"{job}-login"


def kubeconfig_secret(job: str) -> str:
    """Name of the Secret with the copy of the kubeconfig of ``spec.kubeConfig``, and its salt."""
    return f"{job}-kubeconfig"


def _kubeconfig_volume(job: str) -> dict[str, Any]:
    return {"name": "kubeconfig", "secret": {"secretName": kubeconfig_secret(job)}}


def _values(order: DeployOrder) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The volumes with values, of features and for renders, and their mounts."""
    volumes, mounts = pod.values_volumes(order.values), pod.values_mounts(order.values)
    for name, (secret, directory) in order.secrets.items():
        volumes.append({"name": name, "secret": {"secretName": secret}})
        mounts.append({"name": name, "mountPath": directory, "readOnly": True})
    if order.command is not None or order.sealed is not None:
        volumes.append(_RENDER_VOLUME)
        mounts.append(_RENDER_MOUNT)
    return volumes, mounts


def _secret_key(order: DeployOrder) -> pod.Env:
    """The variable of ``spec.secretKey``, where the script doesn't read a sealed copy.

    It comes after all others, so that no value can refer to it.
    """
    found = order.spec.secret_key
    if found is None or order.sealed is not None:
        return []
    reference = {"secretKeyRef": {"name": found.secret, "key": found.key}}
    return [{"name": names.SECRET_KEY_ENV, "valueFrom": reference}]


LOGIN_SCRIPT: Final = """\
set -eu
lf="$(printf '\\n.')" crlf="$(printf '\\r\\n.')"
lf="${lf%.}" crlf="${crlf%.}"
case "$WERF_USERNAME" in
*"$crlf") WERF_USERNAME="${WERF_USERNAME%"$crlf"}" ;;
*) WERF_USERNAME="${WERF_USERNAME%"$lf"}" ;;
esac
case "$WERF_PASSWORD" in
*"$crlf") WERF_PASSWORD="${WERF_PASSWORD%"$crlf"}" ;;
*) WERF_PASSWORD="${WERF_PASSWORD%"$lf"}" ;;
esac
exec werf cr login "$1"
"""
"""Logs in with what polls log in with: one line end after user name and password is dropped."""


def _login(spec: BundleSpec) -> dict[str, Any]:
    secret = {"WERF_USERNAME": "username", "WERF_PASSWORD": "password"}
    found = merge_variables(spec, pod.common(spec), spec.proxies)
    env = pod.variables({name: value for name, value in found.items() if name not in secret})
    for variable, key in secret.items():
        reference = {"secretKeyRef": {"name": spec.auth, "key": key}}
        env.append({"name": variable, "valueFrom": reference})
    command = ("sh", "-c", LOGIN_SCRIPT, "sh", spec.registry)
    login = pod.container(spec, LOGIN_CONTAINER, command, env)
    if spec.ca_secret:
        login["volumeMounts"].append(_ca_mount())
    return login


def _ca_mount() -> dict[str, Any]:
    return {"name": "ca", "mountPath": pod.CA_DIR, "readOnly": True}


def _deploy_env(order: DeployOrder) -> dict[str, str]:
    report = {"WERF_SAVE_DEPLOY_REPORT": "1", "WERF_DEPLOY_REPORT_PATH": pod.REPORT_PATH}
    if order.spec.releases_history_max is not None:
        report["WERF_RELEASES_HISTORY_MAX"] = str(order.spec.releases_history_max)
    return werf_env(order, report)


def werf_env(order: DeployOrder, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of ``bundle plan``, and with ``more`` those of ``bundle apply``."""
    spec = order.spec
    ours = pod.common(spec) | pod.release(spec)
    ours |= {"WERF_REPO": spec.reference, "WERF_TAG": f"{order.version}@{order.digest}"}
    ours |= more or {}
    if order.login in (Login.DOCKER_CONFIG, Login.SELECTED):
        ours["WERF_DOCKER_CONFIG"] = pod.DOCKER_CONFIG_DIR
    ours |= pod.added_metadata(order.labels, order.annotations)
    paths = pod.values_paths(order.values)
    if order.sealed is not None:
        paths = [one.copy for one in order.sealed if not one.is_secret_key]
    ours |= pod.values_variables(paths)
    defaults = {
        "WERF_LOG_COLOR_MODE": "off",
        "WERF_LOG_PRETTY": "0",
        "WERF_TIMEOUT": str(pod.whole_seconds(spec.timeout)),
        **spec.proxies,
    }
    return merge_variables(spec, ours, defaults)


UNINSTALL_TIMEOUT: Final = 600
"""Seconds that werf 3 has for an uninstall; werf 2 waits for deletions without a limit."""
UNINSTALL_DEADLINE: Final = UNINSTALL_TIMEOUT + int(DEADLINE_MARGIN)
"""Seconds that an uninstall's Job may take; ``spec.timeout`` is for deploys only."""
UNINSTALL_SCRIPT: Final = """\
set -eu
version="$(werf version)"
case "${version#v}" in
[12] | [12].*)
  trap 'exit 143' TERM
  said="$TMPDIR/said" code="$TMPDIR/code"
  {
    werf helm uninstall "$WERF_RELEASE" --namespace "$WERF_NAMESPACE" \\
      --wait --timeout "${WERF_TIMEOUT:-600}s" 2>&1 && echo 0 >"$code" || echo "$?" >"$code"
  } | tee "$said" &
  wait "$!"
  read -r code <"$code"
  [ "$code" = 0 ] || grep -q 'release: not found' "$said" || exit "$code"
  ;;
[3-9] | [3-9].* | [1-9][0-9]*)
  if ! command -v git >/dev/null; then
    echo "Error: werf $version needs git to uninstall, and this image has none" >&2
    exit 1
  fi
  exec werf dismiss --namespace "$WERF_NAMESPACE" --release "$WERF_RELEASE"
  ;;
*)
  echo "Error: unknown version of werf, $version: use a released one in spec.werf.image" >&2
  exit 1
  ;;
esac
"""
"""werf 3 has no ``helm uninstall``; a tag such as ``latest`` doesn't show which werf it is.

werf 2 ignores SIGTERM while it waits, so the shell ends at once, and with it the container. Its
``--ignore-not-found`` isn't used: Helm 3 reports a missing permission to read releases as
"not found".
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class UninstallOrder:
    """The input of an uninstall's Job."""

    spec: BundleSpec
    uid: str
    generation: int
    attempt: int
    kubeconfig: SealedFile | None = None
    """As of a deploy."""
    before: str = ""
    """A feature's script, which ends the container where nothing may be uninstalled."""
    name_length: int = NAME_LENGTH
    """Characters that the Job's name may have."""

    @property
    def job(self) -> str:
        """The Job's name."""
        name, length = self.spec.name, self.name_length
        return job_name(name, JobKind.UNINSTALL, self.uid, self.attempt, length=length)


def build_uninstall_job(order: UninstallOrder) -> dict[str, Any]:
    """The Job that uninstalls. It has no owner, as a foreground deletion would delete it."""
    spec, name, kubeconfig = order.spec, order.job, order.kubeconfig
    ours = pod.common(spec) | pod.release(spec) | {"WERF_TIMEOUT": str(UNINSTALL_TIMEOUT)}
    found = merge_variables(spec, ours)
    kept = {k: v for k, v in found.items() if k == "PATH" or not _IN_NO_SHELL.fullmatch(k)}
    env = pod.variables(kept)
    command = uninstall_command(UNINSTALL_SCRIPT, kubeconfig, order.before)
    main = pod.container(spec, DEPLOY_CONTAINER, command, env)
    volumes = []
    if kubeconfig is not None:
        volumes = [_kubeconfig_volume(name), _RENDER_VOLUME]
        main["volumeMounts"] += [_KUBECONFIG_MOUNT, _RENDER_MOUNT]
    pod_spec = pod.pod_spec(spec, volumes)
    pod_spec["containers"] = [main]
    job = base_job(spec, JobKind.UNINSTALL, name, order.uid, pod_spec)
    if spec.server:
        job["metadata"]["annotations"][names.ANN_SERVER] = spec.server
    job["metadata"]["annotations"] |= {
        names.ANN_ATTEMPT: str(order.attempt),
        names.ANN_GENERATION: str(order.generation),
    }
    job["spec"]["activeDeadlineSeconds"] = UNINSTALL_DEADLINE
    return job


def order_of(
    spec: BundleSpec,
    attempted: Attempted,
    uid: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
) -> DeployOrder:
    """The order for an attempt's Job; its login and values are read when it is created.

    ``uid``, ``labels``, ``annotations``: the Bundle's.
    """
    return DeployOrder(
        spec=spec,
        uid=uid,
        version=attempted.version or "",
        digest=attempted.digest or "",
        generation=attempted.generation or 0,
        attempt=attempted.attempt or 0,
        values_hash=attempted.values_hash,
        request=attempted.request or "",
        labels=labels,
        annotations={
            key: value for key, value in annotations.items() if not key.startswith(BUNDLE_PREFIX)
        },
    )


def job_hash(order: DeployOrder) -> str:
    """The hash of all that a deploy's Job gets, with a keyed hash in place of WERF_SECRET_KEY."""
    spec = order.spec
    if SECRET_KEY_ENV in spec.env:
        spec = structs.replace(spec, env={**spec.env, SECRET_KEY_ENV: spec.secret_key_hash})
    cluster = () if spec.cluster is None else (spec.cluster.fingerprint,)
    return hash_of(build_deploy_job(replace(order, spec=spec)), *cluster)
