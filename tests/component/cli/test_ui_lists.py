"""The overview, the lists and the search as the local web server answers them."""

import asyncio
import html
import re
from datetime import UTC, datetime, timedelta

import pytest
from tests.component.cli.conftest import COMPOSED, HTML, INSTALLATION, links
from tests.unit.cli.view.objects_seen import bundle, rule, seen

from copyrator.api.keys import ObjectName
from copyrator.bundles.features.freeze.fields import Freeze
from copyrator.cli.ui.pages import Pages
from copyrator.cli.view.lists import HITS
from copyrator.cli.view.overview import SeenCopies, overview

ROUTES = ["/", "/rules", "/bundles", "/search", "/matrix"]
NOW = datetime.now(UTC)


def shown(text):
    """What the rows and lists of a page have, as ``namespace/name``, with repetitions."""
    return [html.unescape(one) for one in re.findall(r'id="to-(?:rules|bundles)-([^"]+)"', text)]


def href(text, identifier):
    """Where the link of an identifier leads."""
    return html.unescape(re.search(rf'id="{identifier}"[^>]* href="([^"]*)"', text)[1])


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    "query",
    [
        "?q=%00%1b[31m&state=%F0%9F%92%A9&kind=%2F&namespace=*&sort=--&page=-1",
        "?page=99999999999999999999&sort=-&state=",
        "?page=%D9%A3&from=%D9%A3",
        "?q=" + "*a" * 2000 + "&namespace=" + "%2F" * 300,
        "?q=%3Cscript%3Ealert(1)%3C/script%3E&namespace=%22%3E%3Cb%3E&kind=%3Cb%3E",
        "?q=" + "?" * 200 + "&q=again&unknown=1",
        "?%FF=%FE&q=%FF%FE",
        "?" + "&" * 500,
    ],
    ids=["controls", "numbers", "digits", "globs", "html", "many", "bytes", "empty"],
)
async def test_junk_in_an_address_is_a_page(opened, route, query):
    status, text, _ = await opened.get(route + query)
    assert status == 200
    assert "<script>alert" not in text
    assert not re.search(r"<b>(?![0-9])|\sstyle=|\son[a-z]+=", text)


async def test_each_object_is_on_the_overview_once(opened):
    def moves(name, **more):
        return rule(name, "Unknown", "RollingOut", rollout={"content": "a" * 32, "steps": 4} | more)

    opened.server.live.now = seen(
        rule("broken", "False", "PartialFailure"),
        rule("suspended", "True", "Suspended", message="suspended"),
        moves("rolls", step=2),
        rule("starts", "Unknown", "Progressing"),
        bundle(
            "failed",
            "False",
            "DeployFailed",
            deployed={"version": "1", "time": "2026-01-01T00:00:00Z"},
        ),
        bundle("deploys", "Unknown", "Deploying"),
        bundle("new", deployed={"version": "2", "time": "2026-01-02T00:00:00Z"}),
    )
    _, text, _ = await opened.get("/")
    names = ["broken", "suspended", "rolls", "starts", "failed", "deploys", "new"]
    assert sorted(shown(text)) == sorted(f"infra/{name}" for name in names)
    attention, moving = text.index('id="attention"'), text.index('id="moving"')
    assert attention < text.index("infra/broken") < moving < text.index("infra/rolls")
    assert '<progress value="0.25" max="1" aria-label="Rollout of infra/rolls">' in text
    assert text.index('id="deployed"') < text.index("infra/new")
    assert '<b class="suspended">1</b> Suspended' in text
    assert "‖ Suspended" in text


async def test_a_rule_of_which_only_a_certificate_is_to_be_said_is_with_the_certificates(opened):
    ends = {"source": "infra/tls", "key": "tls.crt", "notAfter": "2027-01-01T00:00:00Z"}
    warned = {"type": "CertificateExpiring", "status": "True", "reason": "R", "message": "x ends"}
    opened.server.live.now = seen(
        rule("tls", conditions=[warned], certificates=[ends]),
        rule("both", "False", "Forbidden", conditions=[warned], certificates=[ends]),
        rule("many", conditions=[warned]),
    )
    _, text, _ = await opened.get("/")
    assert shown(text) == ["infra/both", "infra/many"]
    assert text.count("infra/tls</a>") == 1


