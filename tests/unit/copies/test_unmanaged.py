"""Objects that aren't the operator's, and the watches that see them."""

import copy
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from tests.steps import STEP_SECONDS, assert_quick

from copyrator.api.keys import CopyKey, ObjectName
from copyrator.api.rule_spec import Transform
from copyrator.api.schema import NOT_WHOLE
from copyrator.copies.seal.sealing import Sealer
from copyrator.copies.targets.content import (
    COMPARED_VALUES,
    differences,
    rendered_content,
)
from copyrator.copies.targets.unmanaged import (
    TENANTS_UNMANAGED_WATCHES,
    TRUSTED_UNMANAGED_WATCHES,
    UNMANAGED_WATCHES,
    UnmanagedObjects,
)
from copyrator.copies.timing import DEFAULT_TIMING
from copyrator.kube.resources import CONFIGMAPS
from copyrator.kube.watch.informers import InformerFactory
from copyrator.kube.watch.reflector import Seen, WatchSpec

# --- What counts as holding what a rule wants, field by field -------------------------------------


SEALER = Sealer(b"k" * 32)
RBAC = "rbac.authorization.k8s.io"


def wanted(api_version, kind, metadata=None, **payload):
    """What a template asks for."""
    body = {"apiVersion": api_version, "kind": kind, "metadata": metadata or {}, **payload}
    return rendered_content(body, Transform(), rule="default/rule", sealer=SEALER)


def live(metadata=None, **payload):
    """What stands there, made by somebody else."""
    return {"metadata": {"name": "x", "uid": "u", **(metadata or {})}, **payload}


def binding(role=None, subjects=None):
    return wanted(
        f"{RBAC}/v1",
        "RoleBinding",
        roleRef=role or {"kind": "ClusterRole", "name": "edit"},
        subjects=subjects or [{"kind": "Group", "name": "team"}],
    )


ROLE = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "edit"}
GROUP = {"apiGroup": RBAC, "kind": "Group", "name": "team"}
ACCOUNT = {"kind": "ServiceAccount", "name": "ci", "namespace": "default"}


@pytest.mark.parametrize(
    ("content", "found", "differing"),
    [
        (binding(), live(roleRef=ROLE, subjects=[GROUP]), ()),
        (binding(ROLE, [GROUP]), live(roleRef=ROLE, subjects=[GROUP]), ()),
        # Subjects are a set; one more would grant more than the rule says.
        (binding(ROLE, [GROUP, ACCOUNT]), live(roleRef=ROLE, subjects=[ACCOUNT, GROUP]), ()),
        (binding(), live(roleRef=ROLE, subjects=[GROUP, ACCOUNT]), ("subjects",)),
        (binding(), live(roleRef=ROLE), ("subjects",)),
        (binding(), live(roleRef={**ROLE, "name": "view"}, subjects=[GROUP]), ("roleRef",)),
        (binding(), live(roleRef={**ROLE, "kind": "Role"}, subjects=[GROUP]), ("roleRef",)),
        (
            binding(subjects=[{**GROUP, "kind": "User"}]),
            live(roleRef=ROLE, subjects=[GROUP]),
            ("subjects",),
        ),
        # A service account is of no group.
        (
            binding(subjects=[ACCOUNT]),
            live(roleRef=ROLE, subjects=[{**ACCOUNT, "apiGroup": RBAC}]),
            ("subjects",),
        ),
    ],
)
def test_a_role_binding_is_equal_whether_its_groups_are_written_or_filled_in(
    content, found, differing
):
    assert differences(content, found) == differing


def policy(**spec):
    return wanted("networking.k8s.io/v1", "NetworkPolicy", spec=spec)


