"""Every value of the chart that is a protection, from the chart to a refusal.

The operator gets the variables, ConfigMaps and rights that the rendered chart has, and nothing
that a test adds but how often it polls.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.bundles.conftest import (
    NOWHERE,
    UNPULLABLE,
    Operator,
    Team,
    end_lasting,
    stays,
)
from tests.e2e.installation import RULES, installed
from tests.e2e.operator_process import until

from localcluster import Api, Cluster
from localcluster.cluster import REGISTRY_ADDRESSES

pytestmark = pytest.mark.promise

OFTEN = {
    "WERF_OPERATOR_TIMER_INTERVAL": "2",
    "WERF_OPERATOR_TIMER_IDLE": "0",
    "COPYRATOR_LOG_FORMAT": "console",
}
ADDRESSES = REGISTRY_ADDRESSES.split(",")
DRAWS = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-app}
data: {text: {{ randAlphaNum 8 | quote }}}
"""
ALWAYS = {"mode": "Always"}


@contextmanager
def installation(cluster: Cluster, folder: Path, values: dict[str, Any]) -> Iterator[Operator]:
    """An operator that runs as the chart with these values says."""
    end_lasting()
    log = folder / "operator.log"
    with installed(cluster, log, OFTEN, values=values, as_rendered=True) as operator:
        operator.start()
        yield operator


# --- Values of the chart that refuse every Bundle, each with an operator of its own. They come
# first: before the one that the others share is there.


WHOLE: dict[str, tuple[dict[str, Any], str]] = {
    "signaturePolicy.required": (
        {"bundles.allowRegistryAddresses": ADDRESSES, "signaturePolicy.required": True},
        "VerificationUnavailable",
    ),
    "signaturePolicy.default": (
        {"bundles.allowRegistryAddresses": ADDRESSES, "signaturePolicy.default": "Deny"},
        "NotInPolicy",
    ),
    "bundles.allowRegistryAddresses": (
        {"bundles.allowRegistryAddresses": ["192.0.2.0/24"]},
        "RegistryUnreachable",
    ),
}


@pytest.mark.parametrize("value", WHOLE)
def test_a_value_for_all_bundles_refuses_each(
    cluster: Cluster, teams: Callable[[str], Team], tmp_path: Path, value: str
) -> None:
    values, reason = WHOLE[value]
    team = teams("team")
    team.publish("1.0.0", "one")
    with installation(cluster, tmp_path, values):
        team.bundle("shop")
        found = team.wait_reason("shop", reason)
        stays(3, lambda: team.jobs("shop") == [], json.dumps(found))
        team.delete("bundles", "shop")
        team.wait_gone("bundles", "shop")


def test_no_more_plans_are_made_at_a_time_than_the_chart_allows(
    cluster: Cluster, teams: Callable[[str], Team], tmp_path: Path
) -> None:
    """`bundles.maxPlanJobs`; a Job that can't start keeps its slot for a minute."""
    values = {
        "bundles.allowRegistryAddresses": ADDRESSES,
        "bundles.requireApproval": {"*": "Always"},
        "bundles.allowedImages": [UNPULLABLE],
        "bundles.maxPlanJobs": 1,
    }
    two = [teams("first"), teams("second")]
    for team in two:
        team.publish("1.0.0", "one")
    with installation(cluster, tmp_path, values):
        for team in two:
            team.bundle("shop", werf={"image": UNPULLABLE})
        until(lambda: any(team.jobs("shop", "plan") for team in two), "a plan")
        for team in two:
            team.wait_reason("shop", "Planning")
        said = json.dumps([team.status("shop") for team in two])
        stays(3, lambda: sum(len(team.jobs("shop", "plan")) for team in two) == 1, said)
        for team in two:
            team.delete("bundles", "shop")
            team.wait_gone("bundles", "shop")


# --- Values that refuse some Bundles


VALUES: dict[str, Any] = {
    "bundles.allowRegistryAddresses": ADDRESSES,
    "bundles.requireApproval": {"approved-*": "Always"},
    "bundles.requireBoundPlans": ["bound-*"],
    "bundles.allowedServiceAccounts": ["werf", "deployer"],
    "bundles.allowedImages": ["registry.werf.io/werf/werf", UNPULLABLE],
    "bundles.allowedSecrets": ["creds"],
    "bundles.allowedPodMetadata": ["team", "tier=web"],
    "bundles.permissionReviews.enabled": True,
    "attest.environments": {"prod": ["somewhere-else"]},
    "rules.tenantRules": False,
    "rules.kinds": ["ConfigMap"],
    "signaturePolicy.default": "Allow",
    "signaturePolicy.entries": [
        {
            "repositories": ["*/signed-*/*"],
            "anyOf": [{"cosign": {"keysFrom": {"kind": "ConfigMap", "name": "keys"}}}],
        }
    ],
}


@dataclass(frozen=True)
class Refusal:
    """What a Bundle asks for in a namespace, and the reason for which it isn't deployed."""

    namespace: str
    reason: str
    kind: str = "Ready"
    template: str = ""
    approves: bool = False
    says: str = ""


def refused(**fields: Any) -> Callable[..., tuple[dict[str, Any], Refusal]]:
    def row(**spec: Any) -> tuple[dict[str, Any], Refusal]:
        return spec, Refusal(**fields)

    return row


