"""The ConfigMap of notifications: what is used of it, and what is said of the rest."""

import json
import re
from pathlib import Path

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
from copyrator.notify.sending import SERVICES

ROOT = Path(__file__).resolve().parents[3]
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
