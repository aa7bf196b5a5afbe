"""The missing permissions that a plan's blind applies name.

It is used where the operator may not review permissions: werf quotes the API server's refusal of
each dry run in the plan's text, which is in the log of its Job.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from copyrator.api.bundle import parse_bundle
from copyrator.api.bundle_spec import BundleDefaults, BundleSpec
from copyrator.api.bundle_status import BundleStatus, parse_status
from copyrator.api.plan_status import PlanOutcome
from copyrator.bundles.plan.rights import ServiceAccount, list_missing, read_refused
from copyrator.cli.plan_log import read_plan_log
from copyrator.kube.client.client import KubeClient

Body = Mapping[str, Any]
_REFUSED: Final = "is forbidden: User "
_CHANGES: Final = ("+", "-")
"""How lines of an object's content begin."""


async def with_refusals(client: KubeClient, body: Body) -> Body:
    """A Bundle whose status has what its plan's blind applies name, where nothing was reviewed.

    Where the log can't be read, the Bundle as it is.
    """
    if not _is_asked(parse_status(body)):
        return body
    return with_refusals_of(body, (await read_plan_log(client, body, parse_status(body).plan)).diff)


def with_refusals_of(body: Body, diff: str | None) -> Body:
    """The same, by the diff of its plan."""
    spec, status = parse_bundle(body, BundleDefaults()), parse_status(body)
    if not diff or not isinstance(spec, BundleSpec) or not _is_asked(status):
        return body
    missing = list_missing(read_refused(_words(diff), ServiceAccount.of(spec)))
    plan = {**body["status"]["plan"], "missing": [one.to_dict() for one in missing]}
    return {**body, "status": {**body["status"], "plan": plan}}


def _is_asked(status: BundleStatus) -> bool:
    plan = status.plan
    return (
        plan.outcome == PlanOutcome.PLANNED
        and plan.missing_permissions is None
        and bool(plan.counts.apply)
    )


def _words(diff: str) -> str:
    """The refusals in a plan's text, each once; no object's content."""
    lines = (line.strip() for line in diff.splitlines() if _REFUSED in line)
    found = (line[line.index(_REFUSED) :] for line in lines if not line.startswith(_CHANGES))
    return "\n".join(dict.fromkeys(found))
