"""Sends one message, in a child process: Apprise is imported there only.

A URL has tokens in it, and so may the errors of a library: of these only the type and the status
code are kept. Redirects aren't followed, as they could lead to addresses inside the cluster.
"""

# ruff: noqa: PLC0415 - the libraries are loaded in the child process, and for the service that
# is used

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, replace
from email.message import Message as Headers
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, unquote, urlsplit

from copyrator.notify.messages import Message
from copyrator.tls import clear_strict_in_libraries, create_context

SEND_SECONDS: Final = 20.0
"""Seconds without an answer after which sending a notification has failed."""

_MAX_ANSWER: Final = 64 * 1024
"""Bytes of an answer that are read: Apprise needs little of it."""

MAX_URL: Final = 4096
"""Characters of a URL of notifications."""

SIGNATURE: Final = "X-Signature"
EVENT_TYPE: Final = "io.copyrator.notification"
WEBHOOKS: Final = ("https", "http")
SERVICES: Final = frozenset(
    """
    betterstack brevo cliq dingtalk discord feishu firehydrant flock gchat github goalert
    goalerts gotify gotifys guilded hassio hassios humhub humhubs ilert incidentio jira lark
    line mailersend mailgun mailto mailtos matrix matrixs mmost mmosts nctalk nctalks ntfy ntfys
    o365 opsgenie pagerduty pagertree pbul postmark pover resend revolt ringc rocket rockets
    ryver sendgrid ses signal signals signl4 slack smtp2go sns sparkpost spike splunk squadcast
    synology synologys tgram threema twilio twist victorops vonage webex wecombot workflow
    workflows wxteams xmatters zoom zulip
    """.split()  # noqa: SIM905 - shorter than a line for each
)
"""Schemes of Apprise that may be used: services elsewhere. Others act on the machine (dbus, gnome,
macosx, windows, syslog), load code or files, or aren't needed."""
_CHATS: Final = {
    "slack": "slack.com slack-gov.com",
    "discord": "discord.com discordapp.com",
    "gchat": "chat.googleapis.com",
    "workflow": (
        "logic.azure.com logic.azure.us logic.azure.cn powerplatform.com powerplatform.us "
        "powerplatform.microsoft.us appsplatform.us powerplatform.partner.microsoftonline.cn"
    ),
    "feishu": "open.feishu.cn",
    "lark": "open.larksuite.com",
    "dingtalk": "dingtalk.com",
    "wecombot": "qyapi.weixin.qq.com",
    "webex": "webexapis.com api.ciscospark.com",
    "zoom": "zoom.us zoomgov.com",
    "tgram": "api.telegram.org",
}
"""By a service's scheme, domains whose webhooks take no CloudEvents.

Many of them answer 2xx to any JSON, so a message would be lost and count as sent."""
_CONNECTORS: Final = (
    "webhook.office.com webhook.office365.us outlook.office.com outlook.office365.com "
    "outlook.office365.us"
)
"""Domains of Teams' connectors, which no scheme of Apprise's sends to."""
_REFUSED: Final = frozenset(
    """
    attach attach-as attach_as filename template pgp pgpkey pgppub pgpprv pem wkd vapid keyfile
    subfile redirect retry wait rto cto
    """.split()  # noqa: SIM905
)
"""Parameters of Apprise's URLs that read files, follow redirects or wait longer."""
_FORMS: Final = " (docs/notifications.md, Receivers)"
_SEPARATORS: Final = re.compile(r"[?&;#]")
MISSING: Final = (
    "the operator lacks the extra `notify`: set image.variant of the chart to keyless or clouds, "
    "or install copyrator[notify]"
)


@dataclass(frozen=True, slots=True)
class SendResult:
    """The outcome of one try."""

    fault: str = ""
    """Why it failed, without anything of the URL; empty: it was sent."""
    code: int = 0
    """The HTTP status; 0 without one."""
    retry_after: float = 0.0
    """Seconds that the server wants to be left alone."""
    is_refused: bool = False
    """The text was refused for good, so the same one isn't sent again."""


@dataclass(frozen=True, slots=True)
class Order:
    """One message to one receiver."""

    url: str
    key: bytes | None
    """Of the signature."""
    source: str
    """Of the CloudEvent."""
    proxies: Mapping[str, str]
    """As in ``urllib.request.getproxies_environment``."""
    ca: str = ""
    """A file of further CAs, as in SSL_CERT_FILE."""


