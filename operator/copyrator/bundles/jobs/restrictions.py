"""What a Bundle may set by the operator's settings, and what of a gated one reaches its Jobs. Pure.

What a gated Bundle deploys is decided before: by a person, a signature, another Bundle. So nothing
else of its author's may act in its Jobs: no code, no files, no other cluster, no values that aren't
read by the operator. A variable passes if its name is known to be harmless
(docs/facts/werf.md); everything else is withheld, also what nothing is known to read.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.conditions import ConditionStatus, FurtherCondition
from copyrator.api.object_refs import ValuesKind
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.schema import InvalidSpec
from copyrator.api.structs import replace
from copyrator.api.text import member


def image_repository(image: str) -> str:
    """An image without tag and digest: ``host:5000/path:tag@sha256:…`` is ``host:5000/path``."""
    name = image.split("@", 1)[0]
    head, slash, last = name.rpartition("/")
    return head + slash + last.split(":", 1)[0]


ANY = "*"
"""In the list of allowed Secrets: every Secret."""


def refusal(
    spec: BundleSpec,
    service_accounts: Collection[str],
    images: Collection[str],
    secrets: Collection[str],
) -> InvalidSpec | None:
    """The field of a valid spec that the settings forbid, with a message; else None."""
    if spec.service_account not in service_accounts:
        return InvalidSpec(
            "spec.serviceAccountName",
            f"{spec.service_account} isn't allowed; use one of {_join_items(service_accounts)}, or "
            "ask an administrator to add it to bundles.allowedServiceAccounts of the chart",
        )
    repository = image_repository(spec.werf_image)
    if repository not in images:
        return InvalidSpec(
            "spec.werf.image",
            f"{repository} isn't allowed; use one of {_join_items(images)}, or ask an "
            "administrator to add it to bundles.allowedImages of the chart",
        )
    if ANY in secrets:
        return None
    for path, name in _secrets(spec):
        if name not in secrets:
            return InvalidSpec(
                path,
                f"the Secret {name} isn't allowed; use one of {_join_items(secrets)}, or ask an "
                "administrator to add it to bundles.allowedSecrets of the chart",
            )
    return None


def _secrets(spec: BundleSpec) -> Iterator[tuple[str, str]]:
    """The Secrets that the operator would read, and the fields that name them."""
    named = {
        "spec.auth": spec.auth,
        "spec.caSecret": spec.ca_secret,
        "spec.secretKey": spec.secret_key and spec.secret_key.secret,
    }
    yield from ((path, name) for path, name in named.items() if name)
    for path, ref in spec.part_refs:
        if ref.kind is ValuesKind.SECRET:
            yield path, ref.name
    for source in spec.values_sources:
        if source.kind is ValuesKind.SECRET:
            yield "spec.valuesFrom", source.name


def _join_items(items: Collection[str]) -> str:
    return ", ".join(sorted(items)) or "(none)"


HARMLESS: Final = frozenset(
    {
        "WERF_ENV",
        "WERF_RELEASE_INFO_ANNOTATIONS",
        "WERF_RUNTIME_LABELS",
        "WERF_DISABLE_DEFAULT_VALUES",
        "WERF_DISABLE_DEFAULT_SECRET_VALUES",
        "WERF_NO_INSTALL_CRDS",
        "WERF_NO_CREATE_NAMESPACE",
        "WERF_NO_NOTES",
        "WERF_RENDER_SUBCHART_NOTES",
        "WERF_TIMEOUT",
        "WERF_KUBE_BURST_LIMIT",
        "WERF_KUBE_QPS_LIMIT",
        "WERF_KUBE_REQUEST_TIMEOUT",
        "WERF_NETWORK_PARALLELISM",
        "WERF_STATUS_PROGRESS_PERIOD",
        "WERF_STATUS_PROGRESS_PERIOD_SECONDS",
        "WERF_NO_FINAL_TRACKING",
        "WERF_RELEASES_HISTORY_MAX",
        "WERF_ATOMIC",
        "WERF_IGNORE_SECRET_KEY",
        "WERF_NO_RESOURCE_VALIDATION",
        "WERF_NO_VALUES_SCHEMA_VALIDATION",
        "WERF_SECRET_KEY",
        "KUBEDOG_DISABLE_EVENTS",
        "LANG",
        "TZ",
    }
)
"""Variables whose value changes the plan, or only how werf works: of these exact names."""

_FAMILIES: Final = {
    "WERF_SET_": True,
    "WERF_SET_STRING_": True,
    "WERF_SET_JSON_": True,
    "WERF_SET_LITERAL_": True,
    "WERF_SET_RUNTIME_JSON_": True,
    "WERF_ADD_LABEL_": True,
    "WERF_RELEASE_LABEL_": True,
    "WERF_SET_FILE_": False,
    "WERF_SET_ROOT_JSON_": False,
    "WERF_SET_DOCKER_CONFIG_JSON_VALUE": False,
}
"""Beginnings of names, and whether these pass; the longest one decides. werf reads nothing that
begins with the last one as a member of WERF_SET_*.
"""

_OTHER: Final = re.compile(r"[^A-Za-z0-9_]")
"""Characters that Kubernetes allows in a variable's name, and a shell doesn't."""

_REFERABLE: Final = frozenset({"WERF_NAMESPACE", "WERF_RELEASE", "WERF_REPO", "WERF_TAG"})
"""Variables of the operator that a value may name as ``$(NAME)``: they are part of the plan's ID.
Others may hold a Secret's value, or the address of a Service that changes after the approval.
"""

_REFERENCE_BEGINS: Final = re.compile(r"(?<!\$)\$(?:\$\$)*\(")

_NAMED: Final = 20
"""Settings that a message names."""
_NAME_LENGTH: Final = 60
"""Characters of a setting's name in a message."""


