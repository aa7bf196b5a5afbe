"""Messages of Apprise's services, as receivers of their formats get them."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web
from tests.authority import Authority
from tests.component.lasting_child import LastingChild
from tests.component.notify.conftest import Mailbox, Receiver, answering, serve

from copyrator.api.reasons.notices import About
from copyrator.notify.config import Config, SubjectKind
from copyrator.notify.messages import build_message
from copyrator.notify.notifier import make_isolated
from copyrator.notify.sending import SERVICES, Order, SendResult, send
from copyrator.notify.transitions import ObjectIdentity, Transition
from copyrator.workqueue.isolated import Isolated
from demo.chart import ROOT

HOSTILE = "<!channel> @here [click](https://evil.example) failed"
MESSAGE = build_message(
    Config(link="https://ui.example.com/{namespace}/{name}"),
    [
        Transition(
            ObjectIdentity(SubjectKind.BUNDLE, "prod", "shop", "uid"),
            About.AWAITING_APPROVAL,
            "waits for approval of 1.9.0 (2 updates)",
            "2026-11-27T12:00:00Z",
            "1",
            HOSTILE,
            "copyrator approve bundle -n prod shop 3f46bdff",
        )
    ],
)


@pytest.fixture(scope="module")
def child() -> Iterator[Isolated]:
    with LastingChild(make_isolated()).running() as child:
        yield child


@pytest.fixture
async def fresh() -> AsyncIterator[Isolated]:
    """A child that knows no CA: it reads the operator's once."""
    found = make_isolated()
    yield found
    await found.close()


async def sent(child: Isolated, url: str) -> SendResult:
    return await child.call(send, "chat", Order(url, None, "/copyrator/ops", {}), MESSAGE)


async def test_mattermost_gets_its_json_and_nobody_is_mentioned(
    child: Isolated, receiver: Receiver
) -> None:
    host = receiver.url.removeprefix("http://")
    assert await sent(child, f"mmost://{host}/tokenabc") == SendResult(code=200)
    (_, body) = receiver.got[0]
    said = json.loads(body)["text"]
    assert "waits for approval of 1.9.0 (2 updates)" in said
    assert "copyrator approve bundle -n prod shop 3f46bdff" in said
    assert "https://ui.example.com/prod/shop" in said
    for harm in ("<!channel>", "@here", "](https://evil"):
        assert harm not in said
    assert receiver.paths == ["/hooks/tokenabc"]


MAIL = "mailto://{}?from=copyrator@example.com&to=ops@example.com&format=text"


@pytest.mark.parametrize(("answer", "is_refused"), [("554 no", True), ("451 later", False)])
async def test_only_a_text_that_is_refused_for_good_is_said_to_be(
    child: Isolated, answer: str, is_refused: bool
) -> None:
    mailbox = Mailbox(refuses=b"shop", answer=answer)
    async with mailbox.serving() as host:
        found = await sent(child, MAIL.format(host))
    code = int(answer[:3])
    assert found == SendResult(f"the server answered {code}", code, is_refused=is_refused)


async def test_a_mail_has_the_message_and_its_subject(child: Isolated) -> None:
    mailbox = Mailbox()
    async with mailbox.serving() as host:
        answer = await sent(child, MAIL.format(host))
    assert answer.fault == ""
    (mail,) = mailbox.mails
    assert mail["To"].endswith("ops@example.com") or "ops@example.com" in mail["To"]
    assert mail["Subject"] == "Copyrator: AwaitingApproval prod/shop"
    text = mail.get_body(("plain",)).get_content()
    assert "waits for approval of 1.9.0" in text
    assert "copyrator approve bundle -n prod shop 3f46bdff" in text


async def test_an_incomplete_url_is_said_without_it(child: Isolated) -> None:
    answer = await sent(child, "slack://short-token-abc")
    assert answer.fault
    assert "token-abc" not in answer.fault


def known_schemes() -> set[str]:
    """Every scheme that Apprise has; runs in the child, so that nothing is imported here."""
    from apprise import Apprise  # noqa: PLC0415

    found: set[str] = set()
    for one in Apprise().details()["schemas"]:
        found |= set(one["protocols"] or ()) | set(one["secure_protocols"] or ())
    return found


async def test_every_allowed_scheme_is_one_of_apprises(child: Isolated) -> None:
    assert await child.call(known_schemes, "test") >= SERVICES


