"""Which URLs may be used, and that nothing of them is said."""

import re

import pytest

from copyrator.notify.sending import SERVICES, check_url
from demo.chart import ROOT

TOKEN = "hidden-token"
PAGE = (ROOT / "docs" / "notifications.md").read_text()


@pytest.mark.parametrize(
    "url",
    [
        f"https://example.com/{TOKEN}?x=1",
        "http://receiver.prod.svc:8080/",
        f"slack://{TOKEN}/B/C/#deploys",
        f"slack://{TOKEN}/B/C/#template?footer=no",
        f"mmosts://chat.example.com/{TOKEN}",
        f"mailtos://user:{TOKEN}@example.com?to=ops@example.com",
        f"TGRAM://{TOKEN}/123",
    ],
)
def test_services_and_webhooks_may_be_used(url):
    assert check_url(url) is None


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (f"dbus://{TOKEN}", "(dbus isn't)"),
        ("gnome://", "(gnome isn't)"),
        ("macosx://", "(macosx isn't)"),
        ("windows://", "(windows isn't)"),
        ("syslog://", "(syslog isn't)"),
        (f"rsyslog://{TOKEN}", "(rsyslog isn't)"),
        (f"file:///{TOKEN}", "(file isn't)"),
        (f"json://{TOKEN}", "(json isn't)"),
        (f"{TOKEN}", "(none isn't)"),
        ("", "(none isn't)"),
        (f"x-{TOKEN}://a", "(that it has isn't)"),
        (f"https://user:{TOKEN}@example.com/", "has a user name"),
        ("https://", "has no host"),
        ("https:///path", "has no host"),
        (f"https://[{TOKEN}", "isn't a URL"),
        (f"https://a/{TOKEN}\n", "isn't a URL"),
        ("https://a/" + "x" * 5000, "isn't a URL"),
        (f"slack://{TOKEN}?template=/etc/passwd", "parameter template"),
        (f"ntfy://{TOKEN}?attach=file:///etc/passwd", "parameter attach"),
        (f"mailto://{TOKEN}?pgpkey=/etc/x", "parameter pgpkey"),
        (f"mmost://{TOKEN}?redirect=yes", "parameter redirect"),
        (f"mmost://{TOKEN}?Redirect=yes", "parameter redirect"),
        (f"slack://{TOKEN}?a=1;template=/etc/passwd", "parameter template"),
        (f"slack://{TOKEN}/#deploys?template=/etc/passwd", "parameter template"),
        (f"slack://{TOKEN}?%20template%20=/etc/passwd", "parameter template"),
        (f"slack://{TOKEN}?%2574emplate=/etc/passwd", "parameter template"),
        (f"slack://{TOKEN}%3Ftemplate=/etc/passwd", "parameter template"),
    ],
)
def test_others_are_refused_without_quoting_them(url, said):
    fault = check_url(url)
    assert fault is not None
    assert said in fault
    assert TOKEN not in fault


def test_nothing_that_acts_on_the_machine_is_allowed():
    local = {"dbus", "qt", "glib", "kde", "gnome", "macosx", "windows", "syslog", "blink1"}
    assert not SERVICES & (local | {"json", "xml", "form", "apprise", "rsyslog", "file"})


