"""Refusals by the policy that holds a Job to its list, and whose fault each is."""

from __future__ import annotations

import pytest

from copyrator.api.bundle_status import Outcome
from copyrator.api.keys import ReleaseKey
from copyrator.api.reasons.bundles import BundleReason
from copyrator.bundles.jobs.outcome import Ending
from copyrator.bundles.plans.endings import refused_ending
from copyrator.bundles.plans.guard.listing import Blame, find_refusals, judge_refusals
from copyrator.bundles.plans.operations import Operation, read_objects, read_operation

POLICY = "shop.guard"
RELEASE = ReleaseKey("app", "shop", "")
WORDS = f"ValidatingAdmissionPolicy '{POLICY}' with binding '{POLICY}' denied request: "
DEPLOY = (
    'Error: release install: failed release "shop" (namespace: "app"): execute release install '
    "plan: execute operation: create resource: server-side apply resource "
)
REPAIR = 'Error: build resource infos: fix managed fields for resource "ConfigMap/x": patch: '
GOODBYE = "at uninstall: create ::ConfigMap:goodbye"


def operations(*lines: str) -> tuple[Operation, ...]:
    return tuple(one for line in lines if (one := read_operation(line)))


def error(key: str, first: str = DEPLOY, said: str = "not approved: ") -> str:
    return f'{first}"x": secrets "x" is forbidden: {WORDS}{said}{key}'


PLANNED = operations(
    "create ::ConfigMap:x",
    "update app:apps:Deployment:web",
    "delete other::Service:old",
    "create :rbac.authorization.k8s.io:ClusterRole:a:b c",
)
CASES = [
    ("CREATE//Secret/app/evil", Blame.DIGEST),
    ("DELETE//Secret/app/evil", Blame.DIGEST),
    ("UPDATE//Secret/app/evil", Blame.DIGEST),
    # Another name, kind, group or namespace than that of an approved object.
    ("CREATE//ConfigMap/app/xx", Blame.DIGEST),
    ("CREATE//ConfigMap/other/x", Blame.DIGEST),
    ("CREATE/extensions/Deployment/app/web", Blame.DIGEST),
    ("CREATE/rbac.authorization.k8s.io/ClusterRole//a-b c", Blame.DIGEST),
    ("CREATE//Pod:exec/app/x", Blame.DIGEST),
    ("CREATE//ConfigMap:status/app/x", Blame.DIGEST),
    # Another verb on a planned object.
    ("DELETE//ConfigMap/app/x", Blame.CHANGED),
    ("DELETE/apps/Deployment/app/web", Blame.CHANGED),
    ("CREATE//Service/other/old", Blame.CHANGED),
    ("DELETE/rbac.authorization.k8s.io/ClusterRole//a:b c", Blame.CHANGED),
    # werf's own.
    ("UPDATE//ConfigMap/app/werf-synchronization", Blame.OURS),
    ("UPDATE//Secret/app/sh.helm.release.v1.shop.v3", Blame.OURS),
    ("UPDATE//Secret/other/sh.helm.release.v1.shop.v3", Blame.DIGEST),
    ("UPDATE//Secret/app/sh.helm.release.v1.shop.vx", Blame.DIGEST),
    ("UPDATE//Secret/app/sh.helm.release.v1.other.v3", Blame.DIGEST),
    ("UPDATE//ConfigMap/other/werf-synchronization", Blame.DIGEST),
]


@pytest.mark.parametrize(("key", "fault"), CASES)
def test_whose_fault_a_refusal_is(key: str, fault: Blame) -> None:
    (refusal,) = found = find_refusals(error(key), POLICY)

    assert judge_refusals(found, PLANNED, RELEASE) == (refusal, fault)