ROWS: dict[str, tuple[dict[str, Any], Refusal]] = {
    "bundles.requireApproval": refused(
        namespace="approved", kind="UpdatePending", reason="AwaitingApproval"
    )(),
    "bundles.requireBoundPlans": refused(
        namespace="bound",
        kind="UpdatePending",
        reason="PlanUnbound",
        template=DRAWS,
        approves=True,
    )(approval=ALWAYS),
    "bundles.allowedServiceAccounts": refused(
        namespace="team", reason="InvalidSpec", says="serviceAccountName"
    )(serviceAccountName="admin"),
    "bundles.allowedImages": refused(namespace="team", reason="InvalidSpec", says="image")(
        werf={"image": "evil.example.com/werf"}
    ),
    "bundles.allowedSecrets": refused(namespace="team", reason="InvalidSpec", says="auth")(
        auth="others"
    ),
    "signaturePolicy.entries": refused(namespace="signed", reason="VerificationUnavailable")(),
    "consent": refused(namespace="team", reason="ReleaseNotAccepted")(project_namespace="default"),
}


@pytest.fixture(scope="module")
def protected(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    with installation(cluster, tmp_path_factory.mktemp("protected"), VALUES) as operator:
        yield operator


@pytest.mark.parametrize("value", ROWS)
def test_what_the_charts_value_protects_is_refused(
    protected: Operator, teams: Callable[[str], Team], value: str
) -> None:
    spec, row = ROWS[value]
    team = teams(row.namespace)
    team.publish("1.0.0", "one", **({"template": row.template} if row.template else {}))
    team.bundle("shop", **spec)

    found = team.wait_condition("shop", row.kind, row.reason)

    assert row.says in found["message"]
    if row.approves:
        plan = team.status("shop")["plan"]["id"]
        team.annotate("shop", **{"approved-plan": plan, "approved-by": "kubernetes-admin"})
        until(lambda: team.status("shop")["plan"].get("decision") == "Approved")
    stays(3, lambda: team.jobs("shop") == [], json.dumps(team.status("shop")))
    assert team.release("shop") is None


def test_what_it_doesnt_protect_is_deployed(
    protected: Operator, teams: Callable[[str], Team]
) -> None:
    team = teams("team")
    digest = team.publish("1.0.0", "one")
    team.bundle("shop")
    team.wait_deployed("shop", digest)


def test_what_the_charts_values_name_beside_the_defaults_is_allowed(
    protected: Operator, teams: Callable[[str], Team]
) -> None:
    """So that it is the values which refuse the others, and not the defaults."""
    team = teams("team")
    team.publish("1.0.0", "one")
    team.create("serviceaccounts", "deployer")
    team.bundle("shop", serviceAccountName="deployer", werf={"image": UNPULLABLE}, job=NOWHERE)

    team.first_job()


def test_a_rule_of_a_tenant_and_one_for_another_kind_copy_nothing(
    protected: Operator, teams: Callable[[str], Team], api: Api
) -> None:
    tenant, target = teams("team"), teams("team")
    tenant.create("configmaps", "app", data={"a": "b"})
    targets = {"namespaces": [target.namespace]}
    spec = {"source": {"kind": "ConfigMap", "name": "app"}, "targets": targets}
    api.create(RULES.format(tenant.namespace), {**RULE, "metadata": {"name": "app"}, "spec": spec})
    home = RULES.format(protected.namespace)
    source = {"kind": "Secret", "name": "app"}
    body = {**RULE, "metadata": {"name": "app"}, "spec": {"source": source, "targets": targets}}
    api.create(home, body)

    def reason() -> str:
        conditions = (api.get(f"{home}/app").get("status") or {}).get("conditions") or [{}]
        return str(conditions[0].get("reason"))

    until(lambda: reason() not in ("None", "Pending"), lambda: json.dumps(api.get(f"{home}/app")))
    assert reason() != "Synced"
    stays(3, lambda: target.get("configmaps", "app") is None)


RULE = {"apiVersion": "flant.com/v1", "kind": "CopyratorRule"}


def test_a_gated_bundles_pods_get_only_the_marks_that_the_chart_names(
    protected: Operator, teams: Callable[[str], Team]
) -> None:
    team = teams("approved")
    team.publish("1.0.0", "one")
    labels = {"team": "a", "tier": "web", "mesh": "on"}
    annotations = {"team": "b", "tier": "db", "vault.hashicorp.com/agent-inject": "true"}
    team.bundle("shop", job={**NOWHERE, "podLabels": labels, "podAnnotations": annotations})

    until(lambda: team.jobs("shop", "plan"), lambda: json.dumps(team.status("shop")))

    (job,) = team.jobs("shop", "plan")
    pod = job["spec"]["template"]["metadata"]
    assert (pod["labels"]["team"], pod["labels"]["tier"]) == ("a", "web")
    assert pod["annotations"]["team"] == "b"
    assert "mesh" not in pod["labels"]
    assert "tier" not in pod["annotations"]
    assert pod["annotations"]["vault.hashicorp.com/agent-inject"] == "false"
    withheld = team.condition("shop", "SettingsWithheld")["message"]
    for mark in ("podLabels.mesh", "podAnnotations.tier", r"podAnnotations.vault\."):
        assert mark in withheld
    for mark in ("podLabels.team", "podLabels.tier", "podAnnotations.team"):
        assert mark not in withheld


def test_an_environment_that_the_chart_gives_to_others_isnt_attested(
    protected: Operator, teams: Callable[[str], Team]
) -> None:
    team = teams("team")
    digest = team.publish("1.0.0", "one")
    team.create("secrets", "creds", data={"key.pem": "eA=="})
    key = {"secretName": "creds", "key": "key.pem"}
    team.bundle("shop", attest={"environment": "prod", "keyFrom": key})

    team.wait_deployed("shop", digest)

    until(lambda: team.condition("shop", "Attested").get("status") == "False")
    assert "prod" in team.condition("shop", "Attested")["message"]
