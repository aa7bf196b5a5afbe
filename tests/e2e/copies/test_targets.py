"""Which namespaces get copies; those that are going are passed over."""

from tests.e2e.copies.conftest import copying
from tests.e2e.operator_process import until

from localcluster.api import ApiStatusError


def test_a_recreated_namespace_is_served_again(operator, user, namespace, word):
    source = namespace("source")
    user.create("configmaps", source, word, data={"key": "value"})
    user.rule(operator.namespace, word, copying(source, word))
    target = namespace(f"{word}-again")
    user.wait_data("configmaps", target, word, {"key": "value"})
    user.api.delete(f"/api/v1/namespaces/{target}")

    def made_again():
        try:
            return user.api.create("/api/v1/namespaces", {"metadata": {"name": target}})
        except ApiStatusError as error:
            if error.code != 409:
                raise
            return None

    until(made_again, f"{target} can be made again")
    user.wait_data("configmaps", target, word, {"key": "value"})
    user.wait_ready(operator.namespace, word)