async def test_the_numbers_of_the_overview_lead_to_what_they_count(opened):
    _, text, _ = await opened.get("/?namespace=inf*")
    for state, number in (("Failing", 2), ("Waiting", 1), ("Ready", 1)):
        (link,) = links(text, f"/search[?]state={state}")
        assert link == f"/search?state={state}&namespace=inf%2A"
        _, found, _ = await opened.get(link)
        assert len(shown(found)) == number
    for start in ("/rules[?]namespace=inf", "/bundles[?]namespace=inf"):
        assert len(links(text, start)) >= 1


async def test_the_overview_is_of_a_namespace_or_kind(opened):
    _, text, _ = await opened.get("/?namespace=other")
    assert (shown(text), "Nothing among what is chosen" in text) == ([], True)
    _, text, _ = await opened.get("/?kind=Bundle")
    assert sorted(shown(text)) == ["infra/shop", "infra/waits"]
    assert '<option value="Bundle" selected>' in text


async def test_a_freeze_is_said_with_who_why_where_and_until_when(opened):
    now = datetime.now(UTC)  # the tests before it may take longer than the half hour
    opened.server.live.now.beside = [
        Freeze(namespace="infra", reason=HTML, who="ann", since=now - timedelta(hours=3)),
        Freeze(reason="holidays", until=now + timedelta(hours=5, minutes=30)),
        Freeze(namespace="old", reason="gone", until=now - timedelta(hours=1)),
        Freeze(namespace="bad", fault="its annotation can't be read"),
    ]
    for route in ("/", "/bundles"):
        _, text, _ = await opened.get(route)
        plain = html.unescape(re.sub(r"<[^>]+>", "", text))
        assert "Deploys are frozen in all namespaces: holidays" in plain
        assert "(in 5h) · copyrator thaw --all" in plain
        assert f"Deploys are frozen in the namespace infra: {HTML}" in plain
        assert "By ann" in plain
        assert "(3h ago) · until somebody ends it · copyrator thaw -n infra" in plain
        assert "Deploys are frozen in the namespace bad because its annotation" in plain
        assert "gone" not in plain
        assert plain.index("holidays") < plain.index("namespace bad")
    assert "frozen in" not in (await opened.get("/rules"))[1]


async def test_many_freezes_are_folded(opened):
    opened.server.live.now.beside = [Freeze(namespace=f"n{number:03}") for number in range(500)]
    _, text, _ = await opened.get("/")
    assert text.count('class="note suspended freeze"') == 100
    assert '<details id="freezes"><summary>497 more freezes are in force' in text
    assert "400 more aren&#39;t listed" in text


async def test_a_page_of_a_list_keeps_its_filters_and_its_order(opened):
    opened.server.live.now = seen(*(rule(f"r{number:03}") for number in range(120)))
    _, text, _ = await opened.get("/rules?namespace=infra&sort=-name&page=2")
    assert shown(text) == [f"infra/r{number:03}" for number in range(69, 19, -1)]
    assert '<th scope="col" aria-sort="descending"><a id="sort-name"' in text
    assert text.count("aria-sort") == 1
    first, last = (href(text, one) for one in ("page-previous", "page-next"))
    assert (first, last) == (
        "/rules?namespace=infra&sort=-name",
        "/rules?namespace=infra&sort=-name&page=3",
    )
    assert len(shown((await opened.get(last))[1])) == 20
    assert shown((await opened.get(first))[1])[0] == "infra/r119"
    assert "Page 2 of 3, 120 rules" in text
    assert href(text, "sort-name") == "/rules?namespace=infra&sort=name"
    assert href(text, "sort-status") == "/rules?namespace=infra"
    _, part, _ = await opened.get("/rules?sort=-name&page=2", headers={"X-Fragment": "main"})
    assert shown(part) == shown(text)


async def test_a_list_says_that_nothing_matches_or_that_there_is_nothing(opened):
    _, text, _ = await opened.get("/rules?q=nothing-like-it")
    assert "None of 2 rules matches." in text
    opened.server.live.now = seen()
    assert "There are no Bundles." in (await opened.get("/bundles"))[1]


