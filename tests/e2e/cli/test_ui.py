"""`copyrator ui`, `report` and `top` on a cluster where the operator runs."""

import asyncio
import re
import signal
import socket
import time

import aiohttp
import pytest
from tests.e2e.cli.conftest import SENTINEL, rule, synced_and_failing
from tests.e2e.cli.terminal import typed
from tests.e2e.cli.ui_process import serving
from tests.e2e.installation import RULES

LATE = 60.0
"""Seconds in which a page shows a change on a loaded machine."""


class Browser:
    """A session with the pages of a running `copyrator ui`; no value of a Secret is in any."""

    def __init__(self, session, url):
        self.session, self.url = session, url
        self.base = url.partition("/?")[0]

    async def page(self, path):
        async with self.session.get(self.base + path) as answer:
            text = await answer.text()
        assert SENTINEL not in text
        assert "Traceback" not in text
        return text

    async def confirm(self, path):
        """Open a question and send its form."""
        question = await self.page(path)
        fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', question))
        async with self.session.post(
            self.base + path, data=fields, headers={"Origin": self.base}
        ) as answer:
            return await answer.text()

    async def until(self, path, shows):
        """Wait until a page has a text."""
        text, end = "", time.monotonic() + LATE
        while time.monotonic() < end:
            text = await self.page(path)
            if shows in text:
                return text
            await asyncio.sleep(0.1)
        raise AssertionError(f"{path} doesn't show {shows!r}:\n{text}")


@pytest.fixture
async def session():
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        yield session


async def opened(session, url):
    browser = Browser(session, url)
    async with session.get(url) as answer:
        assert answer.status == 200
    return browser


@pytest.fixture
def copied(stage, word, namespace):
    """A rule `word` with a copy in one namespace, and one whose source doesn't exist."""
    place = namespace(f"{word}-team")
    with synced_and_failing(stage, word):
        yield place


async def test_the_pages_show_what_is_there_and_what_is_wrong_and_no_values(
    stage, word, copied, shop, session
):
    home, apps = stage.home, stage.apps
    with serving(stage) as url:
        browser = await opened(session, url)
        overview = await browser.page("/")
        attention = overview.partition('id="attention"')[2].partition("<h2>")[0]
        assert f"{home}/{word}-no" in attention
        assert f"{home}/{word}<" not in attention
        assert f"there is no Secret {word}-none" in attention
        assert f"{apps}/shop" in overview
        cell = f'/rules/{home}/{word}?in={copied}">1</a>'
        await browser.until(f"/matrix?rules={home}/{word}&namespaces={word}-*", cell)
        assert f">{copied}/{word}</a>" in await browser.page(f"/rules/{home}/{word}?in={copied}")
        why = await browser.page(f"/copies/{copied}/Secret/{word}")
        assert f"up to date with the rule {home}/{word}" in why
        missing = await browser.page(f"/copies/{copied}/Secret/{word}-other")
        assert "exist" in missing
        bundle = await browser.page(f"/bundles/{apps}/shop")
        assert "1.0.0" in bundle
        assert "Deployed" in bundle
        assert "Succeeded" in await browser.page(f"/bundles/{apps}/shop/log")


async def test_a_write_comes_after_a_confirmation_with_the_users_permissions(
    stage, word, copied, session
):
    path = f"/do/suspend/rules/{stage.home}/{word}"
    rules = f"{RULES.format(stage.home)}/{word}"
    with serving(stage) as url:
        browser = await opened(session, url)
        assert f"Suspend rule {stage.home}/{word}?" in await browser.page(path)
        assert not stage.api.get(rules)["spec"].get("suspend")
        assert "suspended" in await browser.confirm(path)
        assert stage.api.get(rules)["spec"]["suspend"] is True
        await browser.until(f"/rules/{stage.home}/{word}", "Resume …")
        await browser.confirm(path.replace("suspend", "resume"))
        assert not stage.api.get(rules)["spec"].get("suspend")


@pytest.fixture
def reader(stage, word, namespace):
    """The terminal of a user who may read one namespace, and its name."""
    name = namespace(f"{word}-read")
    read = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}
    stage.grant(f"read-{word}", read, namespace=name)
    return stage.as_user(f"read-{word}"), name


@pytest.mark.refused("*")
async def test_who_may_read_one_namespace_sees_it_and_what_is_left_out(
    stage, word, copied, reader, session
):
    terminal, place = reader
    stage.apply(rule(place, word, source={"kind": "Secret", "name": "s"}))
    with serving(terminal, "-n", place) as url:
        browser = await opened(session, url)
        overview = await browser.page("/")
        assert f"{place}/{word}" in overview
        assert f"{stage.home}/" not in overview
        refused = await browser.page(f"/do/reconcile/rules/{place}/{word}")
        assert "you have no permission to change" in refused
    assert "annotations" not in stage.api.get(f"{RULES.format(place)}/{word}")["metadata"]


def test_a_report_has_all_of_it_in_one_file(stage, word, copied, shop, tmp_path):
    file = tmp_path / "report.html"
    stage.types(f"report --html {file}")
    text = file.read_text()
    assert SENTINEL not in text
    for shown in (f"Rule {stage.home}/{word}", f"Bundle {stage.apps}/shop", f"{word}-none"):
        assert shown in text
    assert not re.search(r'(?:href|src)="(?!#)', text)
    assert "can't write" in stage.types(f"report --html {tmp_path}/none/r.html", code=1)


def test_top_prints_the_worst_first_and_ends_with_ctrl_c(stage, word, copied):
    shown = stage.types("top --once")
    lines = [line for line in shown.splitlines() if f"{word}" in line]
    assert [line.split()[0] for line in lines] == ["Failing", "Ready"]
    assert all(len(line) <= 80 for line in shown.splitlines())


def test_top_is_kept_up_to_date_on_a_terminal(stage, word, copied):
    shown = f"there is no Secret {word}{{}} in".format
    with typed(stage, "top", COLUMNS="160", LINES="24") as (terminal, process):
        terminal.read_until(shown("-none"))
        assert shown("") not in terminal.output
        stage.cluster.kubectl("delete", "secret", word, "-n", stage.home)
        terminal.read_until(shown(""))
        process.send_signal(signal.SIGINT)
        assert terminal.read_to_the_end(process) == 130


def test_top_is_scrolled_by_keys_and_ends_with_q(stage, word, copied):
    with typed(stage, f"top -n {stage.home}", LINES="5") as (terminal, process):
        terminal.read_until("1 to 1 of ")
        for keys, text in (
            ("\x1b[B", "2 to 2 of "),
            ("\x1b[A", "1 to 1 of "),
            ("\x1b[6~", "2 to 2 of "),
        ):
            terminal.output = ""
            terminal.type(keys)
            terminal.read_until(text)
        assert "^[" not in terminal.output, "keys aren't printed"
        terminal.type("q")
        assert terminal.read_to_the_end(process) == 0
        assert terminal.is_as_before


def test_a_port_in_use_is_named(stage):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"can't listen on 127.0.0.1:{port}" in stage.types(f"ui --port {port}", code=1)
