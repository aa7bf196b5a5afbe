"""A rule's page and a copy's page, as the server answers them, whatever their names are.

Names of most kinds are DNS names of up to 253 characters. Those of RBAC's kinds may have any
character but / and %, and may not be . or .. (ValidatePathSegmentName).
"""

import asyncio
import re
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.component.cli.conftest import HTML, links
from tests.long import LONG
from tests.unit.cli.view.objects_seen import bundle, rule, seen
from tests.unit.cli.view.test_copies import failure

from copyrator.api.keys import ObjectName
from copyrator.cli.core.faults import Fault
from copyrator.cli.get.why import Explanation
from copyrator.cli.ui import server
from copyrator.cli.ui.parts import segment
from copyrator.cli.view.overview import SeenCopies
from copyrator.cli.view.rule import CertificateRow, CopyGroup, RuleView, certificate_rows
from copyrator.cli.view.why_copy import CopyAnswer, CopyVerdict, RuleAnswer
from copyrator.kube import errors

PLACES = [f"team-{number:03}" for number in range(100)]
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
    """A rule with 2,000 copies, of which 20 of 134 that fail are named."""
    copies = SeenCopies()
    for place in PLACES:
        for number in range(20):
            copies.add("infra/r", "Secret", ObjectName(place, f"s{number}"))
    body = rule(
        "r",
        "False",
        "PartialFailure",
        message="x" * 65536,
        targets=100,
        sources=20,
        copies={"desired": 2000, "ready": 1866, "failed": 134},
        failures=[failure(place, name="s0") for place in PLACES[::5]],
    )
    opened.server.live.now = seen(body, copies=copies, namespaces=PLACES)
    return opened


async def test_many_copies_are_listed_a_page_at_a_time(many):
    status, text, _ = await many.get("/rules/infra/r")
    assert status == 200
    assert len(text) < 300_000
    assert "100 of 2000" in text
    assert "Page 1 of 20" in text
    (following,) = links(text, "/rules/infra/r[?]page=")
    _, second, _ = await many.get(following)
    assert "Page 2 of 20" in second
    listed = [links(one.partition('id="copies"')[2], "/copies/") for one in (text, second)]
    assert len({*listed[0], *listed[1]}) == 200


async def test_an_address_with_filters_shows_their_part_and_keeps_them(many):
    _, text, _ = await many.get("/rules/infra/r?in=team-00%3F&state=failed")
    assert "2 of 2 in team-00?" in text
    assert set(links(text.partition('id="copies"')[2], "/copies/")) == {
        "/copies/team-000/Secret/s0",
        "/copies/team-005/Secret/s0",
    }
    assert 'value="team-00?"' in text
    assert '<input type="hidden" name="state" value="failed">' in text
    assert 'id="show-failed" href="/rules/infra/r?in=team-00%3F&amp;state=failed#copies"' in text
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


LONGEST = ".".join(["a" * 62, "b-c" * 20, "0" * 62, "d" * 66])[:253]
RULES = ["a", "a.b-c", "0.1.2", LONGEST]
ROLES = [
    "system:controller:x",
    "a b+c&d=e",
    "x?y#z;w@v,u!t$s'(r)*",
    '<b>"bold"</b>',
    "back\\slash^`{|}~[]",
    "é☃ 日本",
    "tab\tand\nline",
    "...",
    LONGEST,
]


@pytest.mark.parametrize("name", RULES)
async def test_the_link_to_a_rule_or_bundle_leads_to_it(opened, name):
    opened.server.live.now = seen(rule(name), bundle(name))
    for what in ("rules", "bundles"):
        _, text, _ = await opened.get(f"/{what}")
        (link,) = set(links(text, f"/{what}/"))
        status, found, _ = await opened.get(link)
        assert status == 200
        assert f"infra/{name}" in found
        for action in links(found, "/do/"):
            status, asked, _ = await opened.get(action)
            assert (status, f"infra/{name}?" in asked) == (200, True)
            assert links(asked, f"/{what}/") == [link]


@pytest.mark.parametrize("name", ROLES if LONG else ROLES[::2])
async def test_the_link_to_a_copy_asks_about_that_copy(opened, monkeypatch, name):
    asked = []

    async def answer(_target, namespace, name, kind, _home):
        asked.append((namespace, kind, name))
        verdict = CopyVerdict(f"about {name}", CopyGroup.SYNC)
        said = [RuleAnswer(f"infra/r{number}", f"requires {name}") for number in range(3)]
        metadata = {"namespace": namespace, "name": name, "uid": "u"}
        about = CopyAnswer(
            kind, namespace, name, metadata, "infra/r", verdict, first=said[0], others=said[1:]
        )
        return Explanation([], {}, copy=about)

    monkeypatch.setattr(server.why, "answer", answer)
    copies = SeenCopies()
    copies.add("infra/r", "Role", ObjectName("team-a", name))
    opened.server.live.now = seen(rule("r"), copies=copies)
    _, text, _ = await opened.get("/rules/infra/r")
    (link,) = links(text, "/copies/")
    assert "<b>" not in text
    status, found, _ = await opened.get(link)
    assert status == 200
    assert asked == [("team-a", "Role", name)]
    assert "<b>" not in found
    _, table, _ = await opened.get("/matrix")
    (cell,) = links(table, "/rules/infra/r[?]in=")
    _, found, _ = await opened.get(cell)
    assert links(found, "/copies/") == [link]


@given(
    st.text(st.characters(exclude_characters="/%", exclude_categories=["Cs"]), min_size=1).filter(
        lambda text: text not in (".", "..")
    )
)
def test_a_name_is_one_segment_and_is_read_as_it_was(name):
    found = segment(name)
    assert unquote(found, errors="strict") == name
    assert re.fullmatch(r"[A-Za-z0-9._~%-]+", found)
