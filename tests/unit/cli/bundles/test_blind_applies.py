"""The missing permissions that a plan's blind applies name, where nothing was reviewed."""

from __future__ import annotations

from typing import Any

import pytest
from tests.builders.bundles import known
from tests.unit.cli.bundles.test_permissions import spec_of, view_of

from copyrator.bundles.features.approval.words import permission_summary
from copyrator.cli.bundles.permissions import explain_permissions, manifest, roles_of
from copyrator.cli.bundles.plan_log import with_refusals_of

Body = dict[str, Any]


def refusal(
    kind: str, *, account: str = "apps:werf", where: str = "live", verb: str = "patch"
) -> str:
    return (
        f'{kind} "shop" is forbidden: User "system:serviceaccount:{account}" cannot {verb} '
        f'resource "{kind}" in API group "" in the namespace "{where}"'
    )


DIFF = f"""\
Blind apply ConfigMap/shop
  --- deployed
  +++ planned
  - text: {refusal("secrets")}
  + text: {refusal("pods")}
  <blind apply reason: error: dry-run apply object: {refusal("configmaps")}>

Blind apply ConfigMap/other
  <blind apply reason: error: dry-run apply object: {refusal("configmaps")}>

Blind apply Service/shop
  <blind apply reason: error: dry-run apply object: {refusal("services")}>
  <blind apply reason: error: {refusal("events", account="other:werf")}>
"""
PLAN = {"job": "p", "outcome": "Planned", "madeAt": "2026-01-02T11:55:00Z", "counts": {"apply": 3}}


def bundle(**plan: Any) -> Body:
    return known({"project_namespace": "live"}, plan={**PLAN, **plan})


def test_refusals_of_the_account_are_used_and_no_content() -> None:
    found = with_refusals_of(bundle(), DIFF)
    assert found["status"]["plan"]["missing"] == [
        {"verbs": ["patch"], "resource": "configmaps", "namespace": "live"},
        {"verbs": ["patch"], "resource": "services", "namespace": "live"},
    ]
    assert permission_summary(view_of(found).status) == (
        "missing: patch configmaps in live; patch services in live"
    )
    said = list(explain_permissions(view_of(found), spec_of(found)))
    assert said[:3] == [
        "The service account apps/werf lacked permissions 5m ago; it cannot",
        "  patch configmaps in live",
        "  patch services in live",
    ]
    assert said[3].startswith("Named by the plan's blind applies, one permission each. ")
    (role, binding) = roles_of(view_of(found), spec_of(found))
    # Beside what every release needs, as nothing was reviewed.
    assert {"apiGroups": [""], "resources": ["services"], "verbs": ["patch"]} in role["rules"]
    assert {"apiGroups": [""], "resources": ["events"], "verbs": ["list", "watch"]} in role["rules"]
    assert "# By the plan's blind applies" in manifest(
        view_of(found), spec_of(found), [role, binding]
    )


@pytest.mark.parametrize(
    "body",
    [
        bundle(missingPermissions=0),
        bundle(missingPermissions=1, missing=[{"verbs": ["get"], "resource": "pods"}]),
        bundle(counts={"update": 3}),
        bundle(outcome="Failed"),
        bundle() | {"spec": {}},
        bundle() | {"status": None},
    ],
    ids=["nothing missing", "reviewed", "none is blind", "failed", "invalid spec", "no status"],
)
def test_where_it_is_known_or_there_is_none_the_words_arent_used(body: Body) -> None:
    assert with_refusals_of(body, DIFF) is body


@pytest.mark.parametrize("diff", [None, ""])
def test_without_a_log_nothing_is_claimed(diff: str | None) -> None:
    body = bundle()
    assert with_refusals_of(body, diff) is body
    assert not any("blind" in line for line in explain_permissions(view_of(body), spec_of(body)))


def test_many_objects_of_a_kind_dont_hide_another() -> None:
    many = "".join(f"  <error: {name} {refusal('configmaps')}>\n" for name in range(2000))
    found = with_refusals_of(bundle(), f"{many}  <error: {refusal('services')}>\n")
    assert [one["resource"] for one in found["status"]["plan"]["missing"]] == [
        "configmaps",
        "services",
    ]
