"""The part of a script that reads the graph of werf's plan, strictly. Pure.

Names in a graph aren't escaped (docs/facts/werf.md, "bundle plan"). So each line must have a
known form, and each edge must connect nodes that have lines of their own: if an object's name makes
an operation look like an edge, or like two lines, its type and kind are still read, or the script
fails.
"""

from __future__ import annotations

from typing import Final

from copyrator.bundles.policy.plans.operations import OBJECT, REVISION, OperationType
from copyrator.settings.limits import PLAN_BYTES, PLAN_OPERATIONS

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