def test_what_somebody_changed_of_the_objects_that_a_plan_left_alone_is_not_its_fault() -> None:
    """Deleted or edited in the second between the Job's own plan and its apply."""
    objects = read_objects(["has ::ConfigMap:same", "hook ::ConfigMap:hook", GOODBYE])
    assert objects is not None
    left = objects.untouched()

    def judge(key: str) -> Blame:
        return judge_refusals(find_refusals(error(key), POLICY), PLANNED, RELEASE, left)[1]

    repair = find_refusals(error("UPDATE//ConfigMap/app/same", REPAIR), POLICY)
    assert judge_refusals(repair, PLANNED, RELEASE, left)[1] is Blame.CHANGED
    assert judge_refusals(repair, PLANNED, RELEASE)[1] is Blame.DIGEST
    assert judge("CREATE//ConfigMap/app/same") is Blame.CHANGED
    assert judge("UPDATE//ConfigMap/app/same") is Blame.CHANGED
    assert judge("DELETE//ConfigMap/app/same") is Blame.DIGEST
    assert judge("CREATE//ConfigMap/other/same") is Blame.DIGEST
    assert judge("CREATE//ConfigMap:status/app/same") is Blame.DIGEST
    for hook in ("hook", "goodbye"):
        assert judge(f"CREATE//ConfigMap/app/{hook}") is Blame.DIGEST


def test_what_would_act_as_the_account_is_the_digests_fault_though_the_object_is_planned() -> None:
    said = "not approved as the deploying account: "
    found = find_refusals(error("CREATE//ConfigMap/app/x", said=said), POLICY)

    refusal, fault = judge_refusals(found, PLANNED, RELEASE)

    assert fault is Blame.DIGEST
    assert str(refusal) == "CREATE of ConfigMap x in app, which acts as the deploying account"


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("CREATE//Pod:exec/app/web", "CREATE of Pod/exec web in app"),
        ("UPDATE/apps/Deployment:scale/app/web", "UPDATE of Deployment.apps/scale web in app"),
        ("DELETE//Namespace//team", "DELETE of Namespace team"),
        ("DELETE//Namespace//team \t", "DELETE of Namespace team"),  # the end of a log's line
        (f"CREATE//Secret/app/{'x' * 200}", f"CREATE of Secret {'x' * 200} in app"),
        (f"CREATE//Secret/app/{'x' * 201}", f"CREATE of Secret {'x' * 200}… in app"),
    ],
)
def test_a_refused_write_is_named_as_kubectl_names_it(key: str, shown: str) -> None:
    (refusal,) = find_refusals(error(key), POLICY)

    assert str(refusal) == shown


def test_the_worst_of_several_counts() -> None:
    keys = "DELETE//ConfigMap/app/x", "UPDATE//ConfigMap/app/werf-synchronization", CASES[0][0]
    lines = "\n".join(f"* {error(key)}" for key in keys)

    refusal, fault = judge_refusals(find_refusals(lines, POLICY), PLANNED, RELEASE)

    assert (refusal.name, fault) == ("evil", Blame.DIGEST)


@pytest.mark.parametrize(
    "text",
    [
        "",
        error(CASES[0][0]).replace(POLICY, "another"),
        error(CASES[0][0]).replace(f"binding '{POLICY}'", "binding 'another'"),
        error(CASES[0][0]).replace("not approved: ", ""),
        error("PATCH//Secret/app/x"),
    ],
)
def test_refusals_of_others_are_none_of_it(text: str) -> None:
    assert find_refusals(text, POLICY) == ()


FAULTS = Blame.DIGEST, Blame.CHANGED, Blame.OURS
FAILED = Ending(Outcome.FAILED, BundleReason.DEPLOY_FAILED, "create: Secret/evil failed", 3, 1)


def test_the_ending_names_the_object_and_whose_fault_it_is() -> None:
    (refusal,) = find_refusals(error("CREATE/apps/Deployment/app/evil"), POLICY)

    digest, changed, ours = (refused_ending(FAILED, refusal, one) for one in FAULTS)

    said = "the API server refused the CREATE of Deployment.apps evil in app"
    assert (digest.outcome, digest.reason) == (Outcome.FAILED, BundleReason.EXCEEDS_APPROVAL)
    assert digest.message.startswith(f"{said}, which wasn't approved")
    assert (digest.revision, digest.exit_code) == (3, 1)
    assert (changed.outcome, changed.reason) == (Outcome.INTERRUPTED, BundleReason.PLAN_CHANGED)
    assert "planned anew" in changed.message
    assert (ours.outcome, ours.reason) == (Outcome.INTERRUPTED, BundleReason.PLAN_CHANGED)
    assert "fault of the operator" in ours.message