def check_url(url: str) -> str | None:
    """Why a URL can't be used, without quoting it; None where it can. Loads nothing."""
    if len(url) > MAX_URL or not url.isprintable() or " " in url:
        return f"isn't a URL: it has blanks, control characters or over {MAX_URL} characters"
    try:
        parts = urlsplit(url)
        scheme = parts.scheme.lower()
        usable = bool(parts.netloc or parts.path.strip("/"))
    except ValueError:
        return "isn't a URL"
    if scheme not in SERVICES and scheme not in WEBHOOKS:
        known = scheme if scheme.isalnum() and len(scheme) < 20 else "that it has"
        return (
            f"has no scheme that is allowed ({known if scheme else 'none'} isn't); use https for a "
            "webhook, or a service that docs/notifications.md lists"
        )
    if not usable or (scheme in WEBHOOKS and not parts.hostname):
        return "has no host"
    if scheme in WEBHOOKS:
        return _fault_of_webhook(parts)
    refused = _refused_parameter(url)
    return f"has the parameter {refused}, which isn't allowed; remove it" if refused else None


def _fault_of_webhook(parts: SplitResult) -> str | None:
    if "@" in parts.netloc:
        return "has a user name, which a webhook's can't have; remove it"
    try:  # as urllib and the resolver read it
        host = unquote(parts.hostname or "").encode("idna").decode().lower().rstrip(".")
    except UnicodeError:
        return "has a host that is no name"
    for scheme, domains in _CHATS.items():
        if _is_within(host, domains):
            return f"is of a chat that takes no CloudEvents; write it as {scheme}://…{_FORMS}"
    if _is_within(host, _CONNECTORS):
        return (
            "is of a connector of Teams, which takes no CloudEvents; have Teams' Workflows make a "
            f"webhook, and write it as workflow://…{_FORMS}"
        )
    return None


def _is_within(host: str, domains: str) -> bool:
    return any(f".{host}".endswith(f".{domain}") for domain in domains.split())


def _refused_parameter(url: str) -> str:
    """A parameter that isn't allowed; empty without one.

    Apprise takes ``;`` as ``&``, ``#`` as a part of the path, and removes blanks around a name.
    """
    pieces = [piece for text in (url, unquote(url)) for piece in _SEPARATORS.split(text)[1:]]
    names = (unquote(piece.partition("=")[0]) for piece in pieces if "=" in piece)
    return min({name.strip(" +-:\t\r\n").lower() for name in names} & _REFUSED, default="")


def send(order: Order, message: Message) -> SendResult:
    """Send a message; never raises, and says nothing of the URL.

    For a child process: it blocks, and sets the proxies for the whole process.
    """
    if (fault := check_url(order.url)) is not None:
        return SendResult(f"the URL {fault}")
    for name, value in order.proxies.items():
        os.environ[f"{name}_proxy"] = value
    try:
        _trust(order.ca)
        if urlsplit(order.url).scheme.lower() in WEBHOOKS:
            return _post(order, message)
        return _notify(order, message)
    except ImportError:
        return SendResult(MISSING)
    except Exception as error:
        return SendResult(f"it failed with {type(error).__name__}")


def _trust(ca: str) -> None:
    """Trust these CAs besides the public ones; a receiver may have a company's certificate."""
    if not ca or "SSL_CERT_FILE" in os.environ:
        return
    import certifi

    together = os.memfd_create("ca")  # the file system may be read-only
    with open(together, "wb", closefd=False) as file:
        file.write(f"{certifi.contents()}\n".encode() + Path(ca).read_bytes())
    # OpenSSL reads the first one, requests the second one.
    os.environ["SSL_CERT_FILE"] = os.environ["REQUESTS_CA_BUNDLE"] = f"/proc/self/fd/{together}"


# CloudEvents -------------------------------------------------------------------------------------


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def _post(order: Order, message: Message) -> SendResult:
    from cloudevents.core.bindings.http import to_structured
    from cloudevents.core.formats.json import JSONFormat
    from cloudevents.core.v1.event import CloudEvent

    attributes = {"id": message.id, "source": order.source, "type": EVENT_TYPE}
    attributes["datacontenttype"] = "application/json"
    if message.subject:
        attributes["subject"] = message.subject
    event = to_structured(CloudEvent(attributes, message.data), JSONFormat())
    headers = {"Content-Type": "application/cloudevents+json", "User-Agent": "copyrator"}
    if order.key is not None:
        digest = hmac.new(order.key, event.body, hashlib.sha256).hexdigest()
        headers[SIGNATURE] = f"sha256={digest}"
    request = urllib.request.Request(  # noqa: S310 - check_url has checked the scheme
        order.url, data=event.body, headers=headers, method="POST"
    )
    secure = urllib.request.HTTPSHandler(context=create_context())
    opener = urllib.request.build_opener(_NoRedirects(), secure)
    try:
        with opener.open(request, timeout=SEND_SECONDS) as answer:
            return _judge(answer.status, _titled(answer.headers))
    except urllib.error.HTTPError as error:
        with error:
            return _judge(error.code, _titled(error.headers))
    except urllib.error.URLError as error:
        reason = error.reason if isinstance(error.reason, Exception) else error
        return SendResult(f"it failed with {type(reason).__name__}")


