"""The variables that the stand-in knows.

werf itself passes over a variable that it doesn't know. Here a Job with such a one must not look
right, so what docs/facts/werf.md doesn't say is refused, and what the stand-in can't do.
"""

from __future__ import annotations

from collections.abc import Mapping

from .errors import WerfError

ADD_LABEL = "WERF_ADD_LABEL_"
ADD_ANNOTATION = "WERF_ADD_ANNOTATION_"
VALUES = {
    "--values": "WERF_VALUES_",
    "--set": "WERF_SET_",
    "--set-string": "WERF_SET_STRING_",
    "--set-file": "WERF_SET_FILE_",
}
"""helm's flags for values, and the family of each."""
FAMILIES = (ADD_ANNOTATION, ADD_LABEL, *VALUES.values())
# Families of werf's that the stand-in hasn't got, though they begin like its own. _JSON_ and
# _LITERAL_ aren't among them: werf takes those for WERF_SET_.
_MISSING = ("WERF_SET_DOCKER_CONFIG_JSON_VALUE", "WERF_SET_ROOT_JSON_", "WERF_SET_RUNTIME_JSON_")
WITHOUT_EFFECT = frozenset(
    {
        "WERF_IGNORE_SECRET_KEY",
        "WERF_KUBE_BURST_LIMIT",
        "WERF_KUBE_QPS_LIMIT",
        "WERF_KUBE_REQUEST_TIMEOUT",
        "WERF_LOG_COLOR_MODE",
        "WERF_LOG_PRETTY",
        "WERF_NO_FINAL_TRACKING",
        "WERF_SECRET_KEY",
        "WERF_SKIP_DEPENDENCIES_REPO_REFRESH",
        "WERF_STATUS_PROGRESS_PERIOD",
        "WERF_STATUS_PROGRESS_PERIOD_SECONDS",
        "WERF_TELEMETRY",
    }
)
"""Nothing that the stand-in does is another with them."""
VARIABLES = WITHOUT_EFFECT | frozenset(
    {
        "WERF_ATOMIC",
        "WERF_AUTO_ROLLBACK",
        "WERF_BUILDAH_MODE",
        "WERF_CONTAINERIZED",
        "WERF_DEPLOY_GRAPH_PATH",
        "WERF_DEPLOY_REPORT_PATH",
        "WERF_DISABLE_AUTO_HOST_CLEANUP",
        "WERF_DOCKER_CONFIG",
        "WERF_ENV",
        "WERF_HOME",
        "WERF_INSECURE_REGISTRY",
        "WERF_KUBECONFIG",
        "WERF_KUBECONFIG_BASE64",
        "WERF_KUBE_CONFIG",
        "WERF_KUBE_CONFIG_BASE64",
        "WERF_NAMESPACE",
        "WERF_NETWORK_PARALLELISM",
        "WERF_NO_CREATE_NAMESPACE",
        "WERF_NO_RESOURCE_VALIDATION",
        "WERF_PASSWORD",
        "WERF_RELEASE",
        "WERF_RELEASES_HISTORY_MAX",
        "WERF_REPO",
        "WERF_SAVE_DEPLOY_REPORT",
        "WERF_SHOW_INSIGNIFICANT_DIFFS",
        "WERF_SHOW_SENSITIVE_DIFFS",
        "WERF_SHOW_VERBOSE_CRD_DIFFS",
        "WERF_SHOW_VERBOSE_DIFFS",
        "WERF_SKIP_TLS_VERIFY_REGISTRY",
        "WERF_TAG",
        "WERF_TIMEOUT",
        "WERF_USERNAME",
        "WERF_VALIDATE",
    }
)


KUBECONFIGS = ("WERF_KUBE_CONFIG", "WERF_KUBECONFIG", "KUBECONFIG")
"""Files; the first that is set is taken."""
ENCODED_KUBECONFIGS = tuple(f"{name}_BASE64" for name in KUBECONFIGS)
"""What wins over those: a file's content in base64."""


def family(name: str) -> str:
    """The longest family that a variable's name begins with; empty if it has none."""
    found = max((each for each in FAMILIES if name.startswith(each)), key=len, default="")
    return "" if name.startswith(_MISSING) else found


def check(env: Mapping[str, str]) -> None:
    """Refuse what the stand-in doesn't know.

    Raises:
        WerfError: it names the first such variable.
    """
    for name in sorted(env):
        if name.startswith("WERF_") and name not in VARIABLES and not family(name):
            raise WerfError(
                f"unknown variable: {name}: docs/facts/werf.md says nothing of it, or the stand-in "
                "can't do it"
            )
