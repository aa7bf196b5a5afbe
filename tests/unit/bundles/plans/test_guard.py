"""The list of what a guarded Job may write, read as the chart's policy reads it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copyrator.api import names
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import Outcome
from copyrator.api.keys import ObjectName, ReleaseKey
from copyrator.api.reasons.bundles import BundleReason
from copyrator.bundles.features.cluster.fields import ClusterSpec
from copyrator.bundles.jobs.outcome import Ending
from copyrator.bundles.jobs.rights import ServiceAccount
from copyrator.bundles.plans.endings import refused_ending
from copyrator.bundles.plans.guard.enforcement import EnforcementReviewer
from copyrator.bundles.plans.guard.listing import (
    LIST_BYTES,
    Blame,
    Guard,
    GuardedDeploy,
    GuardedUninstall,
    ListTooLargeError,
    deploy_list,
    find_refusals,
    job_of,
    judge_refusals,
    key_of,
    list_of,
    uninstall_list,
)
from copyrator.bundles.plans.guard.lists import GuardLists, StoredLists, read_page
from copyrator.bundles.plans.operations import (
    PLAN_BYTES,
    PLAN_OPERATIONS,
    Operation,
    OperationType,
    read_objects,
    read_operation,
)
from copyrator.kube.client.client import KubeClient
from copyrator.kube.errors import NotFound

ACCOUNT = ServiceAccount("team", "werf")
DEPLOY = GuardedDeploy(
    account=ACCOUNT,
    release="shop",
    namespace="app",
    operations=(),
    revision=7,
    deployed_revision=5,
)
UNINSTALL = GuardedUninstall(
    account=ACCOUNT, release="shop", namespace="app", inventory=(), hooks=()
)
WRITES = "CREATE", "UPDATE", "DELETE"
ODD_NAMES = ("a:b", "a-.b", "a_b", "a b", "a", " a", "a ", "a*b", "v/", "x" * 250, "x" * 249)


def op(line: str) -> Operation:
    found = read_operation(line)
    assert found is not None
    return found


def ops(*lines: str) -> tuple[Operation, ...]:
    return tuple(map(op, lines))


def allows(listed: str, verb: str, kind: str, name: str, namespace: str = "app") -> bool:
    """As the policy decides; `kind` has its group before a slash, `namespace` is the request's."""
    lines = listed.split("\n")
    place = "" if namespace == "app" or kind == "/Namespace" else namespace
    objects = [f"{kind}/{place}/{name}"]
    if kind == "/Secret" and (
        found := re.fullmatch(r"(sh[.]helm[.]release[.]v1[.].+[.]v)\d+", name)
    ):
        objects.append(f"{kind}/{place}/{found[1]}/")
    verbs = ("D", "CUD") if verb == "DELETE" else ("CU", "CUD")
    return any(f"{one}/{thing}" in lines for one in verbs for thing in objects)


def allowed(listed: str, kind: str, name: str, namespace: str = "app") -> str:
    """The verbs by which an object may be written, as their first letters."""
    return "".join(verb[0] for verb in WRITES if allows(listed, verb, kind, name, namespace))


@pytest.mark.parametrize(
    ("type_", "expected", "with_rollback"),
    [
        ("create", "CU", "CUD"),
        ("update", "CU", "CU"),
        ("apply", "CU", "CUD"),
        ("delete", "D", "CUD"),
        ("recreate", "CUD", "CUD"),
    ],
)
def test_an_operation_allows_what_werf_writes_for_it(
    type_: str, expected: str, with_rollback: str
) -> None:
    deploy = replace(DEPLOY, operations=ops(f"{type_} :apps:Deployment:web"))
    assert allowed(deploy_list(deploy), "apps/Deployment", "web") == expected
    undone = replace(deploy, auto_rollback=True)
    assert allowed(deploy_list(undone), "apps/Deployment", "web") == with_rollback
    first = replace(undone, revision=1, deployed_revision=None)
    assert allowed(deploy_list(first), "apps/Deployment", "web") == expected


def test_two_operations_on_an_object_allow_both() -> None:
    deploy = replace(DEPLOY, operations=ops("create :batch:Job:mig", "delete :batch:Job:mig"))
    assert allowed(deploy_list(deploy), "batch/Job", "mig") == "CUD"


def test_a_hooks_delete_policy_may_delete_it() -> None:
    operations = ops("create :batch:Job:hook", "create :batch:Job:plain")
    deploy = replace(DEPLOY, operations=operations, hooks=frozenset(operations[:1]))
    assert allowed(deploy_list(deploy), "batch/Job", "hook") == "CUD"
    assert allowed(deploy_list(deploy), "batch/Job", "plain") == "CU"