@pytest.mark.parametrize(
    ("content", "spec", "equal"),
    [
        (policy(), {"podSelector": {}, "policyTypes": ["Ingress"]}, True),
        (
            policy(podSelector={"matchLabels": {}}, ingress=[]),
            {"podSelector": {}, "policyTypes": ["Ingress"]},
            True,
        ),
        (
            policy(egress=[{"ports": [{"port": 53}]}]),
            {
                "podSelector": {},
                "policyTypes": ["Egress", "Ingress"],
                "egress": [{"ports": [{"port": 53, "protocol": "TCP"}]}],
            },
            True,
        ),
        # What narrows or widens it.
        (policy(), {"podSelector": {"matchLabels": {"a": "b"}}, "policyTypes": ["Ingress"]}, False),
        (policy(), {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{}]}, False),
        (policy(), {"podSelector": {}, "policyTypes": ["Egress", "Ingress"]}, False),
        (
            policy(ingress=[{"from": [{"namespaceSelector": {}}]}]),
            {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": [{}]}]},
            False,
        ),
        (
            policy(ingress=[{"ports": [{"port": 53, "protocol": "UDP"}]}]),
            {
                "podSelector": {},
                "policyTypes": ["Ingress"],
                "ingress": [{"ports": [{"port": 53, "protocol": "TCP"}]}],
            },
            False,
        ),
    ],
)
def test_a_network_policy_is_equal_but_for_its_defaults(content, spec, equal):
    assert differences(content, live(spec=spec)) == (() if equal else ("spec",))


def test_a_limit_range_is_equal_with_the_defaults_that_follow_from_its_other_fields():
    item = {
        "type": "Container",
        "max": {"cpu": 2, "memory": "1Gi"},
        "default": {"cpu": "1"},
        "min": {"storage": "1"},
    }
    shown = {
        **item,
        "max": {"cpu": "2", "memory": "1Gi"},
        "default": {"cpu": "1", "memory": "1Gi"},
        "defaultRequest": {"cpu": "1", "memory": "1Gi", "storage": "1"},
    }
    content = wanted("v1", "LimitRange", spec={"limits": [item]})
    assert differences(content, live(spec={"limits": [shown]})) == ()
    other = {**shown, "defaultRequest": {"cpu": "1"}}
    assert differences(content, live(spec={"limits": [other]})) == ()  # as the server fills it in
    for part in ("max", "default", "defaultRequest"):
        other = {**shown, part: {**shown[part], "cpu": "3"}}
        assert differences(content, live(spec={"limits": [other]})) == ("spec",)
    pod = {**item, "type": "Pod"}
    assert differences(content, live(spec={"limits": [pod]})) == ("spec",)


def test_what_others_put_on_a_service_account_takes_nothing_away():
    content = wanted("v1", "ServiceAccount", imagePullSecrets=[{"name": "registry"}])
    others = [{"name": "theirs"}, {"name": "registry"}]
    assert differences(content, live(imagePullSecrets=others, secrets=[{"name": "t"}])) == ()
    assert differences(content, live(imagePullSecrets=others[:1])) == ("imagePullSecrets",)
    assert differences(content, live()) == ("imagePullSecrets",)
    shut = live(imagePullSecrets=others, automountServiceAccountToken=False)
    assert differences(content, shut) == ("automountServiceAccountToken",)
    bare = wanted("v1", "ServiceAccount")
    assert differences(bare, live(imagePullSecrets=others, secrets=[{"name": "t"}])) == ()


def test_a_custom_resource_is_equal_only_as_a_whole():
    content = wanted("example.com/v1", "Gizmo", spec={"size": 1, "names": []})
    assert differences(content, live(spec={"size": 1}, status={"ready": True})) == ()
    assert differences(content, live(spec={"size": 1, "filledIn": "x"})) == ("spec",)
    # A kind of that name in another group has no defaults that we know of.
    ours = wanted("example.com/v1", "RoleBinding", roleRef={"kind": "x"})
    assert differences(ours, live(roleRef={"kind": "x", "apiGroup": RBAC})) == ("roleRef",)


