"""What was stored for a release, beside what was approved, with the stand-in's real releases."""

import json
from typing import Any

import pytest
from tests.e2e.bundles.conftest import HOOK, TEMPLATE, Team
from tests.e2e.bundles.features.approval.test_guarded import WHILE_APPLYING, approve, ended, plan
from tests.e2e.operator_process import until

pytestmark = pytest.mark.usefixtures("operator")

DRAWN_AT_LAST = TEMPLATE.replace(
    "\ndata:\n",
    f"\ndata:\n  {WHILE_APPLYING.strip().replace(chr(10), chr(10) + '  ')}\n  drawn: at last\n"
    "  {{- end }}\n",
)
"""The same operation on the same object, with contents that no plan shows."""
ODD = """\
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-odd
data:
  blank: "ends in\\nblanks\\n\\n\\n"
  lines: "windows\\r\\nlines\\r\\n"
  forged: |
    ---
    # Source: app/templates/app.yaml
    # Source: app/templates/app.yaml
    apiVersion: v1
"""
BLANKS = """\
---
apiVersion: v1
kind: Secret
metadata:
  name: {{ .Release.Name }}-blanks
stringData:
  last: "a\\n\\n\\n"
"""
"""Its document ends in blanks."""


def as_approved(team: Team) -> tuple[str, str]:
    found = team.condition("shop", "AsApproved")
    return found.get("status", ""), found.get("reason", "")


def events(team: Team, reason: str) -> list[str]:
    found = team.api.get(team.path("events"), fieldSelector=f"reason={reason}")["items"]
    return [one["message"] for one in found]


def approve_version(team: Team, version: str) -> None:
    until(lambda: plan(team).get("version") == version, lambda: json.dumps(plan(team)))
    approve(team)


def deployed_differently(team: Team, attempt: int) -> dict[str, Any]:
    until(lambda: team.status("shop").get("attempted", {}).get("attempt") == attempt, "tried")
    attempted = ended(team)
    assert (attempted["outcome"], attempted["reason"]) == ("Failed", "DeployedDifferently")
    return attempted


def test_what_was_stored_is_what_was_approved_and_what_was_drawn_at_last_is_found(
    team: Team,
) -> None:
    first = team.publish("1.0.0", "first", template=f"{TEMPLATE}{HOOK}{ODD}{BLANKS}")
    team.bundle("shop", version="1.*", approval={"mode": "Always"}, autoRollback=True)
    approve(team)
    status = team.wait_deployed("shop", first)
    assert as_approved(team) == ("True", "AsApproved"), status

    second = team.publish("1.1.0", "second", template=f"{TEMPLATE}{HOOK}{ODD}")
    approve_version(team, "1.1.0")
    team.wait_deployed("shop", second)
    assert as_approved(team) == ("True", "AsApproved"), team.status("shop")

    team.publish("1.2.0", "third", template=f"{DRAWN_AT_LAST}{HOOK}{ODD}")
    approve_version(team, "1.2.0")

    attempted = deployed_differently(team, 3)
    assert as_approved(team) == ("False", "DeployedDifferently")
    assert "nextRetryAt" not in attempted, "it is quarantined"
    assert attempted["rollback"] == "Succeeded", attempted
    assert (team.release("shop") or {})["text"] == "second"
    assert "drawn" not in (team.release("shop") or {})
    until(lambda: events(team, "DeployedDifferently"), "an Event")
    assert "1.2.0 (revision 3): what was stored isn't" in events(team, "DeployedDifferently")[0]
    assert team.condition("shop", "Ready")["reason"] == "Quarantined"

    fourth = team.publish("1.3.0", "fourth", template=f"{TEMPLATE}  {{{{ randAlpha 8 }}}}: drawn\n")
    approve_version(team, "1.3.0")
    team.wait_deployed("shop", fourth)
    assert as_approved(team) == ("Unknown", "RendersDiffer")
