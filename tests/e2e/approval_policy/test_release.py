"""The policy as Helm installs it by default, by the capabilities of a real API server."""

import pytest
from tests.e2e.conftest import POLICIES_ARE_BETA, skip_before_1_30

from demo.chart import CHART
from localcluster import Cluster
from localcluster.api import ApiStatusError

BINDING = (
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/"
    "copyrator.copyrator.bundles.operator.werf.dev"
)

WARNING = "Whoever can edit a Bundle can also approve its plans"


def test_an_upgrade_creates_a_binding_that_was_deleted_for_a_restore(disposable: Cluster):
    """docs/operations.md, Back up."""
    api = disposable.api()
    skip_before_1_30(api, POLICIES_ARE_BETA)
    required = ("--set-json", 'bundles.requireApproval={"*":"Always"}', "--set", "replicas=0")
    release = ("copyrator", str(CHART), "--namespace", "copyrator", *required)
    assert WARNING not in disposable.helm("install", *release, "--create-namespace")
    assert api.get(BINDING)["spec"]["validationActions"] == ["Deny"]
    api.delete(BINDING)
    with pytest.raises(ApiStatusError, match="404"):
        api.get(BINDING)
    disposable.helm("upgrade", *release)
    assert api.get(BINDING)["spec"]["policyName"] == BINDING.rpartition("/")[2]
    off = ("--set", "bundles.approvalPolicy.enabled=false")
    assert f"{WARNING}: the approval policy isn't" in disposable.helm("upgrade", *release, *off)
    with pytest.raises(ApiStatusError, match="404"):
        api.get(BINDING)
