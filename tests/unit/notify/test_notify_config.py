"""The ConfigMap of notifications and its URLs: what is used, and what is said of the rest."""

import json
import re

import pytest
import yaml

from copyrator.notify.config import (
    KEY,
    NO_CONFIG,
    NOTIFICATION_ENTRIES,
    NOTIFICATIONS_BYTES,
    About,
    SecretRef,
    SubjectKind,
    read_config,
)
from copyrator.notify.sending import SERVICES, check_url
from demo.chart import ROOT

PAGE = (ROOT / "docs" / "notifications.md").read_text()
URL = {"secretName": "chat", "key": "url"}
CHAT = {"name": "chat", "urlFrom": URL}


def read(whole):
    return read_config({KEY: whole if isinstance(whole, str) else yaml.safe_dump(whole)})


def test_without_a_config_map_nobody_is_told():
    assert read_config(None) == NO_CONFIG


def test_an_entry_has_all_that_is_written():
    config = read(
        {
            "link": "https://example.com/{kind}?ns={namespace}&n={name}",
            "entries": [
                {
                    **CHAT,
                    "about": ["Deployed", "Drifted"],
                    "namespaces": ["prod-*"],
                    "kinds": ["Bundle"],
                    "minInterval": "1m",
                    "signWith": {"secretName": "chat", "key": "hmac"},
                }
            ],
        }
    )
    assert config.faults == ()
    (entry,) = config.entries
    assert entry.url_from == SecretRef("chat", "url")
    assert entry.sign_with == SecretRef("chat", "hmac")
    assert entry.min_interval == 60.0
    assert entry.wants(About.DEPLOYED, SubjectKind.BUNDLE, "prod-eu")
    assert not entry.wants(About.DEPLOY_FAILED, SubjectKind.BUNDLE, "prod-eu")
    assert not entry.wants(About.DEPLOYED, SubjectKind.RULE, "prod-eu")
    assert not entry.wants(About.DEPLOYED, SubjectKind.BUNDLE, "test")
    link = config.link_to(SubjectKind.BUNDLE, "prod", "a b&c")
    assert link == "https://example.com/Bundle?ns=prod&n=a%20b%26c"


def test_an_entry_is_told_about_everything_where_it_names_nothing():
    (entry,) = read({"entries": [CHAT]}).entries
    assert all(entry.wants(about, kind, "any") for about in About for kind in SubjectKind)
    assert entry.min_interval == 10.0, "one flapping object isn't a stream of messages"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": None}, "entries[0].name: is required"),
        ({"name": "a b"}, "entries[0].name: must be a name"),
        ({"name": "a" * 64}, "entries[0].name: must be a name"),
        ({"urlFrom": None}, "entries[0].urlFrom: is required: secretName and key"),
        ({"urlFrom": {"secretName": "../x", "key": "url"}}, "urlFrom.secretName: must be a name"),
        ({"urlFrom": "https://example.com/?token=hidden"}, "entries[0].urlFrom: must be a map"),
        ({"about": ["Everything"]}, "entries[0].about[0]: 'Everything' isn't one of Deployed"),
        ({"about": ["drifted"]}, "; did you mean Drifted?"),
        ({"about": "Deployed"}, "entries[0].about: must be a list"),
        ({"kinds": ["Secret"]}, "entries[0].kinds[0]: 'Secret' isn't one of Bundle"),
        ({"minInterval": 60}, "entries[0].minInterval: must be a duration"),
        ({"namespaces": ["a" * 64]}, "entries[0].namespaces[0]: must have at most 63"),
        (
            {"url": "https://example.com"},
            "entries[0].url: is unknown; an entry has name, urlFrom, about",
        ),
        ({"signWith": {}}, "entries[0].signWith.secretName: is required"),
    ],
)
def test_a_fault_is_named_and_the_other_entries_are_used(change, said):
    config = read({"entries": [{**CHAT, **change}, {**CHAT, "name": "other"}]})
    assert [one.name for one in config.entries] == ["other"]
    (fault,) = config.faults
    assert said in fault
    assert "hidden" not in fault


@pytest.mark.parametrize(
    ("whole", "said"),
    [
        ("", ""),
        ("- a", "must be a map, not a list"),
        ("a: [", "isn't valid YAML in line"),
        ("!!python/object:os.system x", "isn't valid YAML"),
        ("entries: 7", "entries: must be a list"),
        ("surprise: 1", "surprise: is unknown"),
        ("a: " + "[" * 5000, "isn't valid YAML"),
        ("#" * (NOTIFICATIONS_BYTES + 1), "has over 65,536 characters"),
        ("link: ftp://example.com", "link: must begin with https://"),
        ("link: 'https://example.com/{secret}'", "takes only {kind}, {namespace} and {name}"),
        ("link: 'https://example.com/<!channel>'", "without blanks, quotes and brackets"),
    ],
)
def test_nonsense_is_said_and_never_raised(whole, said):
    config = read(whole)
    assert config.entries == ()
    assert config.link == ""
    assert any(said in fault for fault in config.faults) or not said


