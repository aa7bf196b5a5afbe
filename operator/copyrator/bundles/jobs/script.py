"""The shell scripts of the Jobs that plan, and that deploy for gated Bundles. Pure.

All render first (``WERF_VALIDATE=1 werf bundle render`` prints what an apply writes) and end where
werf had to download dependencies of the chart, as the digest doesn't bind those. A plan, and the
deploy of what was approved, also run ``werf bundle plan`` and read its graph. They use sh, grep,
sed, sort, wc and sha256sum, sleep where a guard isn't in force yet, and gzip, head, tail and od
where the image has them and werf saves its plan, as Alpine's busybox and Debian have them, and no
pipe but some whose results are compared: sh ignores a failure before a pipe.

They rely on PATH and HOME being the image's and the operator's, TMPDIR the operator's, and on the
author having set no variable that sh, its tools or the loader read, but LANG and TZ:
``gates/restrictions.py`` withholds others.

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
from enum import IntEnum
from typing import Final

from copyrator.bundles.account import ServiceAccount
from copyrator.bundles.features.approval.operations import (
    AS_ACCOUNT,
    AT_ROLLBACK,
    AT_UNINSTALL,
    BEGIN,
    END,
    EXACT,
    HAS,
    HIDDEN_LENGTH,
    HOOK,
    MAX_HIDDEN,
    MOST_OBJECT_LINES,
    OBJECT,
    PLAN_BYTES,
    PLAN_OPERATIONS,
    REVISION,
    WRITES,
    Inexact,
    OperationType,
)
from copyrator.bundles.features.approval.stored import STORED, StoredWord
from copyrator.bundles.jobs.rights import ASK_FOR_EVENTS, NEEDS, PERMISSION_KINDS
from copyrator.bundles.pod import RENDER_DIR, literal

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

    CHANGED = 10
    """PlanChanged: values, contents or operations aren't those that were planned or approved."""
    FAILED = 11
    """PlanFailed: werf's plan or render failed, or it can't be read."""
    NOT_VENDORED = 12
    """DependenciesNotVendored: werf downloaded dependencies of the chart."""
    NOT_GUARDED = 13
    """GuardNotActive: the API server doesn't hold the Job to its list; nothing was written."""
    DIFFERENT = 14
    """DeployedDifferently: what was stored for the release isn't what was approved."""


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


SECRET_KEY: Final = "secret-key"  # noqa: S105 - a file's name
"""Name of the copy whose content becomes WERF_SECRET_KEY."""
KUBECONFIG: Final = "kubeconfig"
"""Name of the copy that becomes werf's kubeconfig."""


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
    return "sh", "-c", literal(_PLAN), *first, *_arguments((salt, *values))


def uninstall_command(
    script: str, kubeconfig: SealedFile | None, guard: str | None = None
) -> tuple[str, ...]:
    """The command of a container that uninstalls by this script, in the cluster of a kubeconfig.

    ``guard``: the policy that holds the Job to its list, which must be in force.
    """
    if guard is not None:
        script = f"LC_ALL=C\nexport LC_ALL\n{_probe(guard)}require_guard\n{script}"
        return "sh", "-c", literal(script)
    if kubeconfig is None:
        return "sh", "-c", script
    script = f'LC_ALL=C\nexport LC_ALL\n{_UNSEAL}unseal "$@"\n{script}'
    return "sh", "-c", literal(script), "uninstall", *_arguments((kubeconfig,))


APPLY_COMMAND: Final = (
    "sh",
    "-c",
    literal(f"trap 'exit 143' TERM\n{ASK_FOR_EVENTS}exec werf bundle apply \"$@\"\n"),
    "deploy",
)
"""The command of a container that deploys what nobody planned, before the flags of werf's apply.

It ends as werf does.
"""


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
    probe = "require_guard\n" if guard is not None else ""
    apply = 'exec werf "$@"\n' if comparison is None else _apply_and_compare(comparison)
    # The very file that was hashed is applied where werf saved the plan.
    command = shlex.join(("set", "--", "bundle", "apply", *flags))
    command += '\n[ -z "$saved" ] || set -- "$@" --use-plan "$memory/saved.$plans"\n'
    parts = (_CHECKS_OF_DEPLOY, probe, _PROOF, probe, command, apply)
    script = _BEGINNING + (_probe(guard) if guard is not None else "") + "".join(parts)
    first = ("deploy", directory, salt.copy, approved.copy, _name_of(account))
    return "sh", "-c", literal(script), *first, *_arguments((approved, salt, *values))


