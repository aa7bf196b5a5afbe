"""The shell scripts of the Jobs that plan, and that deploy what was planned. Pure.

They begin as each that checks (``jobs/checks.py``), run ``werf bundle plan`` and read its graph;
and they sleep where a guard isn't in force yet.

Names in a graph aren't escaped (docs/facts/werf.md, "bundle plan"). So each line must have a
known form, and each edge must connect nodes that have lines of their own: if an object's name makes
an operation look like an edge, or like two lines, its type and kind are still read, or the script
fails.

A plan Job prints its plan last in its log, as a block (``operations.read_block``).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final

from copyrator.bundles.jobs.checks import (
    AS_ACCOUNT,
    AT_ROLLBACK,
    AT_UNINSTALL,
    BEGINNING,
    HAS,
    HOOK,
    UNKNOWN_ACCOUNT,
    Inexact,
)
from copyrator.bundles.jobs.pod import RENDER_DIR, literal
from copyrator.bundles.jobs.rights import ServiceAccount
from copyrator.bundles.jobs.script import ASK_FOR_EVENTS, CheckExit, SealedFile, arguments
from copyrator.bundles.plans.operations import (
    BEGIN,
    END,
    EXACT,
    HIDDEN_LENGTH,
    MAX_HIDDEN,
    MOST_OBJECT_LINES,
    OBJECT,
    PLAN_BYTES,
    PLAN_OPERATIONS,
    REVISION,
    WRITES,
    OperationType,
)

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


STORED: Final = "copyrator-stored"


class StoredWord(StrEnum):
    """What a script prints in place of a hash."""

    NONE = "none"
    """There is nothing to compare with: the plan has no hash of its render."""
    EXACT = "exact"
    """werf applied the plan that was approved, so nothing has to be compared."""
    LARGE = "large"
    """It doesn't fit in where the render did."""
    SKIPPED = "skipped"
    """Nothing was to change, so nothing was stored, and the former revision isn't equal."""
    NOT_ASKED = "not-asked"
    """This version of werf can't be asked."""
    UNREADABLE = "unreadable"


READ_GRAPH: Final = f"""\
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
"""From ``$graph`` to ``$work.list``: the revision, then the operations, sorted; ``$count`` of them.

It calls ``failed MESSAGE``, or ``broken`` where a tool fails.
"""


class PlanExit(IntEnum):
    """Exit codes of the scripts, which werf doesn't use; texts in a log could be a chart's."""

    CHANGED = CheckExit.CHANGED
    """PlanChanged: values, contents or operations aren't those that were planned or approved."""
    FAILED = CheckExit.FAILED
    """PlanFailed: werf's plan or render failed, or it can't be read."""
    NOT_VENDORED = CheckExit.NOT_VENDORED
    NOT_GUARDED = 13
    """GuardNotActive: the API server doesn't hold the Job to its list; nothing was written."""
    DIFFERENT = 14
    """DeployedDifferently: what was stored for the release isn't what was approved."""


@dataclass(frozen=True, slots=True)
class StoredComparison:
    """A deploy whose script compares what was stored for the release with what was approved."""

    nonce: str
    """32 random hexadecimal digits of this Job, for the line with the result (``stored.py``)."""
    roll_back_to: int | None = None
    """The revision to roll back to where they differ; None: it isn't rolled back."""


NONCE_AT: Final = 6
"""Index of the nonce in ``plan_command``."""


def plan_command(
    nonce: str,
    salt: SealedFile,
    values: Iterable[SealedFile],
    *,
    account: ServiceAccount | None = None,
    renders: int = 2,
    directory: str = RENDER_DIR,
) -> tuple[str, ...]:
    """The command of a container that prints its plan as a block (see ``read_block``).

    It ends with 0 with and without changes, else with one of ``PlanExit`` or 128 + a signal.

    Args:
        nonce: 32 random hexadecimal digits of this Job.
        salt: of the hash of renders, the same in all Jobs of the Bundle.
        values: all values files; werf's variables name their copies.
        account: the Job's, to tell what would run as it; None where it isn't known.
        renders: 2 to find whether the chart renders differently each time; 1 if that is known,
            or doesn't matter.
        directory: in memory; no part of a render is stored elsewhere.
    """
    first = ("plan", directory, salt.copy, nonce, str(renders), _name_of(account))
    return "sh", "-c", literal(_PLAN), *first, *arguments((salt, *values))


