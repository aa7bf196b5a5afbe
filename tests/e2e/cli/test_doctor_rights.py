"""`copyrator doctor` while the operator's rights are away.

A file of its own, because the operator runs meanwhile: whichever of its watches has to be opened
anew just then is refused.
"""

import pytest
from tests.e2e.operator_process import until

BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"


@pytest.mark.refused("*")
def test_doctor_names_a_right_that_is_missing_until_it_is_back(stage):
    user, role = f"system:serviceaccount:{stage.home}:copyrator", f"{stage.home}:copyrator"
    granted = f"ok   Permissions: all required permissions are granted to {user}"
    assert granted in stage.types("doctor", code=None)
    binding = stage.api.get(f"{BINDINGS}/{role}")
    stage.api.delete(f"{BINDINGS}/{role}")
    try:
        missed = f"{user} cannot "
        until(lambda: missed in stage.types("doctor", code=None), "the permission is missed")
        said = stage.types("doctor", code=1)
        assert f"FAIL Permissions: {missed}list copyrators.flant.com in all namespaces" in said
    finally:
        fresh = {key: binding["metadata"][key] for key in ("name", "labels")}
        stage.api.create(BINDINGS, {**binding, "metadata": fresh})
    until(lambda: granted in stage.types("doctor", code=None), "the right is back")