def checked_deploy_command(
    values: Iterable[SealedFile], flags: Sequence[str] = (), *, directory: str = RENDER_DIR
) -> tuple[str, ...]:
    """The command of a container that deploys if werf downloads no dependencies of the chart.

    It ends as werf does, or with one of ``PlanExit`` or 128 + a signal before anything is applied.
    """
    apply = shlex.join(("exec", "werf", "bundle", "apply", *flags))
    script = f"{_CHECKED_DEPLOY}{apply}\n"
    return "sh", "-c", literal(script), "deploy", directory, "", *_arguments(values)


def _name_of(account: ServiceAccount | None) -> str:
    return str(account) if account is not None else _UNKNOWN_ACCOUNT


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


def _arguments(files: Iterable[SealedFile]) -> tuple[str, ...]:
    return tuple(part for one in files for part in (one.path, one.salt, one.copy, one.sha256))


_UNKNOWN_ACCOUNT: Final = "-"
"""No account has that name."""
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

_UNSEAL: Final = f"""\
changed() {{
  printf 'Error: PlanChanged: %s\\n' "$1"
  exit {PlanExit.CHANGED:d}
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

_DOT: Final = ".{1,10}"
"""werf's patterns of keys have a dot that isn't escaped, which any one character matches."""
_HOOK_KEY: Final = f"(helm{_DOT}sh/hook|werf{_DOT}io/deploy-on)"
_POLICY_KEY: Final = f"(helm{_DOT}sh/hook-delete-policy|werf{_DOT}io/delete-policy)"
_EVENT: Final = "((pre-|post-)?(install|upgrade|rollback|delete)|test|test-success)"
_QUOTE: Final = "[\"'\\'']?"
_KEY_LINE: Final = f"^    {_QUOTE}(werf{_DOT}io|helm{_DOT}sh)/([A-Za-z0-9._-]+){_QUOTE}:"
_WITH_KEY: Final = (
    f"-e '\\#{_KEY_LINE}#{{' -e h -e 's#{_KEY_LINE}.*#@key \\2#p' -e g -e tkey -e :key -e '}}'"
)
"""Before the token of such a line one with the key's last part."""
_IN_METADATA: Final = (
    "s#^  (name|namespace): (.*)#@\\1 \\2#",
    "s#^  annotations:$#@annotations#",
    f"s#^    {_QUOTE}{_HOOK_KEY}{_QUOTE}: ({_EVENT}( *, *{_EVENT})*)$#@hook \\2#",
    f"s#^    {_QUOTE}{_HOOK_KEY}{_QUOTE}:.*#@unknown#",
    f"s#^    {_QUOTE}{_POLICY_KEY}{_QUOTE}:.*#@policy#",
    "s#^    kubernetes\\.io/service-account\\.name: (.*)#@account \\1#",
    f"s#.*werf{_DOT}io/sensitive.*#@hidden#",
    "s#^    [^ ].*#@deep#",
    "s#^     .*#@deeper#",
    "s#^  .*#@other#",
)
_ANYWHERE: Final = (
    "s#^---$#---#",
    "s#^apiVersion: (.*)#@version \\1#",
    "s#^kind: (.*)#@kind \\1#",
    f"s#.*werf{_DOT}io/sensitive.*#@hidden#",
    "s#^ +(- )?serviceAccount(Name)?: (.*)#@account \\3#",
    "s#^[^ ].*#@other#",
)


def _first_of(commands: Iterable[str]) -> str:
    """Options of sed that make of a line what the first of these substitutions does."""
    return " ".join(f"-e '{one}' -e t" for one in commands)


_TOKENS: Final = (
    f"-e '/^metadata:/,/^[^ ]/{{' {_WITH_KEY} {_first_of(_IN_METADATA)} -e '}}' "
    f"{_first_of(_ANYWHERE)} -e d"
)
"""Of the lines of a render what matters, one token each.

werf prints documents anew with sorted keys, so that only a top-level key begins a line, and each
key of its metadata is indented by two spaces. What is indented further than that allows continues a
value.
"""
_POD_KINDS: Final = (
    *("CronJob", "DaemonSet", "Deployment", "Job", "Pod", "ReplicaSet", "ReplicationController"),
    "StatefulSet",
)
_AS_DEFAULT: Final = " | ".join(f"'{kind}  default'" for kind in _POD_KINDS)
"""Pods run as the account ``default`` where none is named."""
_OF_OBJECT: Final = "|".join(
    (AS_ACCOUNT, f"{AT_ROLLBACK}create ", f"{AT_UNINSTALL}create ", HOOK, HAS)
)

