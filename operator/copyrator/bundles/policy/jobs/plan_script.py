"""The shell scripts of the Jobs that plan and that deploy what was approved. Pure.

Both run ``werf bundle plan`` and read its graph (see ``plan_graph``). They use sh, grep, sed, sort,
wc and sha256sum, as Alpine's busybox and Debian have them, and no pipe but one, whose result is
compared: sh ignores a failure before a pipe.

They rely on PATH being the image's, TMPDIR the operator's, and on the author having set no variable
that sh, its tools or the loader read, but LANG and TZ: ``gated`` withholds others.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from copyrator.bundles.policy.jobs.plan_block import BEGIN, END
from copyrator.bundles.policy.jobs.plan_graph import READ_GRAPH
from copyrator.bundles.policy.jobs.pod import literal


class PlanExit(IntEnum):
    """Exit codes of the scripts, which werf doesn't use; texts in a log could be a chart's."""

    CHANGED = 10
    """PlanChanged: values or operations aren't those that were planned or approved."""
    FAILED = 11
    """PlanFailed: werf's plan failed, or it can't be read."""


@dataclass(frozen=True, slots=True)
class SealedFile:
    """A file of a Secret that a script accepts by its hash.

    The script copies it and checks the copy, which werf then reads: the kubelet may update the
    mounted file at any time. It does so again before it applies, in case werf's plan wrote there.
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


SECRET_KEY: Final = "secret-key"  # noqa: S105 - a file's name
"""Name of the copy whose content becomes WERF_SECRET_KEY."""


def plan_command(nonce: str, values: Iterable[SealedFile]) -> tuple[str, ...]:
    """The command of a container that prints its plan as a block (see ``plan_block``).

    It ends with 0 with and without changes, else with one of ``PlanExit`` or 128 + a signal.

    Args:
        nonce: 32 random hexadecimal digits of this Job.
        values: all values files; werf's variables name their copies.
    """
    return "sh", "-c", literal(_PLAN), "plan", nonce, *_arguments(values)


def deploy_command(
    approved: SealedFile, values: Iterable[SealedFile], flags: Sequence[str] = ()
) -> tuple[str, ...]:
    """The command of a container that deploys if the plan made now was approved.

    It ends as werf does, or with one of ``PlanExit`` or 128 + a signal before anything is applied.
    werf's plan, which has contents, isn't printed; of a failed one the last error is.

    Args:
        approved: ``Plan.text`` of what was approved; the revision must be equal.
        values: all values files; werf's variables name their copies.
        flags: of ``werf bundle apply``.
    """
    script = _DEPLOY + shlex.join(("exec", "werf", "bundle", "apply", *flags)) + "\n"
    files = _arguments((approved, *values))
    return "sh", "-c", literal(script), "deploy", approved.copy, *files


def _arguments(files: Iterable[SealedFile]) -> tuple[str, ...]:
    return tuple(part for one in files for part in (one.path, one.salt, one.copy, one.sha256))


_BEGINNING: Final = f"""\
set -u
LC_ALL=C
export LC_ALL
exec 2>&1
trap 'exit 143' TERM
trap 'exit 130' INT
failed() {{
  printf 'Error: %s\\n' "$1"
  exit {PlanExit.FAILED:d}
}}
changed() {{
  printf 'Error: PlanChanged: %s\\n' "$1"
  exit {PlanExit.CHANGED:d}
}}
broken() {{
  failed 'the plan could not be read: a tool failed, see the line above'
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
    esac
    shift 4
  done
}}
work=$TMPDIR/plan
first=$1
shift
unseal "$@"
graph=$work.dot
export WERF_DEPLOY_GRAPH_PATH="$graph"
: >"$graph" || broken
code=0
"""
"""On a signal sh ends when werf's plan has ended, before its next command."""

_PLAN: Final = (
    _BEGINNING
    + f"""\
werf bundle plan --exit-code || code=$?
case $code in
0 | 2 | 3) ;;
*)
  printf 'werf bundle plan ended with exit code %s\\n' "$code"
  exit {PlanExit.FAILED:d}
  ;;
esac
"""
    + READ_GRAPH
    + f"""\
sum=$(sha256sum <"$work.list") || broken
printf '\\n%s %s %s %s\\n' {BEGIN} "$first" "$count" "${{sum%% *}}" || broken
sed '' "$work.list" || broken
printf '%s %s %s\\n' {END} "$first" "$count" || broken
"""
)

_DEPLOY: Final = (
    _BEGINNING
    + f"""\
werf bundle plan --exit-code >"$work.log" 2>&1 || code=$?
case $code in
0 | 2 | 3) ;;
*)
  sed -n '/^Error: /p' "$work.log" >"$work.errors"
  printf 'werf bundle plan ended with exit code %s\\n' "$code"
  sed -n '$p' "$work.errors"
  exit {PlanExit.FAILED:d}
  ;;
esac
"""
    + READ_GRAPH
    + """\
unseal "$@"
sort -u "$first" >"$work.approved" || broken
sort -u "$first" "$work.list" >"$work.both" || broken
approved=$(sha256sum <"$work.approved") || broken
both=$(sha256sum <"$work.both") || broken
if [ "$approved" != "$both" ]; then
  grep -F -x -v -f "$first" "$work.list" >"$work.more"
  more=$(wc -l <"$work.more")
  line=$(sed -n 1p "$work.more")
  changed "nothing was applied: $((more)) of what would be done wasn't approved, first: $line"
fi
unset WERF_DEPLOY_GRAPH_PATH
"""
)
