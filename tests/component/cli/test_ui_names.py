"""Names with every character that Kubernetes allows, in the pages' addresses and texts.

Names of most kinds are DNS names of up to 253 characters. Those of RBAC's kinds may have any
character but / and %, and may not be . or .. (ValidatePathSegmentName).
"""

import re
from datetime import UTC, datetime
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from tests.component.cli.conftest import INSTALLATION, links
from tests.long import LONG
from tests.unit.cli.view.objects_seen import bundle, rule, seen

from copyrator.api.keys import ObjectName
from copyrator.cli.get.top import rendered
from copyrator.cli.get.why import Explanation
from copyrator.cli.ui import server
from copyrator.cli.ui.pages import Pages
from copyrator.cli.ui.parts import segment
from copyrator.cli.view.overview import SeenCopies, overview
from copyrator.cli.view.rule import CopyGroup
from copyrator.cli.view.why_copy import CopyAnswer, CopyVerdict, RuleAnswer

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


@pytest.mark.parametrize("name", RULES)
def test_a_report_and_the_terminal_have_the_whole_name_or_a_part_that_fits(name):
    now = datetime(2026, 1, 2, 12, tzinfo=UTC)
    key = "ca..A_b-.crt" + "k" * 200
    ends = {"source": f"infra/{name}", "key": key, "notAfter": "2027-01-01T00:00:00Z"}
    known = seen(rule(name, certificates=[ends]), bundle(name))
    text = Pages(cluster="c", user="ann").report(known, overview(known, now), INSTALLATION, now)
    assert f"Rule infra/{name}<" in text
    assert f"Bundle infra/{name}<" in text
    assert f"in infra/{name}, key {key}" in text
    out = Console(width=80, height=24, highlight=False, color_system=None)
    with out.capture() as captured:
        out.print(rendered(known, out, 24))
    lines = captured.get().splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert len(lines) <= 24
    assert any(f"rule infra/{name}"[:20] in line for line in lines)