SAVED_PLAN_PACKED: Final = 16 * 1024 * 1024
"""Bytes of a plan that werf 3 saves, packed: it is in the Job's memory."""
SAVED_PLAN_BYTES: Final = 64 * 1024 * 1024
"""Bytes of such a plan unpacked, which is one line mostly: the Job's script reads it by lines."""
_TIMESTAMP: Final = '^[[:space:]]*"timestamp": "[^"]*",\\{0,1\\}$'
"""No text of the plan can look so: in JSON its quotes are escaped, and its line ends."""
_DRY_RUN_TIME: Final = (
    r's/\(\\"manager\\":\\"helm\\",\\"operation\\":\\"Apply\\",\\"time\\":\\"\)'
    r'[0-9]\{4\}-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9]Z\\"}/\1\\"}/g'
)
"""Of an object that is updated the plan has what its dry run gave, with the time of that."""

_SAVED_PLAN: Final = f"""\
ask_saving() {{
  [ -z "${{WERF_SECRET_KEY-}}" ] || inexact={Inexact.ENCRYPTED}
  for one in gzip head tail od; do
    command -v "$one" >/dev/null || inexact=${{inexact:-{Inexact.TOOLS}}}
  done
  [ -n "$inexact" ] || {{
    werf bundle plan --save-plan "$memory/asked" --help >/dev/null 2>&1 &&
      werf bundle apply --use-plan "$memory/asked" --help >/dev/null 2>&1
  }} || inexact={Inexact.WERF}
}}
hash_saved() {{
  [ -s "$1" ] || failed 'werf saved no plan'
  packed=$(wc -c <"$1") || broken
  [ "$packed" -le {SAVED_PLAN_PACKED} ] ||
    failed "werf's saved plan has $((packed)) bytes; at most {SAVED_PLAN_PACKED} are accepted"
  : >"$work.unpacked" && : >"$work.hashed" || broken
  size=$(unpack "$1" 2>/dev/null | head -c {SAVED_PLAN_BYTES + 1} | wc -c) || broken
  [ "$size" -le {SAVED_PLAN_BYTES} ] ||
    failed "werf's saved plan has more than {SAVED_PLAN_BYTES} bytes unpacked"
  last=$(tail -c 4 "$1" | od -A n -t u1) || broken
  [ -s "$work.unpacked" ] && [ "$((size))" = "$(to_number $last)" ] || several_members
  : >"$work.hashed" || broken
  ! {{ head -c "$((packed - 1))" "$1" && echo >"$work.hashed"; }} | gzip -dc >/dev/null 2>&1 ||
    several_members
  [ -s "$work.hashed" ] || broken
  found=$({{ unpack "$1" | sed -n '/{_TIMESTAMP}/p' && echo >"$work.hashed"; }} | wc -l) || broken
  [ -s "$work.hashed" ] || broken
  [ "$found" -eq 1 ] ||
    failed "werf's saved plan has $((found)) lines with a timestamp instead of one"
  : >"$work.unpacked" && : >"$work.hashed" || broken
  sum=$({{
    sed '' "$salt" && echo 'saved plan' &&
      unpack "$1" | sed -e '/{_TIMESTAMP}/d' -e '{_DRY_RUN_TIME}' && echo >"$work.hashed"
  }} | sha256sum) || broken
  [ -s "$work.unpacked" ] && [ -s "$work.hashed" ] || broken
  saved=${{sum%% *}}
}}
several_members() {{
  failed "werf's saved plan isn't one gzip member with nothing behind it"
}}
unpack() {{
  gzip -dc "$1" && echo >"$work.unpacked"
}}
to_number() {{
  [ "$#" -ne 4 ] || echo $(($1 + ($2 << 8) + ($3 << 16) + ($4 << 24)))
}}
"""
"""Of a plan that werf saves nothing but its hash is used (docs/adr/0066-exact-plans.md).

gzip unpacks members one after the other, as werf does, and busybox passes over what is behind. The
last four bytes are the size of the last member, so that they tell whether there are others; and
without its last byte a file that ends with a member can't be unpacked.
"""

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
broken() {{
  failed 'the plan could not be read: a tool failed, see the line above'
}}
{_UNSEAL}last_error() {{
  sed -n -e ':next' -e '/^Error: /!d' -e ':cause' -e 'p' -e 'n' \\
    -e '/^[[:space:]]*[*] /bcause' -e '/^[^ :][^ ]*:[0-9][0-9]*:[0-9][0-9]*$/bcause' \\
    -e '/^  executing ".*" at <.*>:$/!bnext' -e 'p' -e 'n' -e '/^    [^ ]/bcause' \\
    -e 'bnext' "$1" >"$work.errors" || broken
  sed -n -e '/^Error: /h' -e '/^Error: /!H' -e '/error calling [^:]*: ./bshow' \\
    -e '/^    error calling include:$/bmore' -e '/^    error calling /bshow' -e ':more' \\
    -e '/execution error at (/bshow' -e '$bshow' -e 'd' \\
    -e ':show' -e 'g' -e 'p' -e 'q' "$work.errors" || broken
}}
require_space() {{
  printf 'x\\n' 2>/dev/null >"$memory/probe" || failed "$1 needs more memory than there is for it"
  : >"$memory/probe"
}}
render_chart() {{
  code=0
  WERF_VALIDATE=1 werf bundle render >"$memory/render" 2>"$memory/messages" || code=$?
  for one in "$HOME"/.werf/local_cache/helm_chart_dependencies/* \\
    "$HOME"/.werf/local_cache/helm_chart_dependencies/.[!.]*; do
    [ -e "$one" ] || [ -h "$one" ] || continue
    printf 'Error: DependenciesNotVendored: werf downloaded dependencies of the chart\\n'
    exit {PlanExit.NOT_VENDORED:d}
  done
}}
read_render() {{
  sed -E {_TOKENS} "$memory/render" >"$memory/tokens" || broken
  printf '\\n%s\\n' --- >>"$memory/tokens" || broken
  require_space 'the render of the chart'
  begin_document
  while IFS= read -r line; do
    case $line in
    @deep* | @hidden) [ "$open" != name ] || is_cut=yes ;;
    @annotations) section=annotations ;;
    @other | '@name '* | '@namespace '*) section='' ;;
    esac
    case $line in
    @hidden) is_hidden=yes open='' ;;
    '@key '*) [ -z "$section" ] || add_key "${{line#* }}" ;;
    @deeper) [ -z "$open" ] || is_cut=yes ;;
    *) open='' ;;
    esac
    case $line in
    ---) end_document ;;
    '@version '*) version=${{line#* }} ;;
    '@kind '*) kind=${{line#* }} ;;
    '@name '*)
      unquote "${{line#* }}"
      name=$value open=name
      ;;
    '@namespace '*)
      unquote "${{line#* }}"
      space=$value open=name
      ;;
    '@account '*)
      unquote "${{line#* }}"
      is_named=yes
      [ "$value" != "${{account#*/}}" ] || runs=yes
      ;;
    '@hook '*)
      events="$events ${{line#* }}"
      is_hook=yes open=hook
      ;;
    @policy) is_hook=yes ;;
    @unknown) is_cut=yes ;;
    esac
  done <"$memory/tokens" >"$memory/objects"
  : >"$memory/tokens"
  require_space 'the render of the chart'
}}
add_key() {{
  case " $keys " in
  *" $1 "*) twice=$1 ;;
  *) keys="$keys $1" ;;
  esac
}}
begin_document() {{
  version='' kind='' name='' space='' open='' events='' section='' keys='' twice=''
  is_hidden='' is_cut='' is_hook='' is_named='' runs=''
}}
unquote() {{
  value=$1
  case $value in
  \\'*\\' | '"'*'"')
    value=${{value#?}}
    value=${{value%?}}
    ;;
  esac
}}
end_document() {{
  [ "$version $kind" != 'v1 Secret' ] || is_hidden=''
  [ -z "$is_hidden" ] || printf 'hidden %s/%s\\n' "${{kind:-?}}" "${{name:-?}}"
  if [ -n "$version$kind$name" ]; then
    printf 'needs %s %s %s\\n' "$version" "$kind" "$space"
    case "$kind $is_named ${{account#*/}}" in
    {_AS_DEFAULT}) runs=yes ;;
    esac
    [ "${{space:-${{WERF_NAMESPACE-}}}}" = "${{account%%/*}}" ] || runs=''
    [ "$space" != "${{WERF_NAMESPACE-}}" ] || space=''
    case $version in
    */*) object=$space:${{version%%/*}}:$kind:$name ;;
    *) object=$space::$kind:$name ;;
    esac
    [ -z "$is_cut" ] || printf 'name or hook of %s\\n' "$object"
    [ -z "$twice" ] || printf 'two annotations of one meaning, %s, in %s\\n' "$twice" "$object"
    [ -z "$runs" ] || printf '{AS_ACCOUNT}%s\\n' "$object"
    case $events in
    *rollback*) printf '{AT_ROLLBACK}create %s\\n' "$object" ;;
    esac
    case $events in
    *delete* | *test*) printf '{AT_UNINSTALL}create %s\\n' "$object" ;;
    esac
    if [ -n "$is_hook" ]; then
      printf '{HOOK}%s\\n' "$object"
    else
      printf '{HAS}%s\\n' "$object"
    fi
  fi
  begin_document
}}
name_kinds() {{
  grep -q -F ' is forbidden: ' "$1" || return 0
  werf bundle render >"$memory/render" 2>"$memory/rest" || return 0
  read_render
  : >"$memory/render"
  sort -u "$memory/objects" >"$memory/needs"
  sed -n -E 's#^({NEEDS})$#\\1#p' "$memory/needs" >"$memory/kinds"
  sed -n '1,{PERMISSION_KINDS}p' "$memory/kinds"
}}
require_render() {{
  if [ "$code" -ne 0 ]; then
    name_kinds "$memory/messages"
    printf 'werf bundle render ended with exit code %s\\n' "$code"
    last_error "$memory/messages"
    exit "$1"
  fi
  require_space 'the render of the chart'
}}
mark=$(printf '\\001')
join_documents() {{
  sed -n -e "$2" -e "s/$mark/${{mark}}a/g" -e '/^---$/bdocument' -e H -e '$!d' \\
    -e :document -e x -e "s/\\\\n/${{mark}}b/g" -e "$3" -e p "$1"
}}
join_render() {{
  join_documents "$memory/render" '/^---$/,$!d' "${{1-}}"
}}
hash_documents() {{
  : >"$work.hashed" && : >"$work.joined" || broken
  sum=$({{
    sed '' "$salt" && {{ "$1" && echo >"$work.joined"; }} |
      TMPDIR=$memory sort && echo >"$work.hashed"
  }} | sha256sum) || broken
  [ -s "$work.joined" ] && [ -s "$work.hashed" ] || broken
  sum=${{sum%% *}}
}}
hash_render() {{
  hash_documents join_render
  rendered=$sum
}}
{_SAVED_PLAN}plan_deploy() {{
  code=0
  : >"$graph" || broken
  while [ -e "$memory/saved.$plans" ]; do plans=$((plans + 1)); done
  set --
  [ -n "$inexact" ] || set -- --save-plan "$memory/saved.$plans"
  WERF_SHOW_INSIGNIFICANT_DIFFS=1 WERF_SHOW_VERBOSE_DIFFS=1 WERF_SHOW_VERBOSE_CRD_DIFFS=1 \\
    WERF_DEPLOY_GRAPH_PATH="$graph" \\
    werf bundle plan --exit-code "$@" >"$memory/diff" 2>&1 || code=$?
}}
require_plan() {{
  case $code in
  0 | 2 | 3)
    require_space "the diff of werf's plan"
    [ -n "$inexact" ] || hash_saved "$memory/saved.$plans"
    ;;
  *)
    name_kinds "$memory/diff"
    printf 'werf bundle plan ended with exit code %s\\n' "$code"
    last_error "$memory/diff"
    exit {PlanExit.FAILED:d}
    ;;
  esac
}}
work=$TMPDIR/plan
graph=$work.dot
memory=$1
salt=$2
account={_UNKNOWN_ACCOUNT}
plans=1
saved=
inexact=
"""
"""On a signal sh ends when werf has ended, before its next command.

The last line ``Error: …`` is werf's, with the causes directly after it (a list, or the trace of a
template by werf 3), or the first one of a template: what follows may be its text.

Where the account lacks a permission, the kinds of a render without the cluster, which needs none,
come before it, so that all permissions are named at once (``rights.read_needs``).

Documents are sorted before they are hashed, each joined to one line: what is compared is a set of
objects, and werf gives those of some kinds in the order of a map. The arguments of
``join_documents`` are a file, a command of sed for each line, and one for each joined document.

What werf writes to a full directory may be cut off without an error of its own: ``require_space``
finds that, as nothing of it is free then.
"""

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
    _BEGINNING
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

_CHECKED_DEPLOY: Final = (
    _BEGINNING
    + """\
shift 2
unseal "$@"
"""
    + ASK_FOR_EVENTS
    + """\
render_chart
require_render "$code"
: >"$memory/render"
unseal "$@"
"""
)
