"""New namespaces for many rules at once: what the API server is asked for, by its audit log."""

import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from click.testing import CliRunner
from tests.e2e.copies.conftest import copying, encoded, wait_quiet
from tests.e2e.installation import RULES
from tests.e2e.operator_process import until
from tests.e2e.vanishing import vanish

from copyrator.api.names import ANN_RULES
from copyrator.cli import cli
from copyrator.copies.timing import DEFAULT_TIMING

pytestmark = pytest.mark.timeout(600)

SOURCES, TARGETS = 100, 10
COPIES = SOURCES * TARGETS
EVENTS = 20


def ready(user, operator):
    rules = user.api.get(RULES.format(operator.namespace))["items"]
    return sum(rule.get("status", {}).get("copies", {}).get("ready", 0) for rule in rules)


def test_each_copy_and_each_status_is_written_once(operator, user, word, cluster):
    home, source = operator.namespace, f"{word}-source"
    names = [f"{word}-{number:03}" for number in range(SOURCES)]
    spaces = [f"{word}-new-{number}" for number in range(TARGETS)]

    def make_rule(name):
        user.create("secrets", source, name, data=encoded(key=name))
        user.rule(home, name, copying(source, name, f"{word}-new-*", kind="Secret"))

    def make_namespace(name):
        user.api.create("/api/v1/namespaces", {"metadata": {"name": name}})

    make_namespace(source)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make_rule, names))
        for name in names:
            user.wait_reason(home, name, "NoTargets")
        since = wait_quiet(operator, home)
        list(pool.map(make_namespace, spaces))
    until(lambda: ready(user, operator) == COPIES, "all copies are right", 300)
    wait_quiet(operator, home)
    writes = operator.writes(since)

    copies = [one for one in writes if one.resource == "secrets"]
    assert Counter(one.verb for one in copies) == {"create": COPIES}
    seconds = max(one.ended for one in copies) - min(one.began for one in copies)
    statuses = [one for one in writes if one.subresource == "status"]
    in_time = 1 + int(seconds / DEFAULT_TIMING.unreported)  # more only on a very slow machine
    assert len(statuses) <= SOURCES * in_time
    assert {one.name for one in statuses} == set(names)
    events = [one for one in writes if one.resource == "events"]
    assert 1 <= len(events) <= EVENTS
    assert len(copies) + len(statuses) + len(events) == len(writes)
    check_events(user, home, names, operator)
    vanish(cluster, [source, *spaces])


def check_events(user, home, names, operator):
    """They tell of all copies and rules, also to who asks for one of the rules."""
    items = user.api.get(f"/api/v1/namespaces/{home}/events")["items"]
    shared = [one for one in items if one["reason"] == "CopiesChanged"]
    assert {one["involvedObject"]["kind"] for one in shared} == {"Namespace"}
    assert {one["involvedObject"]["uid"] for one in shared} == {
        user.api.get(f"/api/v1/namespaces/{home}")["metadata"]["uid"]
    }
    listed = [one["metadata"]["annotations"][ANN_RULES].split(",") for one in shared]
    assert {name for rules in listed for name in rules} == set(names)
    told = [
        int(each) for one in shared for each in re.findall(r"created (\d+) cop", one["message"])
    ]
    assert sum(told) == COPIES
    asked = ["--kubeconfig", str(operator.cluster.admin_kubeconfig), "-n", home]
    done = CliRunner().invoke(cli, ["describe", "rule", names[-1], *asked])
    assert done.exit_code == 0, done.output
    assert "CopiesChanged" in done.output