CHATS = {
    f"https://hooks.slack.com/services/T/B/{TOKEN}": "slack",
    f"https://hooks.slack.com/triggers/T/B/{TOKEN}": "slack",
    f"https://hooks.slack.com/workflows/T/A/B/{TOKEN}": "slack",
    f"https://hooks.slack-gov.com/services/T/B/{TOKEN}": "slack",
    f"HTTPS://HOOKS.SLACK.COM/services/T/B/{TOKEN}": "slack",
    f"https://hooks.slack.com./services/T/B/{TOKEN}": "slack",
    f"https://hooks%2Eslack.com/services/T/B/{TOKEN}": "slack",  # as urllib reads it
    f"https://hooks.slack\u3002com/services/T/B/{TOKEN}": "slack",
    f"https://slack.com/api/chat.postMessage?token={TOKEN}": "slack",
    f"http://hooks.slack.com/services/T/B/{TOKEN}": "slack",
    f"https://Discord.com:443/api/webhooks/1/{TOKEN}": "discord",
    f"https://ptb.discord.com/api/webhooks/1/{TOKEN}": "discord",
    f"https://canary.discord.com/api/webhooks/1/{TOKEN}": "discord",
    f"https://discordapp.com/api/webhooks/1/{TOKEN}": "discord",
    f"https://chat.googleapis.com/v1/spaces/A/messages?key=K&token={TOKEN}": "gchat",
    f"https://defaultabc.4f.environment.api.powerplatform.com:443/x?sig={TOKEN}": "workflow",
    f"https://abc.4f.environment.api.gov.powerplatform.microsoft.us/x?sig={TOKEN}": "workflow",
    f"https://abc.4f.environment.api.high.powerplatform.microsoft.us/x?sig={TOKEN}": "workflow",
    f"https://abc.4f.environment.api.appsplatform.us/x?sig={TOKEN}": "workflow",
    f"https://a.api.powerplatform.partner.microsoftonline.cn/x?sig={TOKEN}": "workflow",
    f"https://prod-161.westeurope.logic.azure.com:443/workflows/a?sig={TOKEN}": "workflow",
    f"https://prod-01.usgovvirginia.logic.azure.us:443/workflows/a?sig={TOKEN}": "workflow",
    f"https://prod-01.chinaeast2.logic.azure.cn/workflows/a?sig={TOKEN}": "workflow",
    f"https://example.webhook.office.com/webhookb2/{TOKEN}": "workflow",
    f"https://Example.WEBHOOK.office.com./webhookb2/{TOKEN}": "workflow",
    f"https://example.webhook.office365.us/webhookb2/{TOKEN}": "workflow",
    f"https://outlook.office.com/webhook/{TOKEN}": "workflow",
    f"https://open.feishu.cn/open-apis/bot/v2/hook/{TOKEN}": "feishu",
    f"https://open.larksuite.com/open-apis/bot/v2/hook/{TOKEN}": "lark",
    f"https://oapi.dingtalk.com/robot/send?access_token={TOKEN}": "dingtalk",
    f"https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key={TOKEN}": "wecombot",
    f"https://webexapis.com/v1/webhooks/incoming/{TOKEN}": "webex",
    f"https://api.ciscospark.com/v1/webhooks/incoming/{TOKEN}": "webex",
    f"https://integrations.zoom.us/chat/webhooks/incomingwebhook/{TOKEN}": "zoom",
    f"https://inbots.zoom.us/incoming/hook/{TOKEN}": "zoom",
    f"https://integrations.zoomgov.com/chat/webhooks/incomingwebhook/{TOKEN}": "zoom",
    f"https://api.telegram.org/bot{TOKEN}/sendMessage": "tgram",
}
"""URLs as services give them to people, and the scheme to use instead."""


@pytest.mark.parametrize(("url", "scheme"), CHATS.items(), ids=[url[:60] for url in CHATS])
def test_a_chat_that_takes_no_cloud_events_is_refused_with_the_scheme_to_use(url, scheme):
    fault = check_url(url)
    assert fault is not None
    assert f"write it as {scheme}://…" in fault
    assert scheme in SERVICES
    assert TOKEN not in fault


@pytest.mark.parametrize(
    "url",
    [
        f"https://hooks.zapier.com/hooks/catch/1/{TOKEN}/",
        f"https://hooks.slack.com.example.org/services/{TOKEN}",
        f"https://notslack.com/{TOKEN}",
        f"https://discord.com.internal/{TOKEN}",
        f"https://example.com/hooks.slack.com/{TOKEN}",
        f"https://pubsub.googleapis.com/{TOKEN}",
        f"https://azure.com/{TOKEN}",
        f"https://eventgrid.azure.net/{TOKEN}",
        f"https://www.office.com/{TOKEN}",
        f"https://events.pagerduty.com/{TOKEN}",
        "http://broker-ingress.knative-eventing.svc.cluster.local/prod/default",
        "https://chat.example.com./hooks/x",
        "http://10.0.0.1:8080/",
        "http://[fd00::1]:8080/",
    ],
)
def test_automation_services_brokers_and_own_hosts_take_cloud_events(url):
    assert check_url(url) is None


def test_the_page_has_the_form_of_each_chat():
    rows = re.findall(
        r"^  \| .*`(https://\S+)`.* \| (?:`(\w+)://\S+`|make.*) \|$", PAGE, re.MULTILINE
    )
    assert {scheme for _, scheme in rows} >= set(CHATS.values())
    for url, scheme in rows:
        if "chat.example.com" not in url:
            assert f"write it as {scheme or 'workflow'}://" in (check_url(url) or ""), url
