"""The local web server without a cluster: what it watches is set by a test."""

import asyncio
import html
import re
from types import SimpleNamespace

import aiohttp
import pytest
from aiohttp import web
from tests.unit.cli.view.objects_seen import bundle, rule, seen

from copyrator.cli.core.cluster import Target
from copyrator.cli.ui.pages import Pages
from copyrator.cli.ui.server import Server
from copyrator.kube import errors

HTML = "<script>alert(1)</script>"
INSTALLATION = SimpleNamespace(
    settings=SimpleNamespace(timer_interval=600.0, jobs_ttl=120), is_read=True
)


PLAN = {
    "outcome": "Planned",
    "job": "waits-plan-1",
    "id": "a" * 32,
    "operations": 1,
    "bound": False,
    "unbound": [HTML],
    "hidden": 1,
    "changed": ["spec.env.FOO"],
    "risky": ["delete ::ConfigMap:cm"],
}


COMPOSED = {
    "composedOf": "hub, private (3)",
    "rollout": {"content": "a" * 32, "steps": 4, "step": 2},
    "certificates": [
        {
            "source": "infra/tls",
            "key": "tls.crt",
            "commonName": HTML,
            "notBefore": "2020-01-01T00:00:00Z",
            "notAfter": "2020-02-01T00:00:00Z",
        }
    ],
}
"""What a rule's status has of its sources, rollout and certificates."""


class Watched:
    """What a Live has, without watches."""

    def __init__(self, now):
        self.now = now
        self.version = 0
        self.changed = asyncio.Event()

    async def wait(self, seen, _seconds):
        if self.version == seen:
            await self.changed.wait()
        return self.version

    def tell(self):
        self.version += 1
        event, self.changed = self.changed, asyncio.Event()
        event.set()


class NoEvents:
    """A client that may change everything, but not list Events, nor read Jobs."""

    async def request(self, *_args, **_more):
        return {"status": {"allowed": True}}

    def list_pages(self, *_args, **_more):
        raise errors.Forbidden("events")

    async def get(self, *_args, **_more):
        raise errors.Forbidden("jobs")


class Cluster:
    """An API server with one Bundle, whose caller is ann."""

    def __init__(self, body, *, allowed=True):
        self.body, self.allowed, self.patches = body, allowed, []
        self.meanwhile = None
        """What the Bundle is when a patch of its former state comes."""

    async def get(self, _resource, _namespace, _name):
        return self.body

    async def request(self, _method, path, **_more):
        if path.endswith("selfsubjectreviews"):
            return {"status": {"userInfo": {"username": "ann"}}}
        return {"status": {"allowed": self.allowed}}

    async def patch(self, _resource, _namespace, _name, patch, **_more):
        if self.meanwhile is not None:
            self.body, self.meanwhile = self.meanwhile, None
        known = patch["metadata"]["resourceVersion"]
        if known != self.body["metadata"]["resourceVersion"]:
            raise errors.ConflictError("it has changed")
        self.patches.append(patch["metadata"])
        return self.body

    def list_pages(self, *_args, **_more):
        raise errors.Forbidden("events")


class Page:
    """The server, and a browser's session with it."""

    def __init__(self, server, session):
        self.server, self.session = server, session
        self.base = f"http://127.0.0.1:{server.port}"

    async def get(self, path, **more):
        async with self.session.get(f"{self.base}{path}", **more) as answer:
            return answer.status, await answer.text(), answer.headers

    async def post(self, path, data, **headers):
        headers = {"Origin": self.base} | headers
        async with self.session.post(f"{self.base}{path}", data=data, headers=headers) as answer:
            return answer.status, await answer.text()


@pytest.fixture
async def page():
    known = seen(
        rule("broken", "False", "PartialFailure", message=HTML),
        rule("dots.and-dashes"),
        bundle("shop", "False", "DeployFailed", message=HTML, history=[{"version": HTML}]),
        bundle("waits", "Unknown", "AwaitingApproval", plan=PLAN),
    )
    pages = Pages(cluster="https://cluster", user="ann")
    serving = Server(Target(), NoEvents(), Watched(known), pages, INSTALLATION, None)
    runner = web.AppRunner(serving.app(), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    serving.port = runner.addresses[0][1]
    jar = aiohttp.CookieJar(unsafe=True)  # for an address instead of a name
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        yield Page(serving, session)
    serving.stop()
    await runner.cleanup()


@pytest.fixture
async def opened(page):
    """The session after the printed URL was opened."""
    status, _, _ = await page.get(f"/?token={page.server.token}")
    assert status == 200
    return page


def links(text, start):
    """The addresses of a page that begin so, as a browser reads them."""
    return [html.unescape(one) for one in re.findall(rf'href="({start}[^"]*)"', text)]


def plain(text):
    """The text of a page's main part."""
    main = text.partition("<main")[2].partition("</main>")[0]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", main)).split())


def fields_of(text):
    return dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', text))


async def posted(opened: Page, path, data):
    headers = {"Origin": opened.base}
    async with opened.session.post(
        f"{opened.base}{path}", data=data, headers=headers, allow_redirects=False
    ) as answer:
        return answer.status, await answer.text(), answer.headers.get("Location")