def deploy_command(
    approved: SealedFile,
    salt: SealedFile,
    values: Iterable[SealedFile],
    flags: Sequence[str] = (),
    *,
    account: ServiceAccount | None = None,
    guard: str | None = None,
    comparison: StoredComparison | None = None,
    directory: str = RENDER_DIR,
) -> tuple[str, ...]:
    """The command of a container that deploys if the plan and the render made now were approved.

    It ends as werf does, or with one of ``PlanExit`` or 128 + a signal before anything is applied.
    werf's plan, which has contents, isn't printed; of a failed one the last error is.

    Args:
        approved: ``Plan.text`` of what was approved; render and revision must be equal.
        salt: of the hash of renders.
        values: all values files; werf's variables name their copies.
        flags: of ``werf bundle apply``.
        account: the Job's, as of the plan.
        guard: the policy that holds the Job to its list; it must be in force before the render and
            before the apply.
        comparison: what was stored is compared afterwards; None: it isn't.
        directory: in memory.
    """
    probe = _REQUIRE if guard is not None else ""
    apply = 'exec werf "$@"\n' if comparison is None else _apply_and_compare(comparison)
    # The very file that was hashed is applied where werf saved the plan.
    command = shlex.join(("set", "--", "bundle", "apply", *flags))
    command += '\n[ -z "$saved" ] || set -- "$@" --use-plan "$memory/saved.$plans"\n'
    parts = (_CHECKS_OF_DEPLOY, probe, _PROOF, probe, command, apply)
    script = BEGINNING + (_probe(guard) if guard is not None else "") + "".join(parts)
    first = ("deploy", directory, salt.copy, approved.copy, _name_of(account))
    return "sh", "-c", literal(script), *first, *arguments((approved, salt, *values))


def _name_of(account: ServiceAccount | None) -> str:
    return str(account) if account is not None else UNKNOWN_ACCOUNT


def require_guard(policy: str) -> str:
    """A script that ends the container where the policy doesn't hold the Job to its list."""
    return f"{_probe(policy)}{_REQUIRE}"


def _probe(policy: str) -> str:
    """The function ``require_guard``: three connections must find the policy in force for the Job.

    A dry run of this name is the only one that the policy judges, and it is on no list.
    """
    return f"guard={shlex.quote(policy)}\n{_REQUIRE_GUARD}"


def _apply_and_compare(comparison: StoredComparison) -> str:
    """Apply by the arguments, and compare what was stored unless the plan is exact."""
    back = comparison.roll_back_to or ""
    return (
        f"nonce={shlex.quote(comparison.nonce)}\nback={back}\n{_COMPARISON}"
        'run_werf "$@"\ncompare_stored\n'
    )


_REQUIRE: Final = "require_guard\n"
PROBE: Final = "guard-probe"
"""The name in the policy's condition (``templates/guard.yaml``)."""

_REQUIRE_GUARD: Final = f"""\
ask_guard() {{
  said=$(WERF_SKIP_TLS_VERIFY_REGISTRY=0 werf kubectl create "$1" {PROBE} \\
    --namespace "$WERF_NAMESPACE" --dry-run=server --validate=false --request-timeout 3s 2>&1) || :
}}
require_guard() {{
  refusals=0 misses=0
  while [ "$refusals" -lt 3 ]; do
    ask_guard configmap
    case $said in
    *'namespaces "'*'" not found'*) ask_guard namespace ;;
    esac
    case $said in
    *" ValidatingAdmissionPolicy '$guard' with binding '$guard' denied request: "*)
      refusals=$((refusals + 1))
      continue
      ;;
    *' is forbidden: User "'*)
      printf 'Error: %s\\n' "$said"
      exit {PlanExit.FAILED:d}
      ;;
    esac
    refusals=0 misses=$((misses + 1))
    if [ "$misses" -ge 10 ]; then
      printf 'Error: GuardNotActive: nothing was written: policy %s %s; %s\\n' "$guard" \\
        "doesn't hold this Job to its list, as its probe ended with: $said" \\
        'after its binding was made anew, API servers must be restarted (kubernetes#130887)'
      exit {PlanExit.NOT_GUARDED:d}
    fi
    sleep 1 || :
  done
}}
"""
"""A new list is in force after milliseconds, and after a second where the policy is new."""

