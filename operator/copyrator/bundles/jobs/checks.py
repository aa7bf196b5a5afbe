"""How the scripts of Jobs that check begin, and the one that deploys for a gated Bundle. Pure.

It renders first (``WERF_VALIDATE=1 werf bundle render`` prints what an apply writes) and ends where
werf had to download dependencies of the chart, as the digest doesn't bind those. So do the scripts
of approval (``BEGINNING``). They use sh, grep, sed, sort, wc and sha256sum, and gzip, head, tail
and od where the image has them and werf saves its plan, as Alpine's busybox and Debian have them,
and no pipe but some whose results are compared: sh ignores a failure before a pipe.

They rely on PATH and HOME being the image's and the operator's, TMPDIR the operator's, and on the
author having set no variable that sh, its tools or the loader read, but LANG and TZ:
``restrictions.py`` withholds others.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

from copyrator.bundles.jobs.job import DeployOrder
from copyrator.bundles.jobs.pod import RENDER_DIR, literal
from copyrator.bundles.jobs.script import ASK_FOR_EVENTS, UNSEAL, CheckExit, SealedFile, arguments

AS_ACCOUNT: Final = "as the deploying account: "
AT_ROLLBACK: Final = "at rollback: "
AT_UNINSTALL: Final = "at uninstall: "
HOOK: Final = "hook "
HAS: Final = "has "
"""How the lines begin that a script has of a chart's objects, before their IDs."""


class Inexact(StrEnum):
    """Why there is no hash of a plan that werf saved: the word of a script."""

    WERF = "werf"
    """It doesn't know --save-plan and --use-plan."""
    ENCRYPTED = "encrypted"
    TOOLS = "tools"
    """The image lacks one that reads the file."""
    DRAWN = "drawn"
    """Two plans differed."""
    UNSTABLE = "unstable"
    """It kept differing in deploys; the operator's own word."""


PERMISSION_KINDS: Final = 50
"""Kinds of a chart's objects, counted in each namespace, that a script names, and whose permissions
are reviewed: seven requests each."""
NEEDS: Final = "needs ([a-z0-9.-]+/)?v[0-9a-z]+ [A-Za-z0-9]+ [a-z0-9-]*"
"""A line with the kind and namespace of a chart's object, as an extended regular expression."""


def checked_deploy(order: DeployOrder) -> tuple[str, ...]:
    """The command for an order, whose kubeconfig is in force before werf runs."""
    return checked_deploy_command(order.checked_files, order.flags)


def checked_deploy_command(
    values: Iterable[SealedFile], flags: Sequence[str] = (), *, directory: str = RENDER_DIR
) -> tuple[str, ...]:
    """The command of a container that deploys if werf downloads no dependencies of the chart.

    It ends as werf does, or with one of ``CheckExit`` or 128 + a signal before anything is applied.
    """
    apply = shlex.join(("exec", "werf", "bundle", "apply", *flags))
    script = f"{_CHECKED_DEPLOY}{apply}\n"
    return "sh", "-c", literal(script), "deploy", directory, "", *arguments(values)


UNKNOWN_ACCOUNT: Final = "-"
"""No account has that name."""

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

BEGINNING: Final = f"""\
set -u
LC_ALL=C
export LC_ALL
exec 2>&1
trap 'exit 143' TERM
trap 'exit 130' INT
failed() {{
  printf 'Error: %s\\n' "$1"
  exit {CheckExit.FAILED:d}
}}
broken() {{
  failed 'the plan could not be read: a tool failed, see the line above'
}}
{UNSEAL}last_error() {{
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
    exit {CheckExit.NOT_VENDORED:d}
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
    exit {CheckExit.FAILED:d}
    ;;
  esac
}}
work=$TMPDIR/plan
graph=$work.dot
memory=$1
salt=$2
account={UNKNOWN_ACCOUNT}
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

_CHECKED_DEPLOY: Final = (
    BEGINNING
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
