"""The page of a plan: what it shows, and which decisions are written."""

import asyncio
import html
import re

import pytest
from tests.component.cli.conftest import HTML, Cluster, fields_of, plain, posted
from tests.unit.cli.view.objects_seen import bundle, seen

from copyrator.bundles.plans.operations import read_operation
from copyrator.cli.bundles import approve
from copyrator.cli.bundles import plan as plans
from copyrator.cli.bundles.plan_log import PlanLog

PATH = "/do/approve/bundles/infra/waits"
MINE, OTHER = "a" * 32, "b" * 32
WAITS = {"type": "UpdatePending", "status": "True", "reason": "AwaitingApproval", "message": "x"}
PLAN = {
    "outcome": "Planned",
    "job": "waits-plan-1",
    "id": MINE,
    "version": "1.2.0",
    "digest": "sha256:" + "1" * 64,
    "revision": 2,
    "operations": 3,
    "counts": {"create": 1, "update": 1, "delete": 1},
    "risky": ["delete :apps:StatefulSet:db"],
    "riskyOperations": 1,
    "expiresAt": "2126-01-01T00:00:00Z",
}
OPERATIONS = ("create ::Secret:creds", "delete :apps:StatefulSet:db", "update ::ConfigMap:cm")
DIFF = f"""\
Version: v2.75.3

┌ Update ConfigMap/cm
│   data:
│ -   text: \x1b[31mone
│ +   text: {HTML}
│     werf.io/version: v1
└ Update ConfigMap/cm

┌ Create Secret/creds
│ + data:
│ +   password: SENTINEL
│ + stringData:
│ +   file: |
│ +     token: SENTINEL
│ + kind: Secret
└ Create Secret/creds

┌ Delete StatefulSet/db
│ - kind: StatefulSet
└ Delete StatefulSet/db
"""


def waiting(uid="waits", version="1", annotations=None, **plan):
    body = bundle("waits", "Unknown", "AwaitingApproval", plan=PLAN | plan, conditions=[WAITS])
    body["metadata"] |= {"uid": uid, "resourceVersion": version, "annotations": annotations or {}}
    return body


@pytest.fixture
def shown(opened, monkeypatch):
    """Lets the server show a Bundle, whose plan has a log; returns the cluster."""

    def show(body, log=None, *, operations=OPERATIONS, diff=DIFF, allowed=True):
        opened.server.live.now = seen(body)
        cluster = opened.server.client = Cluster(body, allowed=allowed)

        async def read(_client, _body, _plan):
            return log or PlanLog(tuple(map(read_operation, operations)), diff)

        monkeypatch.setattr(plans, "read_plan_log", read)
        return cluster

    return show


def buttons_of(text):
    return re.findall(r'<button id="(\w+)"', text)


@pytest.mark.parametrize("verb", ["approve", "reject"])
async def test_what_is_decided_is_shown_with_both_buttons(opened, shown, verb):
    shown(waiting(changed=["spec.env.FOO"], bound=False, unbound=[HTML], hidden=1))
    status, text, _ = await opened.get(f"/do/{verb}/bundles/infra/waits")
    found = plain(text)
    assert status == 200
    sentence = f"Plan {MINE} of 1.2.0 would create 1 object, update 1 and delete 1: waits for"
    assert f"{sentence} a decision; expires in" in found
    assert (
        f"Contents aren't bound What is deployed may differ from what is shown, because {HTML}"
        in found
    )
    assert "by the chart: contents of 1 object" in found
    assert "the contents of 1 Secret" in found
    assert "Changed besides the chart spec.env.FOO" in found
    assert "Approving deploys 1.2.0, as soon as its other gates pass." in found
    assert f"copyrator approve bundle infra/waits {MINE}" in found
    assert buttons_of(text) == ["approve", "reject"]
    assert fields_of(text)["plan"] == MINE


async def test_operations_have_their_diffs_the_risky_first_then_those_with_hidden_contents(
    opened, shown
):
    shown(waiting())
    _, text, _ = await opened.get(PATH)
    found = plain(text).partition("3 operations, 1 risky.")[2]
    names = (
        "StatefulSet/db apps ! risky +0 \N{MINUS SIGN}1",
        "Secret/creds … contents hidden +6 \N{MINUS SIGN}0",
        "ConfigMap/cm +1 \N{MINUS SIGN}1",
    )
    places = [found.index(name) for name in names]
    assert places == sorted(places)
    assert '<details id="operation-1" open>' in text
    assert '<details id="operation-2">' in text
    for kind, line in (
        ("added", f"+   text: {html.escape(HTML)}"),
        ("removed", "-   text: \\x1b[31mone"),
        ("same", "  data:"),
        ("added", "+   password: &lt;hidden&gt;"),
        ("added", "+   file: &lt;hidden&gt;"),
        ("added", "+ kind: Secret"),
    ):
        assert f'<span class="{kind}">{line}</span>' in text
    for hidden in ("\x1b", "<script>alert", "SENTINEL"):
        assert hidden not in text