def test_what_is_being_deleted_or_cut_is_not_equal():
    content = wanted("v1", "ServiceAccount")
    assert differences(content, live({"deletionTimestamp": "now"})) == ("deletionTimestamp",)
    ((why),) = differences(content, live({NOT_WHOLE: True}))
    assert why == "everything (it is nested too deeply to be compared)"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("1", 1, True),
        ("1000m", "1", True),
        ("1k", "1000", True),
        ("1Ki", "1024", True),
        ("1Mi", "1024Ki", True),
        ("1e3", "1000", True),
        ("1E-3", "1m", True),
        ("0.5", "500m", True),
        ("1000u", "1m", True),
        ("1000n", "1u", True),
        ("1G", "1000M", True),
        ("1T", "1000G", True),
        ("1P", "1000T", True),
        ("1E", "1000P", True),
        ("1Ei", "1024Pi", True),
        ("+1.50", "1500m", True),
        ("1E", "1e18", True),
        ("all", "all", True),
        ("1K", "1k", False),
        ("1G", "1Gi", False),
        ("1e999", "1e998", False),
        ("1Ki", "1k", False),
        ("1", "2", False),
        ("1x", "1", False),
        ("...", ".", False),
        ("...", "...", True),
    ],
)
def test_quantities_are_compared_as_the_amounts_that_they_are(one, other, same):
    content = wanted("v1", "ResourceQuota", spec={"hard": {"x": one}})
    found = live(spec={"hard": {"x": other}}, status={"used": {"x": "1"}})
    assert (differences(content, found) == ()) is same
    assert differences(content, live(spec={"hard": {"x": other, "pods": "1"}})) == ("spec",)


