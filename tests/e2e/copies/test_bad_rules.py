"""Rules that once kept the operator from starting: each says in its status what is wrong."""

import pytest
from tests.e2e.copies.conftest import encoded, restart
from tests.long import long_form

BOMBS = {
    "digits": "{{ " + "9" * 4301 + " }}",
    "loops": "{% for a in b %}" * 21 + "{% endfor %}" * 21,
    "long": "{{[a,a]}}" * 7_000,
}


def template(word, text):
    return {
        "template": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"{word}-made"},
            "data": {"key": text},
        },
        "targets": {"namespaces": [f"{word}-t*"]},
    }


pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def bombs(stopped, user, namespace, word):
    """Rules with each of BOMBS, trusted and not, and a good one, while no operator runs."""
    elsewhere, source, target = namespace("tenant"), namespace("source"), namespace(f"{word}-t")
    for name, text in BOMBS.items():
        for home in (stopped.namespace, elsewhere):
            user.rule(home, f"{word}-{name}", template(word, text))
    user.create("secrets", source, word, data=encoded(key="value"))
    good = {"source": {"kind": "Secret", "namespace": source, "name": word}}
    user.rule(stopped.namespace, word, {**good, "targets": {"namespaces": [f"{word}-t*"]}})
    return elsewhere, target


@long_form(
    "tests/e2e/hostile/test_hostile_neighbours.py::"
    "test_they_neither_stop_nor_slow_down_a_trusted_rule"
)
def test_the_operator_starts_among_bad_rules_and_serves_the_others(
    stopped, user, bombs, word, namespace
):
    elsewhere, target = bombs
    stopped.start()
    user.wait_data("secrets", target, word, encoded(key="value"))
    for name in ("digits", "loops"):
        condition = user.wait_reason(stopped.namespace, f"{word}-{name}", "InvalidSpec")
        assert condition["message"].startswith("spec.template.data.key: isn't valid Jinja2: ")
    user.wait_failing(stopped.namespace, f"{word}-long")
    failures = user.get("copyrators", stopped.namespace, f"{word}-long")["status"]["failures"]
    assert {failure["reason"] for failure in failures} == {"TemplateError"}
    for name in BOMBS:
        user.wait_reason(elsewhere, f"{word}-{name}", "NotTrusted")
    assert stopped.stop() == 0
    restart(stopped, user, word)
    late = namespace(f"{word}-t-late")
    user.wait_data("secrets", late, word, encoded(key="value"))
    assert "Traceback" not in stopped.log.read_text()
    for name in BOMBS:
        user.delete("copyrators", stopped.namespace, f"{word}-{name}")
        user.wait_gone("copyrators", stopped.namespace, f"{word}-{name}")


def test_a_rule_beyond_a_limit_can_still_be_edited_and_goes_with_its_copies(
    operator, user, namespace, word
):
    """The limits are the operator's, not the CRD's: no stored object is refused as a whole."""
    target = namespace(f"{word}-t")
    user.rule(operator.namespace, word, template(word, "value"))
    user.wait_data("configmaps", target, f"{word}-made", {"key": "value"})

    too_much = {f"key-{i}": "x" * 60_000 for i in range(5)}
    user.patch("copyrators", operator.namespace, word, spec={"template": {"data": too_much}})
    condition = user.wait_reason(operator.namespace, word, "InvalidSpec")
    assert "262144 characters" in condition["message"], condition
    user.patch("copyrators", operator.namespace, word, metadata={"labels": {"edited": "yes"}})
    user.delete("copyrators", operator.namespace, word)

    user.wait_gone("copyrators", operator.namespace, word)
    user.wait_gone("configmaps", target, f"{word}-made")