async def test_without_the_log_the_page_has_counts_risky_operations_and_names(opened, shown):
    fault = "pods is forbidden: cannot get resource pods/log; ask an administrator"
    shown(waiting(riskyOperations=30, changed=["spec.env.FOO"]), PlanLog(fault=fault))
    _, text, _ = await opened.get(PATH)
    found = plain(text)
    assert f"Its operations and the diff aren't shown: {fault}. You see how many" in found
    assert "would create 1 object, update 1 and delete 1" in found
    assert "The first 1 of 30 risky operations." in found
    assert "delete StatefulSet/db" in found
    assert "spec.env.FOO" in found
    assert buttons_of(text) == ["approve", "reject"]


async def test_a_log_that_doesnt_come_isnt_waited_for(opened, shown, monkeypatch):
    shown(waiting())

    async def read(*_args):
        await asyncio.Event().wait()

    monkeypatch.setattr(plans, "read_plan_log", read)
    opened.server.log_timeout = 0.05
    _, text, _ = await opened.get(PATH)
    assert "aren't shown: its log wasn't read within 0.05 s" in plain(text)
    assert buttons_of(text) == ["approve", "reject"]


async def test_who_approved_the_last_deploy_and_what_is_missing_is_said(opened, shown):
    body = waiting(
        missing=[{"verbs": ["create"], "resource": "deployments.apps", "namespace": "apps"}],
        missingPermissions=1,
    )
    body["status"]["history"] = [
        {"version": "1.1.1", "outcome": "Failed", "time": "2026-01-02T00:00:00Z"},
        {
            "version": "1.1.0",
            "outcome": "Succeeded",
            "approvedBy": "bob",
            "time": "2026-01-01T00:00:00Z",
        },
        {
            "version": "1.0.0",
            "outcome": "Succeeded",
            "approvedBy": "cleo",
            "time": "2025-01-01T00:00:00Z",
        },
    ]
    shown(body)
    found = plain((await opened.get(PATH))[1])
    assert "Approved last 1.1.0 by bob, succeeded" in found
    assert "Permissions that are missing create deployments.apps in apps" in found


async def test_a_plan_is_read_without_a_form(opened, shown):
    shown(waiting())
    _, text, _ = await opened.get("/bundles/infra/waits/plan")
    assert f"Plan {MINE} of 1.2.0 would" in plain(text)
    assert '<form method="post"' not in text
    assert 'href="/do/approve/bundles/infra/waits"' in text
    _, text, _ = await opened.get("/bundles/infra/waits")
    assert 'href="/do/approve/bundles/infra/waits"' in text
    shown(waiting(decision="Approved", by="bob", at="2026-01-02T00:00:00Z"))
    _, text, _ = await opened.get("/bundles/infra/waits/plan")
    assert ": approved by bob" in plain(text)


@pytest.mark.parametrize(
    ("plan", "sentence", "buttons"),
    [
        ({"outcome": "Running", "id": None}, "is being made by the Job waits-plan-1", []),
        ({"outcome": "Failed", "id": None, "message": "no <b>"}, "failed: -: no <b>", []),
        ({"expiresAt": "2026-01-01T00:00:00Z"}, "; the operator makes it again", []),
        ({"decision": "Approved", "by": "bob"}, ": approved by bob", ["reject"]),
        ({"decision": "Rejected", "by": "bob"}, ": rejected by bob", ["approve"]),
    ],
)  # fmt: skip
async def test_only_what_can_be_decided_has_a_button(opened, shown, plan, sentence, buttons):
    shown(waiting(**plan))
    _, text, _ = await opened.get(PATH)
    assert sentence in plain(text)
    assert buttons_of(text) == buttons
    assert ("There is nothing to decide now." in text) is not buttons or buttons


async def test_a_rule_has_no_plan_to_decide(opened):
    assert (await opened.get("/do/approve/rules/infra/broken"))[0] == 404
    assert (await opened.get("/bundles/infra/none/plan"))[0] == 404


@pytest.mark.parametrize(
    ("verb", "done"), [("approve", "You approved"), ("reject", "You rejected")]
)
async def test_a_decision_names_the_shown_plan_and_leads_to_the_live_bundle(
    opened, shown, verb, done
):
    cluster = shown(waiting(version="7"))
    _, text, _ = await opened.get(PATH)
    cluster.body = waiting(version="8")  # another field of it has changed since
    status, _, location = await posted(opened, f"/do/{verb}/bundles/infra/waits", fields_of(text))
    assert (status, location) == (303, "/bundles/infra/waits")
    (written,) = cluster.patches
    choice = approve.APPROVE if verb == "approve" else approve.REJECT
    assert written["annotations"][choice.annotation] == MINE
    assert written["annotations"][choice.opposite] is None
    assert (written["uid"], written["resourceVersion"]) == ("waits", "8")
    _, text, _ = await opened.get(location)
    assert f'id="notice">{done} plan {MINE}' in text
    assert "data-live" in text
    assert 'id="notice"' not in (await opened.get(location))[1], "it is said once"