_OF_OBJECT: Final = "|".join(
    (AS_ACCOUNT, f"{AT_ROLLBACK}create ", f"{AT_UNINSTALL}create ", HOOK, HAS)
)

READ_OBJECTS: Final = f"""\
read_render
grep -E -v '^(needs .*|hidden .*|({_OF_OBJECT}){OBJECT})$' "$memory/objects" >"$memory/unknown"
case $? in
0)
  line=$(sed -n -e 's/[^ -~]/?/g' -e 's/^\\(.\\{{200\\}}\\).*/\\1/' -e 1p "$memory/unknown")
  refused "the chart has an object that can't be read: $line"
  ;;
1) ;;
*) broken ;;
esac
sed -n -E '/^({_OF_OBJECT})/p' "$memory/objects" >"$work.found" || broken
sort -u "$work.found" >"$work.objects" || broken
sed -n -E '/^({HOOK}|{HAS})/p' "$work.objects" >"$work.found" || broken
objects=$(wc -l <"$work.found") || broken
objects=$((objects))
[ "$objects" -le {PLAN_OPERATIONS} ] ||
  refused "the chart has $objects objects; at most {PLAN_OPERATIONS} are accepted"
lines=$(wc -l <"$work.objects") || broken
lines=$((lines))
[ "$lines" -le {MOST_OBJECT_LINES} ] ||
  refused "the chart's objects have $lines lines; at most {MOST_OBJECT_LINES} are accepted"
size=$(wc -c <"$work.objects") || broken
[ "$size" -le {PLAN_BYTES} ] ||
  refused "the chart's objects have $size bytes; at most {PLAN_BYTES} are accepted"
"""
"""From the render to ``$work.objects``, sorted: see ``operations.RenderedObjects``.

It calls ``refused MESSAGE`` where a name isn't whole in its line, a hook is of another event than
werf and Helm know, or there are too many.
"""

_READ_HIDDEN: Final = f"""\
sed -n '/^hidden /p' "$memory/objects" >"$work.named" || broken
sed -e 's/^\\(.\\{{{HIDDEN_LENGTH}\\}}\\).*/\\1/' -e 's:[^A-Za-z0-9 ./\\:_-]:?:g' \\
  "$work.named" >"$work.found" || broken
sed -e 's:/:|:' -e 's:/:?:g' -e 's:|:/:' -e 's: :|:' -e 's: :?:g' -e 's:|: :' \\
  "$work.found" >"$work.named" || broken
sort -u "$work.named" >"$work.hidden" || broken
hidden=$(wc -l <"$work.hidden") || broken
hidden=$((hidden))
"""
"""The documents that have ``werf.io/sensitive`` anywhere and aren't v1 Secrets."""

