"""The Job that uninstalls a release. Pure."""

from __future__ import annotations

from typing import Any, Final

from copyrator.api import names
from copyrator.api.bundle_spec import BundleSpec
from copyrator.bundles.policy.identity import job_name
from copyrator.bundles.policy.jobs import pod
from copyrator.bundles.policy.jobs.manifest import DEPLOY_CONTAINER, JobKind, base_job, merged

UNINSTALL_DEADLINE: Final = 900
UNINSTALL_SCRIPT: Final = """\
set -eu
version="$(werf version)"
case "${version#v}" in
[12] | [12].*)
  code=0
  said="$(werf helm uninstall "$WERF_RELEASE" --namespace "$WERF_NAMESPACE" \\
    --wait --timeout 5m 2>&1)" || code=$?
  printf '%s\\n' "$said"
  case "$code $said" in
  "0 "* | *"release: not found"*) ;;
  *) exit "$code" ;;
  esac
  ;;
[3-9] | [3-9].* | [1-9][0-9]*)
  exec werf dismiss --namespace "$WERF_NAMESPACE" --release "$WERF_RELEASE"
  ;;
*)
  echo "Error: unknown version of werf: $version" >&2
  exit 1
  ;;
esac
"""
"""werf 3 has no ``helm uninstall``; a tag such as ``latest`` doesn't show which werf it is.

``--ignore-not-found`` isn't used: Helm 3 reports a missing permission to read releases as
"not found".
"""


def build_uninstall_job(
    spec: BundleSpec, uid: str, generation: int, attempt: int
) -> dict[str, Any]:
    """The Job that uninstalls. It has no owner, as a foreground deletion would delete it."""
    env = pod.variables(merged(spec, pod.common(spec) | pod.release(spec)))
    pod_spec = pod.pod_spec(spec, ())
    command = ("sh", "-c", UNINSTALL_SCRIPT)
    pod_spec["containers"] = [pod.container(spec, DEPLOY_CONTAINER, command, env)]
    name = job_name(spec.name, JobKind.UNINSTALL, uid, attempt)
    job = base_job(spec, JobKind.UNINSTALL, name, uid, pod_spec)
    job["metadata"]["annotations"] |= {
        names.ANN_ATTEMPT: str(attempt),
        names.ANN_GENERATION: str(generation),
    }
    job["spec"]["activeDeadlineSeconds"] = UNINSTALL_DEADLINE
    return job
