"""A rule's page and a copy's page, as the server answers them."""

import asyncio
import re
import time

import pytest
from tests.component.cli.conftest import HTML, links
from tests.unit.cli.view.objects_seen import rule, seen
from tests.unit.cli.view.test_copies import failure

from copyrator.api.keys import ObjectName
from copyrator.cli.core.faults import Fault
from copyrator.cli.get.why import Explanation
from copyrator.cli.ui import server
from copyrator.cli.view.overview import SeenCopies
from copyrator.cli.view.rule import CertificateRow, CopyGroup, RuleView, certificate_rows
from copyrator.cli.view.why_copy import CopyAnswer, CopyVerdict, RuleAnswer
from copyrator.kube import errors

PLACES = [f"team-{number:04}" for number in range(1000)]
METADATA = {
    "namespace": "team-a",
    "name": "s",
    "uid": "u",
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "annotations": {"copyrator.flant.com/source": "infra/s"},
    "managedFields": [{"manager": HTML, "time": "2026-01-01T00:00:00Z"}],
}


@pytest.fixture
def many(opened):
    """A rule with 100,000 copies, of which 20 of 134 that fail are named."""
    copies = SeenCopies()
    for place in PLACES:
        for number in range(100):
            copies.add("infra/r", "Secret", ObjectName(place, f"s{number}"))
    body = rule(
        "r",
        "False",
        "PartialFailure",
        message="x" * 65536,
        targets=1000,
        sources=100,
        copies={"desired": 100_000, "ready": 99_866, "failed": 134},
        failures=[failure(place, name="s0") for place in PLACES[::50]],
    )
    opened.server.live.now = seen(body, copies=copies, namespaces=PLACES)
    return opened


async def test_a_hundred_thousand_copies_are_listed_a_page_at_a_time(many):
    began = time.process_time()
    status, text, _ = await many.get("/rules/infra/r")
    assert time.process_time() - began < 2
    assert status == 200
    assert len(text) < 300_000
    assert "100 of 100000" in text
    assert "Page 1 of 1000" in text
    (following,) = links(text, "/rules/infra/r[?]page=")
    _, second, _ = await many.get(following)
    assert "Page 2 of 1000" in second
    listed = [links(one.partition('id="copies"')[2], "/copies/") for one in (text, second)]
    assert len({*listed[0], *listed[1]}) == 200


async def test_an_address_with_filters_shows_their_part_and_keeps_them(many):
    _, text, _ = await many.get("/rules/infra/r?in=team-00*&state=failed")
    assert "2 of 2 in team-00*" in text
    assert set(links(text.partition('id="copies"')[2], "/copies/")) == {
        "/copies/team-0000/Secret/s0",
        "/copies/team-0050/Secret/s0",
    }
    assert 'value="team-00*"' in text
    assert '<input type="hidden" name="state" value="failed">' in text
    assert 'id="show-failed" href="/rules/infra/r?in=team-00%2A&amp;state=failed#copies"' in text
    (drawn,) = set(
        links(text.partition("<svg")[2].partition("</svg>")[0], "/rules/infra/r.*failed")
    )
    _, text, _ = await many.get(drawn.partition("#")[0])
    assert "20 of 20" in text


async def test_the_page_asks_for_events_only_and_says_that_they_are_missing(many):
    asked = []

    class Client:
        def list_pages(self, resource, *_args, **_more):
            asked.append(resource.plural)
            raise errors.Forbidden("events")

        def __getattr__(self, name):
            raise AssertionError(name)

    many.server.client = Client()
    _, text, _ = await many.get("/rules/infra/r?state=sync")
    assert set(asked) == {"events"}
    assert "Events aren&#39;t shown, because you have no permission to list them." in text


async def test_events_that_dont_come_arent_waited_for(many):
    class Client:
        async def list_pages(self, *_args, **_more):
            await asyncio.Event().wait()
            yield

    many.server.client, many.server.log_timeout = Client(), 0.05
    status, text, _ = await many.get("/rules/infra/r")
    assert status == 200
    assert "Events aren&#39;t shown: the API server didn&#39;t answer." in text


@pytest.fixture
def answered(opened, monkeypatch):
    """A copy whose answer is known."""
    ends = {"source": "infra/s", "key": "tls.crt", "notAfter": "2020-01-01T00:00:00Z"}
    view = RuleView(rule("r", certificates=[ends]), server.datetime.now(server.UTC))
    found: list[CertificateRow] = list(certificate_rows(view))
    answer = CopyAnswer(
        "Secret",
        "team-a",
        "s",
        METADATA,
        "infra/r",
        CopyVerdict(f"The write fails: {HTML}", CopyGroup.FAILED),
        certificates=found,
        first=RuleAnswer("infra/r", f"requires it {HTML}", is_owner=True),
        others=[RuleAnswer(f"infra/other-{number}", "has no source") for number in range(30)],
    )

    async def why(*_):
        return Explanation([], {}, "Only team-a was read.", copy=answer)

    monkeypatch.setattr(server.why, "answer", why)
    return opened


async def test_a_copy_is_shown_with_what_it_is_a_copy_of_and_why(answered):
    status, text, _ = await answered.get("/copies/team-a/Secret/s")
    assert status == 200
    assert "<script>alert" not in text
    assert "<pre" not in text
    assert '<span class="state fault">✕ Failed</span>' in text
    assert "The write fails: &lt;script&gt;" in text
    assert "Secret team-a/s exists and carries the marks of the rule infra/r." in text
    assert "Only team-a was read." in text
    assert text.index('id="rule" href="/rules/infra/r"') < text.index("infra/other-0")
    assert "its owner" in text
    assert "30 other rules" in text
    assert "and 20 more" in text
    assert "expired 2020-01-01T00:00:00Z" in text
    drawn = text.partition("<svg")[2].partition("</svg>")[0]
    assert re.findall(r'class="first">([^<]+)<', drawn) == [
        "Secret infra/s",
        "Rule infra/r",
        "Secret s",
    ]
    assert "Events aren&#39;t shown" in text


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Fault("no such kind"), "It isn&#39;t known why it is as it is: no such kind"),
        (errors.Forbidden("no rules for you"), "no rules for you"),
        (TimeoutError(), "It wasn&#39;t found out within 30 s"),
    ],
)
async def test_a_copys_page_without_an_answer_says_why(opened, monkeypatch, error, said):
    async def why(*_):
        raise error

    monkeypatch.setattr(server.why, "answer", why)
    status, text, _ = await opened.get("/copies/team-a/Secret/s")
    assert (status, said in text) == (200, True)
    assert "Secret team-a/s" in text


@pytest.mark.parametrize(("kind", "what"), [("rule", "rules"), ("Bundle", "bundles")])
async def test_a_rule_or_bundle_has_its_own_page(opened, monkeypatch, kind, what):
    async def why(*_):
        return Explanation(["about it"], {})

    monkeypatch.setattr(server.why, "answer", why)
    status, _, headers = await opened.get(f"/copies/infra/{kind}/r", allow_redirects=False)
    assert (status, headers["Location"]) == (303, f"/{what}/infra/r")