_PLAN: Final = (
    BEGINNING
    + """\
nonce=$3
renders=$4
account=$5
shift 5
refused() {
  failed "$1"
}
unseal "$@"
render_chart
"""
    + f"require_render {PlanExit.FAILED:d}\n"
    + """\
hash_render
if [ "$renders" -gt 1 ]; then
  first=$rendered
  render_chart
"""
    + f"  require_render {PlanExit.FAILED:d}\n"
    + """\
  hash_render
  [ "$rendered" = "$first" ] || rendered=none
fi
"""
    + READ_OBJECTS
    + _READ_HIDDEN
    + """\
: >"$memory/render"
ask_saving
"""
    + f"""\
[ -n "$inexact" ] || [ "$rendered" != none ] || inexact={Inexact.DRAWN}
plan_deploy
require_plan
if [ "$renders" -gt 1 ] && [ -z "$inexact" ]; then
  first=$saved
  : >"$memory/saved.$plans" || broken
  plan_deploy
  require_plan
  [ "$saved" = "$first" ] || inexact={Inexact.DRAWN}
fi
"""
    + READ_GRAPH
    + f"""\
exact=${{inexact:-$saved}}
sed 's/<hidden [0-9]* sensitive [a-z]*, hash [0-9a-f]*>/<hidden>/g' "$memory/diff" || broken
sed -n '1,{MAX_HIDDEN}p' "$work.hidden" >"$work.first" || broken
counts="$count $lines $hidden"
sed '' "$work.list" "$work.objects" "$work.first" >"$work.block" || broken
printf '%s %s %s\\n' "$rendered" "$hidden" "$exact" >"$work.bound" || broken
sed '' "$work.bound" "$work.block" >"$work.hashed" || broken
sum=$(sha256sum <"$work.hashed") || broken
printf '\\n%s %s %s %s %s %s\\n' {BEGIN} "$nonce" "$counts" "${{sum%% *}}" "$rendered" "$exact" ||
  broken
sed '' "$work.block" || broken
printf '%s %s %s\\n' {END} "$nonce" "$counts" || broken
"""
)

_HASH_STORABLE: Final = """\
join_storable() {
  from="^---${mark}b# Source: "
  crds="$from[^/$mark]*\\(/charts/[^/$mark]*\\)*/crds/"
  join_render "\\,$crds,{\\,$from[^$mark]*/templates/,!d;};/^$/d"
}
hash_documents join_storable
storable=$sum
"""
"""The hash of what werf stores of a render: all but files of ``crds/``, which are no templates."""

_COMPARISON: Final = f"""\
stop_werf() {{
  stopped=yes
  kill -s "$1" "$child" 2>/dev/null && waits=yes
}}
run_werf() {{
  child='' stopped=''
  trap 'stop_werf TERM' TERM
  trap 'stop_werf INT' INT
  werf "$@" &
  child=$!
  [ -z "$stopped" ] || stop_werf TERM
  waits=yes
  while [ -n "$waits" ]; do
    waits='' code=0
    wait "$child" || code=$?
  done
  trap 'exit 143' TERM
  trap 'exit 130' INT
}}
reports() {{
  grep -q -E "\\"status\\": *\\"($1)\\"" "${{WERF_DEPLOY_REPORT_PATH:-/dev/null}}" 2>/dev/null
}}
report_failed() {{
  [ -s "${{WERF_DEPLOY_REPORT_PATH:-}}" ] || return 0
  sed -E 's/("status": *)"[a-z]*"/\\1"failed"/' "$WERF_DEPLOY_REPORT_PATH" >"$memory/messages" &&
    sed '' "$memory/messages" >"$WERF_DEPLOY_REPORT_PATH"
}}
get_stored() {{
  werf helm get "$1" "$WERF_RELEASE" --namespace "$WERF_NAMESPACE" --revision "$revision" \\
    >>"$memory/stored" 2>>"$memory/messages"
}}
join_stored() {{
  source="\\(# Source: [^$mark]*${{mark}}b\\)"
  join_documents "$memory/stored" '1{{/^# Source: /{{h;s/.*/---/;G;h;d;}};}}' \\
    "s/^---${{mark}}b$source\\1/---${{mark}}b\\1/;s/${{mark}}b$//;/^---$/d;/^$/d"
}}
read_stored() {{
  for one in render tokens objects unknown diff messages stored; do
    : >"$memory/$one"
  done
  read -r _ revision <"$work.revision" || broken
  ! reports skipped || revision=$((revision - 1))
  if ! get_stored manifest || ! get_stored hooks; then
    printf 'x\\n' 2>/dev/null >"$memory/probe" || {{ echo {StoredWord.LARGE} && return 0; }}
    case $(werf version) in
    v[12].* | [12].*) echo {StoredWord.UNREADABLE} ;;
    *) echo {StoredWord.NOT_ASKED} ;;
    esac
    return 0
  fi
  printf 'x\\n' 2>/dev/null >"$memory/probe" || {{ echo {StoredWord.LARGE} && return 0; }}
  hash_documents join_stored
  [ "$sum" = "$storable" ] || [ "$count" -gt 0 ] || ! reports skipped || sum={StoredWord.SKIPPED}
  printf '%s\\n' "$sum"
}}
compare_stored() {{
  [ "$code" -eq 0 ] || reports 'deployed|skipped|succeeded' || exit "$code"
  stored={StoredWord.NONE}
  if [ -s "$work.exact" ]; then
    storable={StoredWord.NONE} stored={StoredWord.EXACT}
  elif [ "$rendered" = none ]; then
    storable={StoredWord.NONE}
  else
    stored=$(read_stored) || stored={StoredWord.UNREADABLE}
  fi
  : >"$memory/stored"
  case $stored in
  "$storable" | {StoredWord.EXACT} | {StoredWord.SKIPPED} | {StoredWord.NOT_ASKED} | \\
    {StoredWord.UNREADABLE}) ;;
  *)
    printf '\\nError: DeployedDifferently: what was stored for the release %s\\n' \\
      "isn't what was approved"
    report_failed
    if [ -n "$back" ]; then
      run_werf rollback --namespace "$WERF_NAMESPACE" --release "$WERF_RELEASE" --revision "$back"
    fi
    code={PlanExit.DIFFERENT:d}
    ;;
  esac
  printf '\\n%s %s %s %s\\n' {STORED} "$nonce" "$storable" "$stored"
  exit "$code"
}}
"""
"""``run_werf`` passes signals on, and sets ``$code``; its result isn't its own. ``report_failed``:
what kills a rollback doesn't make the deploy a successful one.

Each document that was stored is followed by an empty line, and each hook has the line ``# Source:``
twice (docs/facts/guard.md); the first has no ``---``.
"""

