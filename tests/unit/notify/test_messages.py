"""Messages say what, where, why and what next; others' texts can't do harm in them."""

import pytest

from copyrator.api.reasons.notices import About
from copyrator.notify.config import Config, SubjectKind
from copyrator.notify.messages import MESSAGE_LISTED, MESSAGE_WHY, build_message, clean
from copyrator.notify.transitions import ObjectIdentity, Transition

CONFIG = Config(link="https://ui.example.com/{namespace}/{name}")


def transition(name="shop", about=About.DEPLOY_FAILED, **fields):
    subject = ObjectIdentity(SubjectKind.BUNDLE, "prod", name, f"uid-{name}")
    given = {"what": "couldn't be deployed as 1.9.0", "at": "2026-11-27T12:00:00Z", "key": "1"}
    return Transition(subject, about, **{**given, **fields})


def test_a_message_of_one_says_what_where_why_and_what_next():
    one = transition(why="no such image", command="copyrator logs bundle -n prod shop")
    message = build_message(CONFIG, [one])
    assert message.title == "Copyrator: DeployFailed prod/shop"
    assert message.text == (
        "Bundle shop in prod couldn't be deployed as 1.9.0: no such image\n"
        "copyrator logs bundle -n prod shop\n"
        "https://ui.example.com/prod/shop"
    )
    assert message.severity == "failure"
    assert message.subject == "Bundle/prod/shop"
    (listed,) = message.data["transitions"]
    assert listed["about"] == "DeployFailed"
    assert listed["resolved"] is False


def test_a_resolved_fault_is_good_news():
    message = build_message(Config(), [transition(what="", resolved=True)])
    assert message.title == "Copyrator: resolved: DeployFailed prod/shop"
    assert message.text == "Bundle shop in prod: DeployFailed is resolved"
    assert message.severity == "success"


def test_a_burst_is_one_short_message_and_its_json_is_bounded():
    many = [transition(f"shop-{i}") for i in range(1_000)]
    message = build_message(CONFIG, [*many, transition("ok", About.DEPLOYED, what="runs 1.0.0")])
    assert message.text.startswith("1000 Bundles: DeployFailed: prod/shop-0, prod/shop-1")
    assert "and 990 more" in message.text
    assert "Bundle ok in prod runs 1.0.0" in message.text
    assert len(message.text) < 1_000
    assert message.data["count"] == 1_001
    assert len(message.data["transitions"]) == MESSAGE_LISTED
    assert message.severity == "failure", "the worst of them"


def test_the_same_transitions_have_the_same_id():
    first, second = transition("a"), transition("b")
    assert build_message(CONFIG, [first, second]).id == build_message(CONFIG, [second, first]).id
    assert build_message(CONFIG, [first]).id != build_message(CONFIG, [second]).id


@pytest.mark.parametrize(
    ("hostile", "absent"),
    [
        ("<!channel> look", "<"),
        ("@channel @here @everyone", "@c"),
        ("[click](https://evil.example)", "]("),
        ("see https://evil.example/x", "://"),
        ("see HTTP://evil.example/x", "://"),
        ("www.evil.example", "www.e"),
        ("log in at evil.example/x", "evil.e"),
        ("javascript:alert(1)", "javascript:a"),
        ("`code` *bold* ~strike~", "`"),
        ("<a href='x'>y</a>", "<a"),
        ("a\nb\x1b[31m\u202ec\x00", "\n"),
        ("#general", "#g"),
        ("&lt;b&gt;", "&"),
    ],
)
def test_others_texts_neither_mention_nor_link_nor_mark_up(hostile, absent):
    for text in (clean(hostile, 200), build_message(CONFIG, [transition(why=hostile)]).text):
        first_line = text.split("\n")[0]
        assert absent not in first_line.replace("https://ui.example.com", "")
        assert first_line.replace("\u200b", "").isprintable()


def test_a_message_of_a_megabyte_is_cut():
    text = build_message(Config(), [transition(why="<@everyone>" * 100_000)]).text
    assert len(text) < 2 * MESSAGE_WHY + 200


def test_a_command_with_what_a_shell_interprets_is_left_out():
    hostile = transition(command="copyrator approve bundle -n prod shop $(reboot)")
    message = build_message(Config(), [hostile])
    assert "reboot" not in message.text
    assert "command" not in message.data["transitions"][0]


def test_versions_and_sentences_stay_as_they_are():
    text = "1.9.0 isn't 1.9.1-rc.1: v2. Next."
    assert clean(text, 200).replace("rc.1", "") == text.replace("rc.1", "")


def test_an_object_with_the_name_of_a_domain_is_no_link():
    one = transition("evil.example", command="copyrator logs bundle -n prod evil.example")
    message = build_message(Config(), [one])
    many = build_message(Config(), [transition(f"evil{i}.example") for i in range(5)])
    for text in (message.title, message.text, many.text):
        assert ".example" not in text
    assert message.data["transitions"][0]["command"] == one.command


def test_a_brief_message_has_no_text_of_others():
    one = transition(what="runs HOSTILE", why="HOSTILE")
    message = build_message(Config(), [one, transition("b", About.NOT_READY)], brief=True)
    assert "HOSTILE" not in str(message)
    assert message.text == (
        "1 Bundle: DeployFailed: prod/shop\ncopyrator get bundles -A\n\n"
        "1 Bundle: NotReady: prod/b\ncopyrator get bundles -A\n\n"
        "The details are left out, as the receiver refused them."
    )
    assert message.id == build_message(Config(), [one, transition("b", About.NOT_READY)]).id
