"""The tables of reasons in docs/, from copyrator.api.reasons: each between two comments."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from copyrator.api.reasons import Reason, bundles, notices, rules
from copyrator.bundles.features import listed
from copyrator.bundles.fields import bundle_conditions, bundle_reasons
from demo.chart import ROOT

KINDS = {
    name: tuple(kind)
    for part in (bundles, notices, rules)
    for name, kind in vars(part).items()
    if isinstance(kind, type) and issubclass(kind, Reason) and kind is not Reason
}
KINDS |= {
    one.reasons.__name__: tuple(one.reasons) for one in bundle_conditions().values() if one.reasons
}
KINDS["BundleReason"] = tuple(bundle_reasons().values())
KINDS["BundleEvent"] += tuple(one for kind in listed("reasons", "EVENTS") for one in kind)
_OF_TAGS = {
    "wanted": "`spec.version`",
    "retry": "`copyrator reconcile bundle NAME`",
    "message": "the message says why",
}
_BOTH = (notices.CERTIFICATES, notices.NOTIFY)
_OF_RULES = (notices.COPIES, notices.ROLLOUT)
BLOCK = re.compile(r"(<!-- reasons: ([\w, ]+) -->\n).*?(<!-- end of reasons -->\n)", re.DOTALL)


def _table(found: re.Match[str]) -> str:
    listed = [one for name in found[2].split(", ") for one in KINDS[name]]
    if found[2] == "About":
        head, rows = "| about | kind | told when | ends |\n|---|---|---|---|\n", map(_told, listed)
    else:
        head, rows = "| reason | meaning | what to do |\n|---|---|---|\n", map(_explained, listed)
    return f"{found[1]}\n{head}{''.join(rows)}\n{found[3]}"


def _explained(one: Reason) -> str:
    return f"| `{one}` | {one.meaning.format(**_OF_TAGS)} | {one.remedy} |\n"


def _told(one: Reason) -> str:
    kind = "CopyratorRule" if one.feature in _OF_RULES else "Bundle"
    kind = "both" if one.feature in _BOTH else kind
    return f"| `{one}` | {kind} | {one.meaning} | {one.remedy if one.ends else ''} |\n"


def _page(path: Path) -> str:
    return BLOCK.sub(_table, path.read_text())


PAGES = [
    ROOT / "docs" / f"{name}.md"
    for name in ("approval", "drift", "health", "notifications", "troubleshooting")
]
FILES: dict[Path, Callable[[], str]] = {path: partial(_page, path) for path in PAGES}
