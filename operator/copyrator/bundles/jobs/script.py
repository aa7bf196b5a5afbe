"""The scripts of the Jobs that deploy and uninstall, and how a script checks what it gets. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from copyrator.bundles.jobs.pod import RENDER_DIR, literal
from copyrator.bundles.jobs.rights import EVENTS_NAMESPACE


class CheckExit(IntEnum):
    """Exit codes of the scripts, which werf doesn't use; texts in a log could be a chart's."""

    CHANGED = 10
    """PlanChanged: a copy isn't what the operator wrote."""
    FAILED = 11
    """PlanFailed: the chart can't be rendered, or read."""
    NOT_VENDORED = 12
    """DependenciesNotVendored: werf downloaded dependencies of the chart."""


@dataclass(frozen=True, slots=True)
class SealedFile:
    """A file of a Secret that a script accepts by its hash.

    The script copies it and checks the copy, which werf then reads: the kubelet may update the
    mounted file at any time. It does so again before it applies.
    """

    path: str
    """Where it is mounted."""
    salt: str
    """The path of the Secret's random salt, of at least 16 bytes, without which the hash would let
    readers of the Job test guesses of a Secret's content."""
    copy: str
    """Where the script copies it to."""
    sha256: str
    """Of the salt followed by the file: 64 hexadecimal digits."""

    @property
    def is_secret_key(self) -> bool:
        """Whether the script makes it the content of WERF_SECRET_KEY."""
        return self.copy.endswith(f"/{SECRET_KEY}")


SALT: Final = "salt"
"""Key of the salt in a Secret with copies."""


def seal_of(salt: str, content: bytes) -> str:
    """The salted hash of a file, as a Job's script computes it."""
    return hashlib.sha256(salt.encode() + content).hexdigest()


SECRET_KEY: Final = "secret-key"  # noqa: S105 - a file's name
"""Name of the copy whose content becomes WERF_SECRET_KEY."""
KUBECONFIG: Final = "kubeconfig"
"""Name of the copy that becomes werf's kubeconfig."""


ASK_FOR_EVENTS: Final = f"""\
may() {{
  case $(WERF_SKIP_TLS_VERIFY_REGISTRY=0 werf kubectl auth can-i "$1" events \\
    --namespace {EVENTS_NAMESPACE} --request-timeout 10s 2>/dev/null) in
  yes | 'yes '*) ;;
  no | 'no '*)
    printf 'KUBEDOG_DISABLE_EVENTS=1: the account may not %s events in namespace %s\\n' \\
      "$1" {EVENTS_NAMESPACE}
    export KUBEDOG_DISABLE_EVENTS=1
    return 1
    ;;
  *) return 1 ;;
  esac
}}
[ -n "${{KUBEDOG_DISABLE_EVENTS+set}}" ] || {{ may list && may watch; }} || :
"""
"""Have werf track without Events where it may not read those of objects in no namespace.

It would fail after the apply (docs/facts/werf.md). Without an answer, and where the Bundle sets the
variable, nothing is set. The first variable is of the registry, and kubectl's of the API server.
It sets no other variable: the Bundle may have one of that name.
"""


def uninstall_command(
    script: str, kubeconfig: SealedFile | None = None, before: str = ""
) -> tuple[str, ...]:
    """The command of a container that uninstalls by this script, in the cluster of a kubeconfig.

    ``before``: a script that ends the container where nothing may be uninstalled.
    """
    if before:
        script = f"LC_ALL=C\nexport LC_ALL\n{before}{script}"
        return "sh", "-c", literal(script)
    if kubeconfig is None:
        return "sh", "-c", script
    script = f'LC_ALL=C\nexport LC_ALL\n{UNSEAL}unseal "$@"\n{script}'
    return "sh", "-c", literal(script), "uninstall", *arguments((kubeconfig,))


APPLY_COMMAND: Final = (
    "sh",
    "-c",
    literal(f"trap 'exit 143' TERM\n{ASK_FOR_EVENTS}exec werf bundle apply \"$@\"\n"),
    "deploy",
)
"""The command of a container that deploys what nobody planned, before the flags of werf's apply.

It ends as werf does.
"""


KUBECONFIG_DIR: Final = "/run/copyrator/kubeconfig"


def sealed_kubeconfig(sha256: str) -> SealedFile:
    """The file with the copy of the kubeconfig, which is copied to memory: it is on no disk."""
    path, salt = f"{KUBECONFIG_DIR}/{KUBECONFIG}", f"{KUBECONFIG_DIR}/{SALT}"
    return SealedFile(path, salt, f"{RENDER_DIR}/{KUBECONFIG}", sha256)


def arguments(files: Iterable[SealedFile]) -> tuple[str, ...]:
    """The arguments of ``unseal`` in a script."""
    return tuple(part for one in files for part in (one.path, one.salt, one.copy, one.sha256))


UNSEAL: Final = f"""\
changed() {{
  printf 'Error: PlanChanged: %s\\n' "$1"
  exit {CheckExit.CHANGED:d}
}}
unseal() {{
  while [ "$#" -gt 0 ]; do
    sed '' "$1" >"$3"
    sum=$({{ sed '' "$2" && sed '' "$3"; }} | sha256sum)
    [ "${{sum%% *}}" = "$4" ] || changed "$1 isn't what was planned with"
    case $3 in
    */{SECRET_KEY})
      WERF_SECRET_KEY=$(sed '' "$3")
      export WERF_SECRET_KEY
      ;;
    */{KUBECONFIG})
      unset WERF_KUBE_CONFIG_BASE64 WERF_KUBECONFIG_BASE64 KUBECONFIG_BASE64 WERF_KUBECONFIG
      WERF_KUBE_CONFIG=$3
      KUBECONFIG=$3
      export WERF_KUBE_CONFIG KUBECONFIG
      ;;
    esac
    shift 4
  done
}}
"""
"""Of a kubeconfig werf reads the first variable, and ``werf kubectl`` the second one; others that
an image may have would replace it.
"""
