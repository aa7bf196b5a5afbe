"""The shell scripts of the Jobs that plan and that deploy what was approved. Pure.

Both run ``werf bundle plan`` and read its graph strictly (docs/facts/werf.md, "bundle plan"): names
in it aren't escaped, so a line that isn't known, or an edge to a node that the graph doesn't have,
ends them. They use sh, grep, sed, sort, wc and sha256sum, as Alpine's busybox and Debian have them,
and no pipes but one, because sh ignores a failure before a pipe.

They rely on PATH and TMPDIR being the operator's, and on ``withheld`` variables not being set.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from copyrator.bundles.policy.plan import OBJECT, REVISION, OperationType
from copyrator.bundles.policy.plan_block import BEGIN, END
from copyrator.bundles.policy.pod import literal
from copyrator.settings.limits import PLAN_BYTES, PLAN_OPERATIONS


class PlanExit(IntEnum):
    """Exit codes of the scripts that werf doesn't use: the log's words prove nothing."""

    CHANGED = 10
    """PlanChanged: values or operations aren't those that were planned or approved."""
    FAILED = 11
    """PlanFailed: werf's plan failed, or it can't be read."""


@dataclass(frozen=True, slots=True)
class SealedFile:
    """A file of a Secret that a script accepts by its hash.

    The script copies it and checks the copy, which werf then reads: the kubelet may update the
    mounted file at any time.
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


_WITHHELD: Final = frozenset(
    {
        *("ENV", "BASH_ENV", "SHELLOPTS", "BASHOPTS", "PS4", "GREP_OPTIONS", "POSIXLY_CORRECT"),
        *("PATH", "WERF_DEPLOY_GRAPH_PATH", "WERF_SHOW_SENSITIVE_DIFFS"),
    }
)
_WITHHELD_PREFIXES: Final = ("LD_", "NELM_FEAT_")


def withheld(name: str) -> bool:
    """Whether a variable of ``spec.env`` is kept from these Jobs.

    It would run other code before or in the script, change what the script's tools do, or what werf
    prints and how its plan ends.
    """
    return name in _WITHHELD or name.startswith(_WITHHELD_PREFIXES)


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


_TYPES: Final = "|".join(OperationType)
_NODE: Final = "".join(
    (
        '"(',
        f"({_TYPES}|track-absence|track-presence|track-readiness)/[0-9]+/[0-9]+/{OBJECT}",
        f"|(create|update|delete)-release/[0-9]+/[0-9]+/[a-z0-9-]+:[a-z0-9.-]+:{REVISION}",
        "|noop/[0-9]+/[0-9]+/stage/[A-Za-z0-9/:_.-]+",
        ')"',
    )
)
_ATTRIBUTES: Final = r" \[  weight=[0-9]+ \];"
_KNOWN: Final = "|".join(
    (
        "",
        r"strict digraph \{",
        '\trankdir="LR";',
        f"\t{_NODE}{_ATTRIBUTES}",
        f"\t{_NODE} -> {_NODE}{_ATTRIBUTES}",
        r"\}",
    )
)

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
work=$TMPDIR/plan
first=$1
shift
while [ "$#" -gt 0 ]; do
  sed '' "$1" >"$3"
  sum=$({{ sed '' "$2" && sed '' "$3"; }} | sha256sum)
  [ "${{sum%% *}}" = "$4" ] || changed "$1 isn't what was planned with"
  shift 4
done
graph=$work.dot
export WERF_DEPLOY_GRAPH_PATH="$graph"
: >"$graph" || broken
code=0
"""
"""A signal lets sh end when werf's plan has ended, before anything else is done."""

_READING: Final = f"""\
[ -s "$graph" ] || failed 'werf wrote no graph of its plan'
grep -E -v -n '^({_KNOWN})$' "$graph" >"$work.unknown"
case $? in
0)
  line=$(sed -n -e 's/[^ -~]/?/g' -e 's/^\\(.\\{{200\\}}\\).*/\\1/' -e 1p "$work.unknown")
  failed "the graph of werf's plan has an unknown line or operation: $line"
  ;;
1) ;;
*) broken ;;
esac
frame=$(sed -n -e 1p -e '$p' "$graph") || broken
[ "$frame" = 'strict digraph {{
}}' ] || failed "the graph of werf's plan isn't whole"
sed -n 's/^\t"\\([^"]*\\)" \\[.*/\\1/p' "$graph" >"$work.named" || broken
sed -n 's/^\t"\\([^"]*\\)" -> ".*/\\1/p' "$graph" >"$work.from" || broken
sed -n 's/^\t"[^"]*" -> "\\([^"]*\\)" .*/\\1/p' "$graph" >"$work.to" || broken
sort -u "$work.named" >"$work.nodes" || broken
sort -u "$work.named" "$work.from" "$work.to" >"$work.ends" || broken
nodes=$(sha256sum <"$work.nodes") || broken
ends=$(sha256sum <"$work.ends") || broken
[ "$nodes" = "$ends" ] || failed "the graph of werf's plan has an edge of an unknown node"
sed -n -E 's#^create-release/[0-9]+/[0-9]+/[^:]*:[^:]*:([0-9]+)$#revision \\1#p' \\
  "$work.nodes" >"$work.revision" || broken
revisions=$(wc -l <"$work.revision") || broken
[ "$revisions" -eq 1 ] || failed "werf's plan has no revision of the release, or several"
sed -n -E 's#^({_TYPES})/[0-9]+/[0-9]+/#\\1 #p' "$work.nodes" >"$work.found" || broken
sort -u "$work.found" >"$work.sorted" || broken
count=$(wc -l <"$work.sorted") || broken
count=$((count))
[ "$count" -le {PLAN_OPERATIONS} ] ||
  failed "the plan has $count operations; at most {PLAN_OPERATIONS} are accepted"
sed '' "$work.revision" "$work.sorted" >"$work.list" || broken
size=$(wc -c <"$work.list") || broken
[ "$size" -le {PLAN_BYTES} ] ||
  failed "the plan's operations have $size bytes; at most {PLAN_BYTES} are accepted"
"""
"""From the graph to the list: the revision, then the operations, sorted."""

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
    + _READING
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
    + _READING
    + """\
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
