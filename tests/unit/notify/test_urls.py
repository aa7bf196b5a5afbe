"""Which URLs may be used, and that nothing of them is said."""

import pytest

from copyrator.notify.sending import SERVICES, check_url

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
        (f"https://hooks.slack.com/services/{TOKEN}", "write it as slack://"),
        (f"https://Discord.com:443/api/webhooks/{TOKEN}", "write it as discord://"),
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