def _titled(headers: Headers) -> dict[str, str]:
    return {name.title(): value for name, value in headers.items()}


def _judge(code: int, headers: Mapping[str, str]) -> SendResult:
    if 200 <= code < 300:
        return SendResult(code=code)
    fault = f"the server answered {code}"
    if 300 <= code < 400:
        fault += ", a redirect, which isn't followed: use the final URL"
    return SendResult(fault, code, _retry_after(headers))


def _retry_after(headers: Mapping[str, str]) -> float:
    from copyrator.api.text import parse_retry_after

    found = parse_retry_after(headers.get("Retry-After", ""), headers)
    return min(max(found or 0.0, 0.0), 3600.0)


# Apprise -----------------------------------------------------------------------------------------


class _Witness:
    """Has requests follow no redirect, and keeps the last status: Apprise returns neither."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.code = 0
        self.retry_after = 0.0
        self.is_refused = False

    def install_smtp(self) -> None:
        from smtplib import SMTP

        plain, of_data = SMTP.getreply, SMTP.data

        def getreply(smtp: Any) -> tuple[int, bytes]:
            code, text = plain(smtp)
            if code >= 400:
                self.code = code
            return code, text

        def data(smtp: Any, text: Any) -> tuple[int, bytes]:
            code, said = of_data(smtp, text)
            self.is_refused |= code >= 500
            return code, said

        SMTP.getreply = getreply  # type: ignore[method-assign, assignment]
        SMTP.data = data  # type: ignore[method-assign, assignment]

    def install_http(self) -> None:
        from requests import Session
        from requests.adapters import HTTPAdapter

        plain, of_adapter = Session.send, HTTPAdapter.send

        def send(session: Any, request: Any, **options: Any) -> Any:
            options["allow_redirects"] = False
            options["timeout"] = SEND_SECONDS / 2  # to connect, and without any byte
            answer = plain(session, request, **options)
            self.code = int(answer.status_code)
            self.retry_after = _retry_after(answer.headers)
            return answer

        def receive(adapter: Any, request: Any, *args: Any, **options: Any) -> Any:
            answer = of_adapter(adapter, request, *args, **options)
            with answer.raw:  # never the whole of it, which may have no end
                answer._content = answer.raw.read(_MAX_ANSWER, decode_content=True)
            return answer

        HTTPAdapter.send = receive  # type: ignore[method-assign, assignment]
        Session.send = send  # type: ignore[method-assign, assignment]


_witness: _Witness | None = None


def _notify(order: Order, message: Message) -> SendResult:
    global _witness  # noqa: PLW0603 - one process, one patched library
    from apprise import (
        Apprise,
        AppriseAsset,
        NotifyFormat,
        NotifyType,
        OverflowMode,
        PersistentStoreMode,
    )

    logging.disable()  # its lines have parts of URLs
    if _witness is None:
        clear_strict_in_libraries()
        _witness = _Witness()
        _witness.install_http()
        _witness.install_smtp()
    _witness.forget()
    asset = AppriseAsset(
        app_id="Copyrator",
        app_desc="Copyrator",
        app_url="",
        image_url_mask="",  # pictures of Apprise's on a third party's server
        image_url_logo="",
        async_mode=False,
        http_redirects=False,
        storage_mode=PersistentStoreMode.MEMORY,
        pgp_autogen=False,
        pem_autogen=False,
        allow_templates=False,
        service_timeout=SEND_SECONDS,
    )
    service = Apprise.instantiate(order.url, asset=asset)
    if service is None:
        return SendResult("the URL isn't complete for its service")
    service.redirects = False
    if service.overflow_mode == OverflowMode.UPSTREAM:
        service.overflow_mode = OverflowMode.TRUNCATE  # a text that is too long is refused for ever
    sender = Apprise(asset=asset)
    sender.add(service)
    done = sender.notify(
        message.text,
        title=message.title,
        notify_type=NotifyType(message.severity),
        body_format=NotifyFormat.TEXT,
    )
    if done:
        return SendResult(code=_witness.code)
    if _witness.code >= 300:
        answer = _judge(_witness.code, {"Retry-After": str(_witness.retry_after)})
        return replace(answer, is_refused=_witness.is_refused)
    said = f"it answered {_witness.code}" if _witness.code else "it refused it, or can't be reached"
    return SendResult(f"the service didn't take it: {said}", _witness.code)