@pytest.mark.parametrize(
    ("meanwhile", "refused", "buttons"),
    [
        (waiting(id=OTHER), f"has another plan now, {OTHER}; check", ["approve", "reject"]),
        (waiting(decision="Approved", by="bob"), "was approved by bob already", ["reject"]),
        (waiting(decision="Rejected", by="bob"), "is rejected now, which it wasn't", ["approve"]),
        (
            waiting(annotations={approve.REJECT.annotation: MINE}),
            "is rejected now, which it wasn't",
            ["approve"],
        ),
        (
            waiting(annotations={approve.APPROVE.annotation: MINE}),
            "is approved now, which it wasn't",
            ["reject"],
        ),
        (waiting(expiresAt="2026-01-01T00:00:00Z"), "expired", []),
        (waiting(outcome="Running", id=None), "is being made by the Job", []),
        (waiting(uid="another"), "was deleted and created again", ["approve", "reject"]),
    ],
)  # fmt: skip
async def test_where_the_plan_isnt_the_shown_one_any_more_nothing_is_written(
    opened, shown, meanwhile, refused, buttons
):
    cluster = shown(waiting())
    _, text, _ = await opened.get(PATH)
    cluster.body = meanwhile
    status, text, _ = await posted(opened, PATH, fields_of(text))
    assert (status, cluster.patches) == (409, [])
    assert "Nothing was written: " in plain(text)
    assert refused in plain(text)
    assert buttons_of(text) == buttons
    if len(buttons) == 2:  # the page that is shown now can be decided
        status, _, _ = await posted(opened, PATH, fields_of(text))
        assert status == 303


async def test_a_plan_that_is_replaced_during_the_write_isnt_decided(opened, shown):
    cluster = shown(waiting())
    _, text, _ = await opened.get(PATH)
    cluster.meanwhile = waiting(id=OTHER, version="2")
    status, text, _ = await posted(opened, PATH, fields_of(text))
    assert (status, cluster.patches) == (409, [])
    assert f"Plan {OTHER} of 1.2.0" in plain(text)
    assert fields_of(text)["plan"] == OTHER


async def test_who_may_not_approve_is_told_and_nothing_is_written(opened, shown):
    cluster = shown(waiting())
    _, text, _ = await opened.get(PATH)
    cluster.allowed = False
    status, refused, _ = await posted(opened, PATH, fields_of(text))
    assert (status, cluster.patches) == (409, [])
    lacks = "you have no permission to approve plans of bundle infra/waits: the verbs approve and"
    assert plain(refused).count(lacks) == 1
    _, asked, _ = await opened.get(PATH)
    assert f"It can't be decided: {lacks}" in plain(asked)
    for text in (refused, asked):
        assert (buttons_of(text), fields_of(text)) == ([], {})


async def test_of_many_operations_a_page_has_a_part_and_each_page_can_decide(opened, shown):
    names = [f"cm-{number:03}" for number in range(250)]
    frame = "┌ Update ConfigMap/{0}\n│ - a: b\n└ Update ConfigMap/{0}"
    cluster = shown(
        waiting(operations=250, counts={"update": 250}, risky=[], riskyOperations=0),
        operations=[f"update ::ConfigMap:{name}" for name in names],
        diff="\n".join(map(frame.format, names)),
    )
    _, text, _ = await opened.get(PATH)
    assert text.count('<details id="operation-') == 100
    assert "update 250 ConfigMap" in plain(text)
    assert "Page 1 of 3" in plain(text)
    _, text, _ = await opened.get(f"{PATH}?page=3")
    assert "ConfigMap/cm-249" in text
    assert 'start="201"' in text
    assert (await posted(opened, PATH, fields_of(text)))[0] == 303
    assert cluster.patches


async def test_long_texts_and_lines_are_cut(opened, shown):
    line = "│ + " + "y" * 70_000
    many = "\n".join(["│ + z"] * 5000)
    diff = f"┌ Update ConfigMap/cm\n{line}\n{many}\n└ Update ConfigMap/cm\n┌ {'t' * 70_000}\n│ a\n"
    diff += "\n".join(["p" * 70_000] * 5)
    shown(waiting(changed=["c" * 70_000], unbound=["u" * 70_000], bound=False), diff=diff)
    _, text, _ = await opened.get(PATH)
    assert len(text) < 50_000
    assert "4801 more lines aren't shown" in plain(text)
