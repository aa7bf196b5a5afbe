"""Other clusters that a rule's sources are in: the spec, and what the status has of them."""

from datetime import UTC, datetime

import pytest
from tests.targets import EVERYWHERE

from copyrator.api.certificates import CREDENTIAL, Certificate, expiring
from copyrator.api.kubeconfig import KubeconfigRef
from copyrator.api.rule_spec import RuleSpec, parse_rule
from copyrator.api.rule_status import SourceCluster, read_rule_status
from copyrator.api.schema import InvalidSpec

AT = datetime(2026, 1, 1, tzinfo=UTC)


def parsed(**source: object) -> RuleSpec | InvalidSpec:
    found = {"kind": "Secret", "name": "creds", **source}
    return parse_rule(
        {"metadata": {"namespace": "home"}, "spec": {"source": found, "targets": EVERYWHERE}}
    )


def test_a_kubeconfig_is_a_secret_and_a_key() -> None:
    spec = parsed(kubeConfig={"secretName": "hub"})
    assert isinstance(spec, RuleSpec)
    assert spec.kubeconfigs == (KubeconfigRef("hub", "value"),)
    assert spec.source is not None
    assert spec.source.cluster == " in the cluster of kubeconfig hub"
    assert not spec.source.means("home", "creds", {})  # it is no object of this cluster


@pytest.mark.parametrize(
    ("known", "found", "same"),
    [
        (SourceCluster("s", "k", "u1", "c1"), SourceCluster("s", "k", "u1", "c2"), True),
        (SourceCluster("s", "k", "u1", "c1"), SourceCluster("s", "k", "u2", "c1"), False),
        (SourceCluster("s", "k", "u1", "c1"), SourceCluster("s", "k", "", "c1"), True),
        (SourceCluster("s", "k", "", "c1"), SourceCluster("s", "k", "u1", "c1"), True),
        (SourceCluster("s", "k", "", "c1"), SourceCluster("s", "k", "", "c2"), False),
        (SourceCluster("s", "k", "u1", "c1"), SourceCluster("s", "k", "", "c2"), False),
    ],
)
def test_clusters_are_told_apart_by_the_uid_else_by_the_ca(
    known: SourceCluster, found: SourceCluster, same: bool
) -> None:
    assert known.is_same_as(found) is same


def test_what_the_status_has_is_read_again() -> None:
    one = SourceCluster("hub", "value", "uid", "sha256:1", AT)
    body = {"status": {"sourceClusters": [one.to_dict()]}}
    assert read_rule_status(body).source_clusters == (one,)


@pytest.mark.parametrize("junk", [None, "x", [None], [{"secretName": 5}], {"a": 1}])
def test_a_forged_status_breaks_nothing(junk: object) -> None:
    assert read_rule_status({"status": {"sourceClusters": junk}}).source_clusters == ()


def test_a_credential_is_called_so_in_the_warning() -> None:
    ends = Certificate(AT, f"{CREDENTIAL}home/hub", "value")
    condition = expiring([ends], AT, 60.0)
    assert condition is not None
    assert condition.message.startswith("the credential in kubeconfig home/hub, key value expired")
