"""The policy as Helm installs it by default, by the capabilities of a real API server."""

import secrets

import pytest
from tests.e2e.conftest import POLICIES_ARE_BETA, skip_before_1_30
from tests.e2e.vanishing import vanish

from demo.chart import CHART, SET_IMAGE
from localcluster import Api, Cluster
from localcluster.api import ApiStatusError
from localcluster.errors import CommandFailedError

BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
WARNING = "Whoever can edit a Bundle can also approve its plans"


def test_an_upgrade_creates_a_binding_that_was_deleted_for_a_restore(cluster: Cluster, api: Api):
    """docs/operations.md, Back up."""
    skip_before_1_30(api, POLICIES_ARE_BETA)
    home = f"release-{secrets.token_hex(3)}"
    binding = f"{BINDINGS}/copyrator.{home}.bundles.operator.werf.dev"
    required = ("--set-json", 'bundles.requireApproval={"*":"Always"}', "--set", "replicas=0")
    # Other tests' CRDs aren't this release's; Helm would leave the guard behind.
    others = ("--set", "crds.enabled=false", "--set", "bundles.guard.enabled=false")
    release = ("copyrator", str(CHART), *SET_IMAGE, "--namespace", home, *required, *others)
    try:
        assert WARNING not in cluster.helm("install", *release, "--create-namespace")
        assert api.get(binding)["spec"]["validationActions"] == ["Deny"]
        api.delete(binding)
        with pytest.raises(ApiStatusError, match="404"):
            api.get(binding)
        cluster.helm("upgrade", *release)
        assert api.get(binding)["spec"]["policyName"] == binding.rpartition("/")[2]
        off = ("--set", "bundles.approvalPolicy.enabled=false")
        with pytest.raises(CommandFailedError, match=r"requires bundles\.approvalPolicy"):
            cluster.helm("upgrade", *release, *off)
        cluster.helm("upgrade", *release, *off, "--set-json", "bundles.requireApproval={}")
        with pytest.raises(ApiStatusError, match="404"):
            api.get(binding)
    finally:
        cluster.helm("uninstall", "copyrator", "--namespace", home, "--no-hooks")
        vanish(cluster, [home])