_CHECKS_OF_DEPLOY: Final = (
    """\
approved=$3
account=$4
shift 4
refused() {
  changed "nothing was applied: $1"
}
unseal "$@"
"""
    + ASK_FOR_EVENTS
)

_PROOF: Final = (
    "render_chart\n"
    f"require_render {PlanExit.FAILED:d}\n"
    "hash_render\n"
    + _HASH_STORABLE
    + READ_OBJECTS
    + """\
: >"$memory/render"
ask_saving
plan_deploy
require_plan
"""
    + READ_GRAPH
    + f"""\
unseal "$@"
grep -q '^{EXACT}' "$approved"
case $? in
0) printf '{EXACT}%s\\n' "${{saved:-none}}" >"$work.exact" || broken ;;
1) : >"$work.exact" ;;
*) broken ;;
esac
sed -n -E 's#^({"|".join(WRITES)}) #{HAS}#p' "$approved" >"$work.written" || broken
"""
    + """\
grep -q -F -x 'render none' "$approved"
case $? in
0) rendered=none ;;
1) ;;
*) broken ;;
esac
printf 'render %s\\n' "$rendered" >"$work.render" || broken
sed '' "$work.list" "$work.render" "$work.exact" "$work.objects" >"$work.now" || broken
sort -u "$approved" "$work.written" >"$work.approved" || broken
sort -u "$work.approved" "$work.now" >"$work.both" || broken
before=$(sha256sum <"$work.approved") || broken
both=$(sha256sum <"$work.both") || broken
if [ "$before" != "$both" ]; then
  grep -F -x -v -f "$work.approved" "$work.now" >"$work.more"
  more=$(wc -l <"$work.more")
  line=$(sed -n 1p "$work.more")
  case $line in
  'render '*) changed 'nothing was applied: the contents are not those that were planned' ;;
  'exact '*)
    changed "nothing was applied: werf's plan isn't the one that was planned, as an object of the \
release has changed since, or the chart draws"
    ;;
  *) changed "nothing was applied: $((more)) of what would be done wasn't approved, first: $line" ;;
  esac
fi
"""
)