def test_values_are_counted_wherever_they_are():
    def thing(count):
        half = count // 2
        return {"spec": {"list": [1] * half, "map": {str(n): 1 for n in range(count - half)}}}

    # Beside them: the two objects, their two specs, and the two fields of each.
    most = COMPARED_VALUES // 2 - 4
    for count, told in ((most, ()), (most + 1, ("everything (it is too large to be compared)",))):
        content = wanted("example.com/v1", "Thing", **thing(count))
        assert differences(content, live(**thing(count))) == told
    nested = [[[1] * (COMPARED_VALUES // 4)] * 3] * 3
    assert "too large" in differences(wanted("example.com/v1", "Thing", x=nested), live())[0]


@pytest.mark.parametrize("junk", [None, 1, "x", [1, None], [[]], {"a": {"b": [1]}}, [{"a": 1}]])
@pytest.mark.parametrize(
    ("kind", "field"),
    [
        ("rbac.authorization.k8s.io/v1 RoleBinding", "subjects"),
        ("rbac.authorization.k8s.io/v1 RoleBinding", "roleRef"),
        ("networking.k8s.io/v1 NetworkPolicy", "spec"),
        ("v1 ResourceQuota", "spec"),
        ("v1 LimitRange", "spec"),
        ("v1 ServiceAccount", "imagePullSecrets"),
        ("v1 Secret", "data"),
    ],
)
def test_junk_is_different_and_no_error(kind, field, junk):
    content = wanted(*kind.split(), **{field: {"never": "there"}})
    assert field in differences(content, live(**{field: junk}))
    inside = ("ingress", "egress", "policyTypes", "hard", "limits", "podSelector")
    assert field in differences(content, live(**{field: dict.fromkeys(inside, junk)}))


@pytest.mark.measures
def test_a_comparison_stays_within_a_step():
    """What two objects of the greatest size may take, each time with another one."""
    rules = [{"verbs": ["get"], "resources": [f"r{n}"]} for n in range(COMPARED_VALUES // 12)]
    content = wanted(f"{RBAC}/v1", "Role", rules=rules)
    assert differences(content, live(rules=copy.deepcopy(rules))) == ()
    others = iter([live(rules=copy.deepcopy(rules)) for _ in range(3)])
    assert_quick(lambda: differences(content, next(others)), STEP_SECONDS)
    larger = live(rules=rules * 100)
    assert "too large" in differences(content, larger)[0]
    assert_quick(lambda: differences(content, larger), STEP_SECONDS)


# --- Places for watches of others' objects: nobody takes those of all, and none is lost -----------


EACH = UNMANAGED_WATCHES


@dataclass
class FakeRegistration:
    """What the pool hands out, driven by the test."""

    spec: WatchSpec
    synced: bool = False
    store: dict[ObjectName, Seen] = field(default_factory=dict)
    released: int = 0

    def release(self) -> None:
        self.released += 1


class Pool(InformerFactory):
    """Opens no connection."""

    def __init__(self) -> None:
        self.handed_out: list[FakeRegistration] = []

    def acquire(self, spec, listener, *, on_synced=None):
        self.listener, self.on_synced = listener, on_synced
        self.handed_out.append(FakeRegistration(spec))
        return self.handed_out[-1]


@pytest.fixture
def pool():
    return Pool()


@pytest.fixture
def news():
    return []


@pytest.fixture
def objects(pool, news):
    return UnmanagedObjects(pool, lambda key, *_: news.append(key), lambda: 0.0, DEFAULT_TIMING)


def find(objects, number, namespace="team", tenant=None):
    """An object is found at the target of a rule."""
    key = CopyKey("configmaps", namespace, f"app-{number}")
    compiled = SimpleNamespace(targets=SimpleNamespace(tenant=tenant))
    winner = SimpleNamespace(owner="rule", binding=SimpleNamespace(compiled=compiled))
    objects.record(key, CONFIGMAPS, SimpleNamespace(resource_version="7"), winner)
    return key


def watched(pool):
    return sum(not one.released for one in pool.handed_out)


def test_one_target_namespace_gets_so_many_and_another_still_gets_its_own(objects, pool):
    for number in range(EACH + 3):
        find(objects, number)
    assert watched(pool) == EACH
    find(objects, 0, "other")
    assert watched(pool) == EACH + 1


def test_a_tenant_pays_for_its_rules_wherever_they_point(objects, pool):
    for number in range(EACH + 3):
        find(objects, 0, f"team-{number}", "greedy")
    assert watched(pool) == EACH
    find(objects, 0, "team", "modest")
    assert watched(pool) == EACH + 1


def test_all_tenants_together_take_none_of_the_trusted_rules_places(objects, pool):
    for number in range(1_000):
        find(objects, number, f"a-{number}", f"tenant-{number}")
    assert watched(pool) == TENANTS_UNMANAGED_WATCHES
    for number in range(1_000):
        find(objects, number, f"b-{number}")
    both = TENANTS_UNMANAGED_WATCHES + TRUSTED_UNMANAGED_WATCHES
    assert watched(pool) == both


def test_a_place_is_taken_once_and_given_back_once(objects, pool):
    find(objects, 0)
    keys = [find(objects, number) for number in range(EACH)]
    assert len(pool.handed_out) == EACH
    for _ in range(2):
        objects.forget(keys[0])
    assert pool.handed_out[0].released == 1
    find(objects, "next"), find(objects, "one too many")
    assert len(pool.handed_out) == EACH + 1
    objects.close()
    find(objects, "too late")
    assert [one.released for one in pool.handed_out] == [1] * (EACH + 1)


def test_the_version_is_known_only_while_the_watch_is_complete(objects, pool, news):
    key = find(objects, 1)
    name, known = ObjectName("team", "app-1"), objects.get(key)
    (registration,) = pool.handed_out
    assert (registration.spec.name, registration.spec.metadata_only) == ("app-1", True)
    assert known.live_version is None
    registration.store[name] = Seen("7")
    assert known.live_version is None
    registration.synced = True
    assert known.live_version == "7"
    assert not objects.is_gone(key)
    pool.on_synced()
    pool.listener(name, None, Seen("7"))
    assert news == []
    pool.listener(name, None, Seen("8"))
    assert news == [key]
    del registration.store[name]
    pool.listener(name, Seen("8"), None)
    assert objects.is_gone(key)
    pool.on_synced()
    assert news == [key] * 3
    objects.forget(key)
    assert not objects.is_gone(key)


def test_another_object_that_the_watch_delivers_is_not_taken_for_it(objects, pool, news):
    """An aggregated API server may ignore the selector of the name."""
    key = find(objects, 1)
    (registration,) = pool.handed_out
    other = ObjectName("team", "app-0")
    registration.store = {other: Seen("9"), ObjectName("team", "app-1"): Seen("7")}
    registration.synced = True
    assert objects.get(key).live_version == "7"
    pool.listener(other, None, Seen("9"))
    assert news == []
    registration.store = {other: Seen("9")}
    assert objects.is_gone(key)
