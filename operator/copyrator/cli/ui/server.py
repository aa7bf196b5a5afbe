"""The local web server of `copyrator ui`.

It listens on loopback, and any local program or foreign web page may send requests to it. So each
request needs the session's cookie, which the URL with the token sets once, and the address of this
server as its host (a foreign page may give its own name our address); a write needs the page's own
token as well, and must come from this server's pages.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from copyrator.api import names
from copyrator.api.keys import ObjectName
from copyrator.cli.bundles import logs
from copyrator.cli.bundles.approve import APPROVE, ShownPlan, check_permission
from copyrator.cli.bundles.plan import PlanView, read_plan
from copyrator.cli.bundles.plan_log import PlanLog
from copyrator.cli.bundles.plan_page import DECISIONS, decide, decision_values
from copyrator.cli.core.beside import beside
from copyrator.cli.core.cluster import Target
from copyrator.cli.core.faults import Fault, fault_of
from copyrator.cli.core.installation import Installation
from copyrator.cli.core.objects import RESOURCES, SINGULAR, Body, means, one, shown
from copyrator.cli.get import why
from copyrator.cli.get.describe import event_rows, events_of
from copyrator.cli.ui.bundle_page import BundleReader
from copyrator.cli.ui.pages import Pages
from copyrator.cli.ui.parts import segment
from copyrator.cli.ui.questions import (
    Answer,
    act,
    actions_of,
    ask,
    check_may_change,
    is_verb,
    title_of,
    words_of,
)
from copyrator.cli.ui.rule_page import CopyPage, RulePage, read_filter
from copyrator.cli.view.bundle import BundleView
from copyrator.cli.view.lists import (
    CopySearch,
    Query,
    View,
    list_rows,
    matrix,
    read_number,
    read_query,
    search,
)
from copyrator.cli.view.live import Live
from copyrator.cli.view.overview import bundle_rows, list_banners, overview, rule_rows
from copyrator.cli.view.rule import RuleView
from copyrator.kube import errors

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient

ADDRESS: Final = "127.0.0.1"
LARGEST_FORM: Final = 16 * 1024
"""Bytes of a form; the largest has a plan's ID."""
QUIET: Final = 20.0
"""Seconds without a change after which a page is updated all the same."""
SETTLE: Final = 1.0
"""Seconds between two updates of a page, at least."""
LOG_TIMEOUT: Final = 5.0
"""Seconds for which a page waits for a plan's log."""
WHY_TIMEOUT: Final = 30.0
"""Seconds for which a copy's page waits for its answer: a dry run, which lists all rules."""
SHARED: Final = 10
"""Rules with the same answer that a copy's page names."""
_ASSETS: Final = Path(__file__).parent / "assets"
_KEY: Final = "{namespace}/{name:[^/]+}"
"""Of an object in a path; by default aiohttp takes no braces."""
_FORM: Final = "application/x-www-form-urlencoded"
_TYPES: Final = {"style.css": "text/css", "live.js": "text/javascript"}
_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with no-referrer, forms are sent without their origin
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}