def test_the_hooks_of_a_rollback_are_allowed_where_one_may_happen() -> None:
    deploy = replace(DEPLOY, rollback_hooks=ops("create :batch:Job:back"))
    assert allowed(deploy_list(deploy), "batch/Job", "back") == ""
    undone = replace(deploy, auto_rollback=True)
    assert allowed(deploy_list(undone), "batch/Job", "back") == "CUD"


def test_the_releases_own_namespace_is_that_of_no_namespace() -> None:
    deploy = replace(
        DEPLOY,
        operations=ops(
            "create ::ConfigMap:short", "create app::ConfigMap:long", "create far::ConfigMap:far"
        ),
    )
    listed = deploy_list(deploy)
    assert allowed(listed, "/ConfigMap", "short") == allowed(listed, "/ConfigMap", "long") == "CU"
    assert allowed(listed, "/ConfigMap", "far", "far") == "CU"
    for name, namespace in (("far", "app"), ("short", "far"), ("far", "")):
        assert allowed(listed, "/ConfigMap", name, namespace) == ""


def test_werfs_own_writes_are_allowed_in_the_releases_namespace_only() -> None:
    listed = deploy_list(DEPLOY)
    revision = "sh.helm.release.v1.shop.v{}"
    assert allowed(listed, "/ConfigMap", "werf-synchronization") == "CU"
    assert allowed(listed, "/Secret", revision.format(7)) == "CUD"
    assert allowed(listed, "/Secret", revision.format(5)) == "CUD"
    assert allowed(listed, "/Secret", revision.format(6)) == "CUD", "it may be deployed unseen"
    assert allowed(listed, "/Secret", revision.format(4)) == "D"
    assert allowed(listed, "/Secret", revision.format(1)) == "D"
    assert allowed(listed, "/Secret", revision.format(8)) == "D"
    for kind, name in (
        ("/ConfigMap", "werf-synchronization"),
        ("/Secret", revision.format(7)),
        ("/Secret", revision.format(6)),
    ):
        assert allowed(listed, kind, name, "far") == ""
    rolls_back = deploy_list(replace(DEPLOY, auto_rollback=True))
    assert allowed(rolls_back, "/Secret", revision.format(8)) == "CUD"


@pytest.mark.parametrize(
    "name",
    [
        "sh.helm.release.v1.other.v7",
        "sh.helm.release.v1.shop.v1.v7",
        "sh.helm.release.v1.shop.v7.v",
        "sh.helm.release.v1.shop.v7a",
        "sh.helm.release.v1.shop.v",
        "sh.helm.release.v1.shopp.v7",
        "sh.helm.release.v2.shop.v7",
        "shop",
    ],
)
def test_no_other_secret_counts_as_a_revision(name: str) -> None:
    for listed in (deploy_list(DEPLOY), uninstall_list(UNINSTALL)):
        assert allowed(listed, "/Secret", name) == ""


def test_where_the_deployed_revision_isnt_known_each_may_be_updated() -> None:
    listed = deploy_list(replace(DEPLOY, deployed_revision=None))
    assert allowed(listed, "/Secret", "sh.helm.release.v1.shop.v3") == "CUD"
    first = deploy_list(replace(DEPLOY, revision=1, deployed_revision=None))
    assert allowed(first, "/Secret", "sh.helm.release.v1.shop.v1") == "CUD"
    assert allowed(first, "/Secret", "sh.helm.release.v1.shop.v2") == "D"


def test_no_planned_secret_stands_for_all_revisions_of_a_release() -> None:
    """A chart may name a Secret as it likes: werf plans a create without asking the API server."""
    for name in ("sh.helm.release.v1.other.v*", "sh.helm.release.v1.other.v"):
        listed = deploy_list(replace(DEPLOY, operations=ops(f"create ::Secret:{name}")))
        assert allowed(listed, "/Secret", "sh.helm.release.v1.other.v3") == ""
    assert read_operation("create ::Secret:sh.helm.release.v1.other.v/") is None


def test_the_namespace_of_the_release_may_be_created_where_that_was_approved() -> None:
    assert allowed(deploy_list(DEPLOY), "/Namespace", "app", "app") == ""
    deploy = replace(DEPLOY, operations=ops("create ::Namespace:app"), revision=1)
    listed = deploy_list(replace(deploy, deployed_revision=None, auto_rollback=True))
    assert allowed(listed, "/Namespace", "app", "app") == "CU"
    assert allowed(listed, "/Namespace", "other", "other") == ""