async def test_the_search_field_is_on_every_page_and_keeps_what_was_asked(opened):
    for route in (*ROUTES, "/rules/infra/broken"):
        _, text, _ = await opened.get(route)
        assert '<form class="search" method="get" action="/search"' in text
    _, text, _ = await opened.get("/search?q=a%22b")
    assert 'id="search" name="q" value="a&#34;b"' in text


@pytest.fixture
def many(opened):
    """100,000 copies of 50 rules in 1,000 namespaces, and 500 Bundles."""
    copies, places = SeenCopies(), [f"ns-{number:04}" for number in range(1000)]
    names = [f"r{number:02}" for number in range(50)]
    for name in names:
        for place in places:
            copies.add(f"infra/{name}", "Secret", ObjectName(place, f"secret-{name}"))
            copies.add(f"infra/{name}", "ConfigMap", ObjectName(place, "System:<b>"))
    failing = {"status": "False", "reason": "DeployFailed", "message": HTML * 3000}
    opened.server.live.now = seen(
        *(rule(name, copies={"desired": 2000, "ready": 2000}) for name in names),
        *(bundle(f"b{number:03}", **(failing if number % 2 else {})) for number in range(500)),
        copies=copies,
        namespaces=places,
    )
    return opened


async def test_a_search_in_all_copies_lets_others_run(many):
    turns, ended = 0, asyncio.Event()

    async def others():
        nonlocal turns
        while not ended.is_set():
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    _, text, _ = await many.get("/search?q=SYSTEM:*&kind=ConfigMap")
    ended.set()
    await task
    assert turns > 15
    assert f"{50_000 - HITS} more aren" in html.unescape(text)
    assert len(set(links(text, "/copies/"))) == HITS
    assert "System:&lt;b&gt;" in text


async def test_the_search_groups_what_it_finds(many):
    _, text, _ = await many.get("/search?q=r0&namespace=infra")
    assert 'id="found-rules"' in text
    assert shown(text) == [f"infra/r0{number}" for number in range(10)]
    _, text, _ = await many.get("/search?q=ns-0001/secret-r07")
    assert links(text, "/copies/") == ["/copies/ns-0001/Secret/secret-r07"]
    assert links(text, "/rules/infra/") == ["/rules/infra/r07"]
    _, text, _ = await many.get("/search?q=ns-00")
    assert '<h2 id="found-namespaces">Namespaces <span class="muted">100</span></h2>' in text
    assert "80 more aren" in text
    _, text, _ = await many.get("/search?kind=Bundle&state=Failing")
    assert "all 250 Bundles" in text
    assert "Nothing matches." in (await many.get("/search?q=no-such-thing"))[1]


async def test_a_message_of_64_kb_is_shortened_in_lists(opened):
    opened.server.live.now = seen(rule("a", "False", "Conflict", message="x\x1b[31m" * 16_000))
    for route in ("/", "/rules", "/search?q=a"):
        _, text, _ = await opened.get(route)
        assert "\x1b" not in text
        assert len(text) < 10_000


def test_a_report_has_the_overview_and_leads_only_within_itself():
    copies = SeenCopies()
    copies.add("infra/d", "Secret", ObjectName("team-a", "s"))
    made = rule("made", "Unknown", "RollingOut", **COMPOSED)
    known = seen(
        *(rule("a", "False", HTML), rule("c", "Unknown", "Progressing"), rule("d"), made),
        bundle("b"),
        copies=copies,
    )
    known.beside = [Freeze(reason="holidays", who="ann")]
    text = Pages(cluster="c", user="ann").report(known, overview(known, NOW), INSTALLATION, NOW)
    for said in (
        *("frozen in all namespaces", "By ann", "Other rules", "In progress", "Bundles</h2>"),
        *("hub, private (3)", "(step 2/4)", "step 2/4; 0 of", "expired 2020-02-01T00:00:00Z"),
        *("Rule infra/a", "Bundle infra/b", "default-src 'none'"),
    ):
        assert said in text
    assert not re.search(r'(?:href|src|action)="(?!#)|<script|<form', text)
    lists, _, _ = text.partition('<h2 id="rules-')
    assert '<td class="good">1</td>' in lists
    rows, _, _ = lists.partition("<h2>Rules and namespaces")
    for one in ("rules-infra/a", "rules-infra/c", "rules-infra/d", "bundles-infra/b"):
        assert rows.count(f'href="#{one}"') == 1
        assert f'id="{one}"' in text
