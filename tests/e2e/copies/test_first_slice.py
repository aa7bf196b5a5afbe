"""The contract's copy job, end to end, by a real operator under the chart's rights."""

import base64

from tests.e2e.copies.conftest import copying, encoded
from tests.e2e.operator_process import until

from copyrator.api import names

HEALED = 5.0
"""Seconds; it takes milliseconds, but this machine may have much else to do."""


def test_an_old_form_rule_copies_what_carries_its_labels_into_every_active_namespace(
    operator, user, namespace, word
):
    source, target = namespace("source"), namespace("target")
    user.create(
        "secrets", source, word, metadata={"labels": {"app": word}}, data=encoded(password="s3cret")
    )
    user.create("secrets", source, f"{word}-other", data=encoded(password="other"))
    user.rule(
        operator.namespace, word, ruleType="SECRET", selector={"app": word}, namespace=[source]
    )
    user.wait_data("secrets", target, word, encoded(password="s3cret"))
    status = user.wait_ready(operator.namespace, word)
    assert status["sources"] == 1
    assert status["copies"]["ready"] == status["copies"]["desired"] > 1
    assert user.get("secrets", target, f"{word}-other") is None
    assert user.names("secrets", source) == []
    user.delete("copyrators", operator.namespace, word)
    user.wait_gone("secrets", target, word)


def good_rule(user, operator, word, source, kind="ConfigMap", **more):
    return user.rule(operator.namespace, word, copying(source, word, kind=kind, **more))


def test_a_source_by_name_goes_to_the_namespaces_that_the_globs_mean(
    operator, user, namespace, word
):
    source = namespace("source")
    inside, outside = namespace(f"{word}-in"), namespace("outside")
    user.create("configmaps", source, word, data={"key": "value"}, binaryData={"bin": "AAECAw=="})
    good_rule(user, operator, word, source)
    status = user.wait_ready(operator.namespace, word)
    assert status["copies"] == {
        "desired": 1,
        "ready": 1,
        "failed": 0,
        "conflicts": 0,
        "pending": 0,
    }
    copy = user.get("configmaps", inside, word)
    assert copy["data"] == {"key": "value"}
    assert copy["binaryData"] == {"bin": "AAECAw=="}
    assert copy["metadata"]["labels"] == {names.LABEL_MANAGED_BY: names.MANAGED_BY}
    assert copy["metadata"]["annotations"][names.ANN_SOURCE] == f"{source}/{word}"
    assert user.get("configmaps", outside, word) is None


def test_a_deleted_or_edited_copy_is_healed_at_once(operator, user, namespace, word):
    source, target = namespace("source"), namespace(f"{word}-t")
    user.create("secrets", source, word, data=encoded(password="right"))
    good_rule(user, operator, word, source, kind="Secret")
    right = encoded(password="right")
    user.wait_data("secrets", target, word, right)
    user.delete("secrets", target, word)
    user.wait_data("secrets", target, word, right, seconds=HEALED)
    user.patch("secrets", target, word, data=encoded(password="wrong"))
    user.wait_data("secrets", target, word, right, seconds=HEALED)
    user.patch("secrets", target, word, data=encoded(more="added"))
    user.wait_data("secrets", target, word, right, seconds=HEALED)
    user.patch("secrets", target, word, data={"password": None})
    user.wait_data("secrets", target, word, right, seconds=HEALED)
    marks = {"labels": {names.LABEL_MANAGED_BY: None}}
    user.patch("secrets", target, word, metadata=marks)
    until(lambda: user.names("secrets", target) == [word], "our label is back", HEALED)


def test_the_operators_log_and_the_rules_status_hold_no_secret(operator, user, namespace, word):
    source, target = namespace("source"), namespace(f"{word}-t")
    value = f"hidden-{word}"
    user.create("secrets", source, word, data=encoded(password=value))
    good_rule(user, operator, word, source, kind="Secret")
    user.wait_data("secrets", target, word, encoded(password=value))
    user.wait_ready(operator.namespace, word)
    rule = str(user.get("copyrators", operator.namespace, word))
    metadata = str(user.get("secrets", target, word)["metadata"])
    for text in (operator.log.read_text(), rule, metadata):
        assert value not in text
        assert base64.b64encode(value.encode()).decode() not in text