def test_an_uninstall_may_delete_the_inventory_and_run_its_hooks() -> None:
    uninstall = replace(
        UNINSTALL,
        inventory=ops("create :apps:Deployment:web", "recreate :batch:Job:mig", "update ::Pod:p"),
        hooks=ops("create :batch:Job:bye"),
    )
    listed = uninstall_list(uninstall)
    assert allowed(listed, "apps/Deployment", "web") == "D"
    assert allowed(listed, "batch/Job", "mig") == "D"
    assert allowed(listed, "/Pod", "p") == "D"
    assert allowed(listed, "batch/Job", "bye") == "CUD"
    assert allowed(listed, "/ConfigMap", "werf-synchronization") == "CU"
    assert allowed(listed, "/Secret", "sh.helm.release.v1.shop.v99999") == "CUD"


@pytest.mark.parametrize("kind", ["deploy", "uninstall"])
def test_what_may_run_as_the_account_has_a_line_of_its_own(kind: str) -> None:
    given = ops("create :apps:Deployment:web", "create app:apps:Deployment:own")
    marked = frozenset((*given[1:], op("create ::Pod:not-approved")))
    if kind == "deploy":
        listed = deploy_list(replace(DEPLOY, operations=given, as_account=marked))
    else:
        listed = uninstall_list(replace(UNINSTALL, hooks=given, as_account=marked))
    lines = [line for line in listed.split("\n") if line.startswith("A/")]
    assert lines == ["A/apps/Deployment//own"]


objects = st.builds(
    Operation,
    st.sampled_from(OperationType),
    st.sampled_from(["", "app", "far", "a"]),
    st.sampled_from(["", "apps", "a.b"]),
    st.sampled_from(["Pod", "Secret", "ClusterRole"]),
    st.one_of(
        st.sampled_from(ODD_NAMES).filter(lambda name: "/" not in name),
        st.from_regex(r"[]-~ !#-.0-\[]{1,12}", fullmatch=True),
    ),
)


def same(one: Operation, other: Operation) -> bool:
    def of(found: Operation) -> tuple[str, ...]:
        place = "" if found.namespace == "app" else found.namespace
        return place, found.group, found.kind, found.name

    return of(one) == of(other)


@given(st.lists(objects, max_size=6), objects)
def test_nothing_is_allowed_but_what_was_listed(listed: list[Operation], other: Operation) -> None:
    text = deploy_list(replace(DEPLOY, operations=tuple(listed)))
    kind = f"{other.group}/{other.kind}"
    found = allowed(text, kind, other.name, other.namespace or "app")
    types = {one.type for one in listed if same(one, other)}
    deletes = types & {OperationType.DELETE, OperationType.RECREATE}
    writes = types - {OperationType.DELETE}
    expected = ("CU" if writes else "") + ("D" if deletes else "")
    assert found == expected
    again = allowed(text, f"{kind}:scale", other.name, other.namespace or "app")
    assert again == ""