def test_data_without_the_key_is_a_fault():
    assert "is missing" in read_config({}).faults[0]


def test_names_are_unique_and_entries_bounded():
    twice = read({"entries": [CHAT, CHAT]})
    assert len(twice.entries) == 1
    assert "is taken by another entry" in twice.faults[0]
    many = read({"entries": [{**CHAT, "name": f"e{i}"} for i in range(NOTIFICATION_ENTRIES + 1)]})
    assert len(many.entries) == NOTIFICATION_ENTRIES
    assert "those after the first 50 aren't used" in many.faults[0]


def test_the_example_has_no_fault_and_is_the_one_of_the_page():
    text = (ROOT / "examples" / "notifications.yaml").read_text()
    assert text in PAGE
    secret, config_map = yaml.safe_load_all(text)
    config = read_config(config_map["data"])
    assert config.faults == ()
    assert len(config.entries) == 3
    refs = [ref for one in config.entries for ref in (one.url_from, one.sign_with) if ref]
    assert {ref.key for ref in refs} == secret["stringData"].keys()


def test_the_charts_schema_has_all_that_can_be_told():
    schema = json.loads((ROOT / "charts" / "copyrator" / "values.schema.json").read_text())
    notifications = schema["properties"]["notifications"]["properties"]
    entry = notifications["entries"]["items"]["properties"]
    assert entry["about"]["items"]["enum"] == list(About)
    assert entry["kinds"]["items"]["enum"] == [kind.value for kind in SubjectKind]
    assert notifications["entries"]["maxItems"] == NOTIFICATION_ENTRIES


def test_the_page_lists_the_allowed_services():
    listed = PAGE.split("which documents each of them:")[1].split("Schemes that act")[0]
    assert set(re.findall(r"`(\w+)`", listed)) == SERVICES


TOKEN = "hidden-token"


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
    f"https://hooks.slack-gov.com/services/T/B/{TOKEN}": "slack",
    f"HTTPS://HOOKS.SLACK.COM/services/T/B/{TOKEN}": "slack",
    f"https://hooks.slack.com./services/T/B/{TOKEN}": "slack",
    f"https://hooks%2Eslack.com/services/T/B/{TOKEN}": "slack",  # as urllib reads it
    f"https://hooks.slack\u3002com/services/T/B/{TOKEN}": "slack",
    f"https://Discord.com:443/api/webhooks/1/{TOKEN}": "discord",
    f"https://discordapp.com/api/webhooks/1/{TOKEN}": "discord",
    f"https://chat.googleapis.com/v1/spaces/A/messages?key=K&token={TOKEN}": "gchat",
    f"https://defaultabc.4f.environment.api.powerplatform.com:443/x?sig={TOKEN}": "workflow",
    f"https://abc.4f.environment.api.gov.powerplatform.microsoft.us/x?sig={TOKEN}": "workflow",
    f"https://abc.4f.environment.api.appsplatform.us/x?sig={TOKEN}": "workflow",
    f"https://a.api.powerplatform.partner.microsoftonline.cn/x?sig={TOKEN}": "workflow",
    f"https://prod-161.westeurope.logic.azure.com:443/workflows/a?sig={TOKEN}": "workflow",
    f"https://prod-01.usgovvirginia.logic.azure.us:443/workflows/a?sig={TOKEN}": "workflow",
    f"https://example.webhook.office.com/webhookb2/{TOKEN}": "workflow",
    f"https://example.webhook.office365.us/webhookb2/{TOKEN}": "workflow",
    f"https://outlook.office.com/webhook/{TOKEN}": "workflow",
    f"https://open.feishu.cn/open-apis/bot/v2/hook/{TOKEN}": "feishu",
    f"https://open.larksuite.com/open-apis/bot/v2/hook/{TOKEN}": "lark",
    f"https://oapi.dingtalk.com/robot/send?access_token={TOKEN}": "dingtalk",
    f"https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key={TOKEN}": "wecombot",
    f"https://webexapis.com/v1/webhooks/incoming/{TOKEN}": "webex",
    f"https://api.ciscospark.com/v1/webhooks/incoming/{TOKEN}": "webex",
    f"https://integrations.zoom.us/chat/webhooks/incomingwebhook/{TOKEN}": "zoom",
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
        f"https://www.office.com/{TOKEN}",
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