TOKENS = {
    "slack": {"A": "T1JJ3T3L2", "B": "A1BRTD4JD", "C": "TIiajkdnlazkcOXrIdevi7FQ"},
    "webex": {"TOKEN": "a" * 80},
    "tgram": {"TOKEN": "123456789:AbcdefghijklmnopqrstuvwxyzABCDEFGHI", "CHAT": "12315544"},
    "workflow": {"HOST": "prod-1.westeurope", "ID": "643e69f83c8944438d68119179a10a64"},
    "": {"TOKEN": "abcdef0123", "ID": "1234567890", "KEY": "abc-def", "SPACE": "AAAA"},
}
"""Values that stand in a service's URL, as it makes them; ``""``: of all others."""


def incomplete(urls: list[str]) -> list[str]:
    """Those that Apprise doesn't understand; runs in the child."""
    from apprise import Apprise  # noqa: PLC0415

    return [url for url in urls if Apprise.instantiate(url) is None]


async def test_apprise_understands_the_form_that_the_page_has_for_each_chat(
    child: Isolated,
) -> None:
    page = (ROOT / "docs" / "notifications.md").read_text()
    forms = re.findall(r"\| `((\w+)://[^`]+)` \|$", page, re.MULTILINE)
    urls = []
    for form, scheme in forms:
        values = TOKENS[""] | TOKENS.get(scheme, {})
        urls.append(re.sub(r"\b[A-Z]+\b", lambda found: values.get(found[0], found[0]), form))  # noqa: B023
    assert len(urls) > 15
    assert await child.call(incomplete, "test", urls) == []


async def test_an_answer_without_an_end_is_not_read(child: Isolated, receiver: Receiver) -> None:
    written = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal written
        answer = web.StreamResponse(status=302, headers={"Location": "/elsewhere"})
        await answer.prepare(request)
        while True:
            await answer.write(b"x" * 65_536)
            written += 65_536

    receiver.answers.append(endless)
    answer = await sent(child, f"mmost://{receiver.url.removeprefix('http://')}/tokenabc")
    assert answer.code == 302
    assert receiver.paths == ["/hooks/tokenabc"], "a redirect isn't followed"
    assert written < 32 * 1024 * 1024, "no more than the sockets' buffers"


async def test_a_text_that_is_too_long_for_a_service_is_cut(
    child: Isolated, receiver: Receiver
) -> None:
    long = replace(MESSAGE, text="a word " * 10_000)
    url = f"mmost://{receiver.url.removeprefix('http://')}/tokenabc"
    assert not (await child.call(send, "chat", Order(url, None, "/c", {}), long)).fault
    (body,) = [body for _, body in receiver.got]
    assert len(json.loads(body)["text"]) <= 4_000, "Mattermost refuses more"


@pytest.mark.parametrize("scheme", ["https", "mmosts"])
async def test_a_receiver_may_have_a_certificate_of_the_operators_cas(
    fresh: Isolated, receiver: Receiver, tmp_path: Path, scheme: str
) -> None:
    authority = Authority.make(tmp_path / "ca")
    runner = await serve(receiver.handle, authority.context())
    url = f"{scheme}://127.0.0.1:{runner.addresses[0][1]}/tokenabc"
    try:
        unknown = await sent(fresh, url)
        assert unknown.fault
        assert receiver.got == []
        order = Order(url, None, "/c", {}, str(tmp_path / "ca" / "ca.pem"))
        assert (await fresh.call(send, "chat", order, MESSAGE)).fault == ""
    finally:
        await runner.cleanup()
    assert len(receiver.got) == 1


@pytest.mark.parametrize("form", ["http", "mmost"])
@pytest.mark.parametrize(
    ("said", "seconds"), [("30", 30.0), ("1000000000", 3600.0), ("inf", 3600.0), ("-5", 0.0)]
)
async def test_a_receiver_that_asks_to_be_left_alone_is_for_an_hour_at_most(
    child: Isolated, receiver: Receiver, form: str, said: str, seconds: float
) -> None:
    receiver.answers += [answering(429, Retry_After=said)]
    answer = await sent(child, receiver.url.replace("http", form, 1) + "/token")
    assert (answer.code, answer.retry_after) == (429, seconds)
    assert answer.fault == "the server answered 429"