def test_as_many_operations_as_a_plan_may_have_fit() -> None:
    stem = "x" * (PLAN_BYTES // PLAN_OPERATIONS - len("recreate ns:apps:Deployment:\n") - 4)
    operations = ops(*(f"recreate ns:apps:Deployment:{stem}{n:04}" for n in range(PLAN_OPERATIONS)))
    assert len("".join(f"{one}\n" for one in operations)) == PLAN_BYTES
    listed = deploy_list(replace(DEPLOY, operations=operations, auto_rollback=True))
    assert len(listed) <= LIST_BYTES < 1024 * 1024


def test_a_list_that_doesnt_fit_is_refused_and_says_what_to_do() -> None:
    operations = ops(*(f"create ns:apps:Deployment:{'x' * 200}{n}" for n in range(5_000)))
    deploy = replace(DEPLOY, operations=operations, as_account=frozenset(operations))
    with pytest.raises(ListTooLargeError, match="split the chart into several Bundles"):
        deploy_list(deploy)


@pytest.mark.parametrize("guarded", [DEPLOY, UNINSTALL])
def test_a_list_begins_with_the_account_and_the_namespace_of_the_release(guarded: Any) -> None:
    account, namespace, *lines = list_of(guarded).split("\n")
    assert (account, namespace) == ("system:serviceaccount:team:werf", "app")
    assert "CU//ConfigMap//werf-synchronization" in lines


@pytest.mark.parametrize("job", [ObjectName("team", "shop-deploy-01"), ObjectName("a", "b.c")])
def test_a_key_is_of_one_job(job: ObjectName) -> None:
    assert job_of(key_of(job)) == job


# --- Refusals by the policy that holds a Job to its list, and whose fault each is


POLICY = "shop.guard"
RELEASE = ReleaseKey("app", "shop", "")
WORDS = f"ValidatingAdmissionPolicy '{POLICY}' with binding '{POLICY}' denied request: "
REFUSED_DEPLOY = (
    'Error: release install: failed release "shop" (namespace: "app"): execute release install '
    "plan: execute operation: create resource: server-side apply resource "
)
REPAIR = 'Error: build resource infos: fix managed fields for resource "ConfigMap/x": patch: '
GOODBYE = "at uninstall: create ::ConfigMap:goodbye"


def operations(*lines: str) -> tuple[Operation, ...]:
    return tuple(one for line in lines if (one := read_operation(line)))


def error(key: str, first: str = REFUSED_DEPLOY, said: str = "not approved: ") -> str:
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


# --- Lists that are written and removed at the same time


KEPT = 60.0


class Client:
    """One ConfigMap with lists."""

    def __init__(self, **lists: str) -> None:
        self.lists: dict[str, str] = lists

    async def patch(self, _kind: Any, _namespace: str, _name: str, change: Any) -> None:
        await asyncio.sleep(0)
        for key, text in change["data"].items():
            self.lists.pop(key, None) if text is None else self.lists.update({key: text})

    async def delete(self, *_: Any, **__: Any) -> None:
        self.lists.clear()


class Ended:
    """No Job is there, nor a pod."""

    job_changed: Callable[[ObjectName | None], None]

    def start(self, changed: Callable[[ObjectName | None], None]) -> None:
        self.job_changed = changed

    def stop(self) -> None:
        pass

    def is_over(self, _job: ObjectName) -> bool:
        return True

    async def has_ended(self, _job: ObjectName) -> bool:
        return True


async def test_a_list_that_is_written_anew_as_its_removal_begins_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the Job would be created without a list."""
    loop = asyncio.get_running_loop()
    clock = [loop.time()]
    monkeypatch.setattr(loop, "time", lambda: clock[0])
    client: Any = Client(**{"team.job": "of a Job that ended"})
    body = {"metadata": {"labels": {names.LABEL_GUARD: ""}}, "data": client.lists}
    store: dict[ObjectName, StoredLists | None] = {ObjectName("home", "guard.1"): read_page(body)}
    watch = SimpleNamespace(store=store, synced=True, release=lambda: None)
    informers: Any = SimpleNamespace(acquire=lambda *_: watch)
    jobs, again = Ended(), asyncio.Event()
    lists = GuardLists(client, Guard("guard", "home"), informers, jobs, kept=KEPT)
    lists.start()
    loop.call_later(KEPT / 2, again.set)
    jobs.job_changed(None)
    clock[0] += KEPT  # both are due at once
    await again.wait()

    account = ServiceAccount("team", "werf")
    uninstall = GuardedUninstall(
        account=account, release="shop", namespace="team", inventory=(), hooks=()
    )
    await lists.write("job", uninstall)
    for _ in range(20):
        await asyncio.sleep(0)

    assert client.lists["team.job"] != "of a Job that ended"
    await lists.close()


# --- How long it is believed whether the API server can refuse what isn't approved


SPEC = BundleSpec(namespace="n", name="b", registry="r", repo="app", project_namespace="n")


@dataclass
class Unguarded:
    """An API server without the guard's policy."""

    asked: list[str] = field(default_factory=list)
    at: float = 0.0

    async def request(self, _method: str, path: str, **_more: Any) -> dict[str, Any]:
        self.asked.append(path)
        raise NotFound("there is none")


@pytest.fixture
def client() -> Unguarded:
    return Unguarded()


@pytest.fixture
def reviewer(client: Unguarded) -> EnforcementReviewer:
    return EnforcementReviewer(
        cast("KubeClient", client), Guard("guard", "default"), lambda: client.at
    )


@pytest.mark.promise
async def test_a_guard_that_is_mended_is_seen_in_half_a_minute(
    client: Unguarded, reviewer: EnforcementReviewer
) -> None:
    for at, times in ((0.0, 1), (29.0, 1), (31.0, 2)):
        client.at = at
        found = await reviewer.find_reason(SPEC, ())
        assert "there is no ValidatingAdmissionPolicy guard" in found
        assert len(client.asked) == times, at


@pytest.mark.promise
async def test_nothing_is_enforced_in_another_cluster(
    client: Unguarded, reviewer: EnforcementReviewer
) -> None:
    """Its API server has no such policy, whatever this one's has."""
    found = await reviewer.find_reason(SPEC.with_part(ClusterSpec("other")), ())

    assert "the release is in another cluster" in found
    assert client.asked == []