_OPENED: Final = (
    '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=/">'
    '<title>Copyrator</title><p><a href="/">Continue</a></p>'
)
"""The answer to the token: a page, because a browser that came from a file or another site doesn't
send a SameSite=Strict cookie when it follows a redirect."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(slots=True)
class Server:
    """Serves the pages about one cluster; ``app`` after ``port`` is known."""

    target: Target
    client: KubeClient
    live: Live
    pages: Pages
    installation: Installation
    home: str | None
    port: int = 0
    settle: float = SETTLE
    log_timeout: float = LOG_TIMEOUT
    _reader: BundleReader = field(init=False)
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    """In the URL that opens the session, once."""
    opened: bool = False
    """Whether the token is spent."""
    _session: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    _form: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    _notices: dict[str, str] = field(default_factory=dict)
    """By the path of an object's page: what was done, to be said there once."""
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._reader = BundleReader(self.client)

    @property
    def url(self) -> str:
        """What the user opens; whoever opens it first can act as the user while the server runs."""
        return f"http://{ADDRESS}:{self.port}/?token={self.token}"

    def app(self) -> web.Application:
        """The application; it doesn't need the port yet."""
        app = web.Application(middlewares=[self._guarded], client_max_size=LARGEST_FORM)
        app.on_response_prepare.append(_protect)
        app.add_routes(
            [
                web.get("/", self._overview),
                web.get("/matrix", self._matrix),
                web.get("/rules", self._list),
                web.get("/bundles", self._list),
                web.get("/search", self._search),
                web.get(f"/rules/{_KEY}", self._rule),
                web.get(f"/bundles/{_KEY}", self._bundle),
                web.get(f"/bundles/{_KEY}/log", self._log),
                web.get(f"/bundles/{_KEY}/plan", self._plan),
                web.get("/copies/{namespace}/{kind}/{name:[^/]+}", self._copy),
                web.get(f"/do/{{verb}}/{{what}}/{_KEY}", self._ask),
                web.post(f"/do/{{verb}}/{{what}}/{_KEY}", self._act),
                web.get("/events", self._events),
                web.get("/assets/{name}", self._asset),
            ]
        )
        return app

    def stop(self) -> None:
        """End the streams of events."""
        self._stopping.set()
        self.live.tell()

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if refusal := self._refusal(request):
            return web.Response(status=403, text=f"{refusal}\n")
        if "token" in request.query and request.path == "/":
            answer = _html(_OPENED)
            if self._is_token_of(request):
                self.opened = True
            answer.set_cookie(
                self._cookie, self._session, httponly=True, samesite="Strict", path="/"
            )
            return answer
        try:
            return await handler(request)
        except web.HTTPSeeOther:
            raise
        except web.HTTPException as error:
            return self._failed(request, error.reason, error.text or error.reason, error.status)
        except errors.NotFound as error:
            return self._failed(request, "Not Found", error.message, 404)
        except Exception as error:
            fault = error if isinstance(error, Fault) else fault_of(error)
            return self._failed(request, "Request failed", fault.format_message(), 502)

    @property
    def _cookie(self) -> str:
        """Its name; cookies of one host are sent to all of its ports."""
        return f"copyrator-ui-{self.port}"

    def _refusal(self, request: web.Request) -> str:
        """Why a request is refused; empty where it isn't."""
        hosts = {f"{ADDRESS}:{self.port}", f"localhost:{self.port}"}
        if request.host not in hosts:
            return f"This server answers only requests to {ADDRESS}:{self.port}."
        if request.method not in ("GET", "POST"):
            return "This server answers only GET and POST."
        origin = request.headers.get("Origin")
        foreign = origin is not None and origin not in {f"http://{host}" for host in hosts}
        if foreign or (request.method == "POST" and origin is None):
            return "This request doesn't come from a page of this server."
        known = _same(request.cookies.get(self._cookie, ""), self._session)
        if known or self._is_token_of(request):
            return ""
        if self.opened:
            return (
                "The URL that copyrator ui printed opens one session, and has been opened. "
                "For another, end copyrator ui with Ctrl-C and start it again; "
                "do so too if it wasn't you who opened it."
            )
        return "Open the URL that copyrator ui printed: it has the token that is missing here."

    def _is_token_of(self, request: web.Request) -> bool:
        """Whether a request opens the session: it has the token, which isn't spent."""
        if self.opened or (request.method, request.path) != ("GET", "/"):
            return False
        return _same(request.query.get("token", ""), self.token)

    async def _overview(self, request: web.Request) -> web.Response:
        seen, query = self.live.now, read_query(request.query)
        query = Query(namespace=query.namespace, kind=query.kind)
        view = overview(seen, datetime.now(UTC), None if query.is_empty else query.finder())
        return _html(self.pages.overview(seen, view, query, fragment=_is_fragment(request)))

    async def _list(self, request: web.Request) -> web.Response:
        seen, now, what = self.live.now, datetime.now(UTC), request.path[1:]
        rows = rule_rows(seen, now) if what == "rules" else bundle_rows(seen, now)
        listing = list_rows(rows, read_query(request.query))
        banners = list_banners(seen, now) if what == "bundles" else ()
        return _html(
            self.pages.list_objects(what, seen, listing, banners, fragment=_is_fragment(request))
        )

    async def _search(self, request: web.Request) -> web.Response:
        seen, now = self.live.now, datetime.now(UTC)
        copies = CopySearch(read_query(request.query))
        for _ in copies.scan(seen.copies):
            await asyncio.sleep(0)
        rules = rule_rows(seen, now)
        await asyncio.sleep(0)
        bundles = bundle_rows(seen, now)
        await asyncio.sleep(0)
        found = search(seen, rules, bundles, copies)
        await asyncio.sleep(0)
        return _html(self.pages.search(seen, found, fragment=_is_fragment(request)))

    async def _matrix(self, request: web.Request) -> web.Response:
        asked, seen = request.query, self.live.now
        view = View(
            rules=asked.get("rules", "").strip()[:200],
            namespaces=asked.get("namespaces", "").strip()[:200],
            only_faults=asked.get("faults") == "1",
            column_page=read_number(asked.get("page")),
            row_page=read_number(asked.get("from")),
        )
        table = matrix(seen, view, datetime.now(UTC))
        return _html(self.pages.matrix(seen, table, fragment=_is_fragment(request)))

    async def _rule(self, request: web.Request) -> web.Response:
        body = await self._object(request, "rules")
        events, missing = await self._events_of(names.RULE_KIND, body)
        seen, view = self.live.now, RuleView(body, datetime.now(UTC))
        html = self.pages.page(
            "rule.html",
            fragment=_is_fragment(request),
            title=f"Rule {view.name}",
            notice=self._notice_of(request),
            within="/rules",
            seen=seen,
            rule=RulePage(view, seen, read_filter(request.query)),
            events=event_rows(reversed(events), view.now),
            missing=missing,
            actions=list(actions_of("rules", body)),
        )
        return _html(html)

    async def _bundle(self, request: web.Request) -> web.Response:
        body, fragment = await self._object(request, "bundles"), _is_fragment(request)
        found, (events, missing) = await asyncio.gather(
            self._reader.read(body, self.log_timeout, is_opened=not fragment),
            self._events_of(names.BUNDLE_KIND, body),
        )
        found = replace(found, events=events, missing=missing)
        now = datetime.now(UTC)
        near = beside(body, self.live.now.beside, now)
        view = BundleView(body, now, self.installation, near)
        notice = self._notice_of(request)
        return _html(
            self.pages.bundle(self.live.now, view, found, fragment=fragment, notice=notice)
        )

    def _notice_of(self, request: web.Request) -> str:
        """What was done on the page before, once."""
        if _is_fragment(request):
            return ""
        return self._notices.pop(request.rel_url.raw_path, "")

    async def _object(self, request: web.Request, what: str) -> Mapping[str, Any]:
        """The object as the watch has it; a page of one that is gone says so."""
        seen, (namespace, name) = self.live.now, _key(request)
        found = seen.rules if what == "rules" else seen.bundles
        if body := found.get(ObjectName(namespace, name)):
            return body
        text = f"there is no {SINGULAR[what]} {name} in the namespace {namespace}"
        for denied in seen.denied:
            if denied.startswith(RESOURCES[what].key):
                text += f", as far as you may see: you have no permission to list {denied}"
        raise web.HTTPNotFound(text=text)

    async def _events_of(
        self, kind: str, body: Mapping[str, Any]
    ) -> tuple[list[dict[str, Any]], str]:
        """The newest Events, and why they are missing, if they are."""
        try:
            async with asyncio.timeout(self.log_timeout):
                return (await events_of(self.client, kind, body))[-20:], ""
        except errors.Forbidden:
            return [], "Events aren't shown, because you have no permission to list them."
        except (errors.ApiError, TimeoutError):
            return [], "Events aren't shown: the API server didn't answer."

    async def _log(self, request: web.Request) -> web.Response:
        body = await self._object(request, "bundles")
        parts = await logs.redacted_parts(self.client, body)
        namespace, name = _key(request)
        title = f"The newest log of Bundle {namespace}/{name}"
        return _html(self.pages.texts(title, parts, back=request.path.removesuffix("/log")))

    async def _copy(self, request: web.Request) -> web.Response:
        (namespace, name), kind = _key(request), request.match_info["kind"]
        copy, remark = None, ""
        events: tuple[list[dict[str, Any]], str] = [], ""
        try:
            async with asyncio.timeout(WHY_TIMEOUT):
                found = await why.answer(self.target, namespace, name, kind, self.home)
            remark = " ".join(filter(None, (*found.down, found.remark)))
            if found.copy is None:  # it is a rule or a Bundle
                what = "rules" if means(kind, "rules") else "bundles"
                return web.Response(
                    status=303,
                    headers={"Location": f"/{what}/{segment(namespace)}/{segment(name)}"},
                )
            copy = CopyPage(found.copy, datetime.now(UTC))
        except TimeoutError:
            remark = f"It wasn't found out within {WHY_TIMEOUT:g} s why it is as it is."
        except (errors.ApiError, Fault) as error:
            fault = error if isinstance(error, Fault) else fault_of(error)
            remark = f"It isn't known why it is as it is: {fault.format_message()}"
        if copy is not None and copy.answer.metadata is not None:
            events = await self._events_of(kind, {"metadata": copy.answer.metadata})
        html = self.pages.page(
            "copy.html",
            title=f"{kind} {namespace}/{name}",
            live=False,  # each answer takes many requests
            copy=copy,
            remark=remark,
            events=event_rows(reversed(events[0]), datetime.now(UTC)),
            missing=events[1],
            most=SHARED,
        )
        return _html(html)

    async def _ask(self, request: web.Request) -> web.Response:
        verb, what = _verb(request)
        body = await self._object(request, what)
        if verb in DECISIONS:
            return await self._decision(request, body, may_decide=True)
        return await self._confirm(request, body)

    async def _confirm(
        self, request: web.Request, body: Body, refused: str = "", reason: str = ""
    ) -> web.Response:
        """The question before something is written, or why it can't be done."""
        (verb, what), question = _verb(request), None
        try:
            question = ask(verb, what, body)
            barred = await self._barred(check_may_change(self.client, what, body))
        except Fault as fault:
            barred = fault.format_message()
        html = self.pages.confirm(
            f"{title_of(verb)} {shown(what, body)}?",
            question=question,
            barred=barred,
            refused=refused,
            reason=reason,
            path=request.path,
            token=self._form,
            button=words_of(verb),
            back=_page_of(request),
        )
        return web.Response(text=html, status=409 if refused else 200, content_type="text/html")

    async def _barred(self, check: Awaitable[None]) -> str:
        """Which permission the user lacks; empty also where that isn't found out in time."""
        try:
            with suppress(errors.ApiError, TimeoutError):
                async with asyncio.timeout(self.log_timeout):
                    await check
        except Fault as fault:
            return fault.format_message()
        return ""

    async def _plan(self, request: web.Request) -> web.Response:
        return await self._decision(request, await self._object(request, "bundles"))

    async def _decision(
        self, request: web.Request, body: Body, *, may_decide: bool = False, refused: str = ""
    ) -> web.Response:
        """The page of a plan; what is in its log only is missing without an answer in time."""
        barred = ""
        if may_decide:
            barred = await self._barred(check_permission(self.client, APPROVE, body))
        found = PlanView(
            BundleView(body, datetime.now(UTC)),
            PlanLog(fault=f"its log wasn't read within {self.log_timeout:g} s"),
        )
        with suppress(TimeoutError):
            async with asyncio.timeout(self.log_timeout):
                found = await read_plan(self.client, body)
        values = await asyncio.to_thread(
            decision_values, found, read_number(request.query.get("page"))
        )
        html = self.pages.decision(
            self.live.now,
            values,
            token=self._form if may_decide and not barred else "",
            barred=barred,
            shown=ShownPlan.of(body),
            place="/".join(("bundles", *map(segment, _key(request)))),
            refused=refused,
        )
        return web.Response(text=html, status=409 if refused else 200, content_type="text/html")

    async def _act(self, request: web.Request) -> web.Response:
        """Do it, and lead back to the object; where it can't be done, ask again and say why."""
        verb, what = _verb(request)
        form: Body = {}
        if request.content_type == _FORM:
            with suppress(ValueError, LookupError):  # of an unknown encoding
                form = await request.post()
        if not _same(str(form.get("token", "")), self._form):
            text = "This form isn't from this page; open it again."
            return self._failed(request, "Refused", text, 403)
        key, page = _key(request), _page_of(request)
        given = {name: str(value) for name, value in form.items()}
        try:
            if verb in DECISIONS:
                shown_plan = ShownPlan(
                    *(given.get(name, "") for name in ("uid", "plan", "decision"))
                )
                done = await decide(self.client, verb, key, shown_plan)
            else:
                answer = Answer(*(given.get(name, "") for name in Answer._fields))
                done = await act(self.client, verb, what, key, answer)
        except Fault as fault:
            refused, body = fault.format_message(), await one(self.client, what, *key)
            if verb in DECISIONS:
                return await self._decision(request, body, may_decide=True, refused=refused)
            return await self._confirm(request, body, refused, given.get("reason", ""))
        self._notices[page] = done
        raise web.HTTPSeeOther(page)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        """Send a page an event when something has changed, at most once in `settle` seconds.

        Without a change it is sent after QUIET seconds, since it shows ages.
        """
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        seen = self.live.version
        with suppress(ConnectionError):
            await answer.write(b": open\n\n")
            while not self._stopping.is_set():
                seen = await self.live.wait(seen, QUIET)
                await answer.write(b"event: changed\ndata:\n\n")
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), self.settle)
        return answer

    async def _asset(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in _TYPES:
            raise web.HTTPNotFound
        return web.Response(
            body=(_ASSETS / name).read_bytes(), content_type=_TYPES[name], charset="utf-8"
        )

    def _failed(self, request: web.Request, title: str, message: str, status: int) -> web.Response:
        parts = [("Error", message)]
        html = self.pages.texts(title, parts, back="/", fragment=_is_fragment(request))
        return web.Response(text=html, status=status, content_type="text/html")


async def _protect(_request: web.Request, answer: web.StreamResponse) -> None:
    answer.headers.update(_HEADERS)


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())


def _html(text: str) -> web.Response:
    return web.Response(text=text, content_type="text/html")


def _is_fragment(request: web.Request) -> bool:
    return request.headers.get("X-Fragment") == "main"


def _key(request: web.Request) -> tuple[str, str]:
    return request.match_info["namespace"], request.match_info["name"]


def _verb(request: web.Request) -> tuple[str, str]:
    """The verb, and the kind of the object."""
    verb, what = request.match_info["verb"], request.match_info["what"]
    if what not in RESOURCES or not (
        is_verb(verb, what) or (verb in DECISIONS and what == "bundles")
    ):
        raise web.HTTPNotFound
    return verb, what


def _page_of(request: web.Request) -> str:
    """The object's page: the path without the verb, as it was sent."""
    return "/" + request.rel_url.raw_path.split("/", 3)[3]