def is_gated(spec: BundleSpec, *, signed: bool) -> bool:
    """Whether something other than its author decides about a Bundle's deploys.

    Args:
        spec: with the operator's floor of approval.
        signed: whether the operator's signature policy concerns it.
    """
    decides = any(part.RESTRICTS and not part.is_off for part in spec.parts)
    return decides or spec.is_remote or signed


def passes(name: str) -> bool:
    """Whether a variable of ``spec.env`` reaches a gated Bundle's Jobs, by its name.

    A shell such as dash drops a variable whose name has other characters, such as a dot: what is
    planned by a script and deployed without one would differ.
    """
    if name in HARMLESS:
        return True
    if _OTHER.search(name):
        return False
    longest = max((one for one in _FAMILIES if name.startswith(one)), key=len, default=None)
    return longest is not None and _FAMILIES[longest] and name != longest


def restrict_spec(spec: BundleSpec, *, signed: bool = False) -> BundleSpec:
    """The spec of which Jobs are made: for a gated Bundle without what is withheld.

    Equal for a spec that is restricted already.

    Args:
        spec: a valid one.
        signed: as for ``is_gated``; or whether it is restricted in any case.
    """
    if spec.is_gated or not is_gated(spec, signed=signed):
        return spec
    job = spec.job
    env = {
        name: value
        for name, value in spec.env.items()
        if passes(name) and not _refers_elsewhere(value)
    }
    labels, annotations = (
        {key: value for key, value in found.items() if _is_allowed(spec, key, value)}
        for found in (job.pod_labels, job.pod_annotations)
    )
    withheld = (
        *_missing("spec.env", spec.env, env),
        *_missing("spec.job.podLabels", job.pod_labels, labels),
        *_missing("spec.job.podAnnotations", job.pod_annotations, annotations),
    )
    return replace(
        spec,
        is_gated=True,
        env=env,
        job=replace(job, pod_labels=labels, pod_annotations=annotations),
        withheld=withheld,
    )


def _is_allowed(spec: BundleSpec, key: str, value: str) -> bool:
    """Whether the operator's settings allow a label or annotation of pods."""
    allowed = spec.allowed_pod_metadata
    return key in allowed or f"{key}={value}" in allowed


def _missing(path: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    return (f"{path}{member(name)}" for name in sorted(before.keys() - after.keys()))


def _refers_elsewhere(value: str) -> bool:
    """Whether a value has a reference ``$(NAME)`` to a variable that isn't one of ``_REFERABLE``.

    ``$$`` is an escaped ``$``, so an odd number of them begins a reference. Source:
    k8s.io/kubernetes/third_party/forked/golang/expansion.
    """
    at = 0
    while begun := _REFERENCE_BEGINS.search(value, at):
        at = value.find(")", begun.end())
        if at < 0:
            return False
        if value[begun.end() : at] not in _REFERABLE:
            return True
    return False


def withheld_condition(spec: BundleSpec) -> FurtherCondition | None:
    """The condition SettingsWithheld; None where nothing is withheld."""
    if not spec.withheld:
        return None
    text = f"the Jobs of a gated Bundle don't get {list_settings(spec.withheld)}"
    remedies = dict.fromkeys(map(remedy, spec.withheld))
    return FurtherCondition(
        ConditionStatus.TRUE, BundleReason.NOT_KNOWN_HARMLESS, f"{text}. {' '.join(remedies)}"
    )


def list_settings(withheld: tuple[str, ...]) -> str:
    """The first of these settings, shortened, and how many more there are."""
    named = [one if len(one) <= _NAME_LENGTH else one[:_NAME_LENGTH] + "…" for one in withheld]
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return ", ".join(named[:_NAMED]) + more


def remedy(setting: str) -> str:
    """What to do in place of a setting that is withheld, as a sentence."""
    if not setting.startswith("spec.env."):
        return (
            "Labels and annotations of pods: an administrator adds them to "
            "bundles.allowedPodMetadata of the chart."
        )
    name = setting.removeprefix("spec.env.").replace("\\.", ".")
    if passes(name):
        return _REFERENCE
    if passes(_OTHER.sub("_", name)):
        return "Names: use only letters, digits and _."
    return next((text for start, text in _REMEDIES if name.startswith(start)), _REMOVE)


_VALUES: Final = "Values: put them into a ConfigMap or Secret of spec.valuesFrom."
_REMEDIES: Final = (
    *((start, _VALUES) for start in ("WERF_VALUES_", "WERF_SET_", "WERF_SECRET_VALUES_")),
    ("WERF_INSECURE_REGISTRY", "Plain HTTP: set spec.insecure."),
    ("WERF_SKIP_TLS_VERIFY_REGISTRY", "TLS of the registry: set spec.caSecret or skipTLSVerify."),
    ("SSL_CERT_", "TLS of the registry: set spec.caSecret or skipTLSVerify."),
    ("WERF_AUTO_ROLLBACK", "Rollback: set spec.autoRollback."),
    (
        "WERF_ADD_ANNOTATION_",
        "Annotations of objects: set them in the chart, or under app.kubernetes.io/ on the Bundle.",
    ),
    *(
        (start, "Proxies: the operator's own reach the Jobs.")
        for start in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY")
    ),
    ("WERF_KUBE", "Access: spec.serviceAccountName; of another cluster: spec.kubeConfig."),
)
_REFERENCE: Final = (
    "Values may refer only to $(WERF_NAMESPACE), $(WERF_RELEASE), $(WERF_REPO) and $(WERF_TAG): "
    "write what other references stand for."
)
_REMOVE: Final = "Other variables: remove them."
