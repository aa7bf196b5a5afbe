"""Pages of large clusters: 100,000 copies, and 500 Bundles with plans of 5,000 operations.

What a page costs is judged by counts, sizes, and against work of the same run, not by the clock;
times are in bench/pages.py.
"""

import time

import pytest
from tests.component.cli.conftest import Page
from tests.component.cli.hostile_cluster import stamp
from tests.steps import cpu_seconds, measured_steps
from tests.unit.cli.view.objects_seen import bundle, rule, seen

from copyrator.api.keys import ObjectName
from copyrator.bundles import words
from copyrator.cli.view.overview import SeenCopies
from copyrator.kube import errors

LARGEST = 1_000_000
"""Characters of a page."""
PLACES = [f"team-{number:04}" for number in range(2_000)]
LISTS = ("/", "/rules", "/bundles", "/search?q=bundle", "/search?q=team-1", "/matrix")
PAGES = (*LISTS, "/rules/infra/r00", "/rules/infra/one", "/bundles/infra/bundle-250")


def large(number: int, message: str) -> dict:
    """A Bundle whose plan has 5,000 operations, with a status larger than any of the operator's."""
    risky = [f"delete prod:apps:StatefulSet:{'n' * 60}-{one}" for one in range(20)]
    body = bundle(
        f"bundle-{number:03}",
        "False",
        "DeployFailed",
        message=message,
        conditions=[
            {
                "type": "UpdatePending",
                "status": "True",
                "reason": "AwaitingApproval",
                "message": message,
            }
        ],
        gates=[
            {"name": name, "state": "Waiting", "reason": "TooYoung", "message": "g" * 200}
            for name in ("minAge", "signature", "promotion", "dependsOn", "window", "approval")
        ],
        history=[
            {"version": f"1.{one}.0", "outcome": "Succeeded", "approvedBy": "ann" * 80}
            for one in range(10)
        ],
        deployed={"version": "1.0.0", "digest": f"sha256:{number:064x}", "time": stamp(-7200)},
        soak=[
            {"version": f"1.{one}.0", "digest": f"sha256:{one:064x}", "since": stamp(-60)}
            for one in range(10)
        ],
        drift={"verdict": "Drifted", "objects": risky, "count": 4_000, "since": stamp(-60)},
        lastError={"reason": "DeployFailed", "message": message, "logTail": "l\n" * 1_000},
        plan={
            "outcome": "Planned",
            "id": f"{number:032x}",
            "operations": 5_000,
            "counts": {"create": 4_000, "delete": 1_000},
            "risky": risky,
            "riskyOperations": 1_000,
            "bound": False,
            "unbound": ["u" * 150] * 20,
            "changed": ["spec.env." + "C" * 60] * 20,
            "expiresAt": stamp(3600),
        },
    )
    if number:
        before = [{"name": f"bundle-{number - 1:03}"}]
        body["spec"] |= {"promoteFrom": {"bundles": before, "soak": "1h"}}
    body["metadata"]["annotations"] = {"operator.werf.dev/promote-to": "*"}
    return body


def cluster(copies: int, message: str):
    """50 rules with so many copies in each, one with as many alone, and 500 Bundles."""
    found = SeenCopies()
    for number in range(50):
        for place in PLACES[:copies]:
            found.add(f"infra/r{number:02}", "Secret", ObjectName(place, "s"))
    for place in PLACES[:copies]:
        for number in range(50):
            found.add("infra/one", "Secret", ObjectName(place, f"s{number:02}"))
    counted = {"desired": copies, "ready": copies}
    rules = [rule(f"r{number:02}", message=message, copies=counted) for number in range(50)]
    bundles = [large(number, message) for number in range(500)]
    return seen(*rules, rule("one", copies=counted), *bundles, copies=found, namespaces=PLACES)


@pytest.fixture
def refusing(opened: Page) -> Page:
    """What isn't watched may not be read."""

    async def request(*_args: object, **_more: object) -> None:
        raise errors.Forbidden("no")

    opened.server.client.request = request
    return opened


async def test_a_page_is_of_a_bounded_size(refusing: Page) -> None:
    refusing.server.live.now = cluster(2_000, "&" * 65_536)
    for path in PAGES:
        status, text, _ = await refusing.get(path)
        assert (path, status) == (path, 200)
        assert len(text) < LARGEST, path


async def test_lists_read_of_each_status_only_what_they_show(
    refusing: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole: list[object] = []
    parse = words.parse_status

    def counted(body: dict) -> object:
        if "plan" in body["status"]:
            whole.append(body)
        return parse(body)

    monkeypatch.setattr(words, "parse_status", counted)
    refusing.server.live.now = cluster(10, "m")
    for path in LISTS:
        await refusing.get(path)
        assert len(whole) == 0, path
    await refusing.get("/bundles/infra/bundle-250")
    assert 0 < len(whole) < 30


async def test_a_page_takes_less_than_a_few_times_as_long_as_sorting_the_copies(
    refusing: Page,
) -> None:
    known = cluster(2_000, "m")
    refusing.server.live.now = known
    copies = [(place, *one) for place, all_ in known.copies.of("infra/one").items() for one in all_]
    assert len(copies) == 100_000
    sorting = min(cpu_seconds(lambda: sorted(copies, key=str)) for _ in range(3))
    for path in PAGES:
        await refusing.get(path)
        with measured_steps() as steps:
            began = time.process_time()
            await refusing.get(path)
            taken = time.process_time() - began
        assert taken < 10 * sorting, path
        assert steps.longest < 0.25, (path, steps.where)
