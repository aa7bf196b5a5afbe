"""Fields of pods that ``spec.job`` of a Bundle hands on as they are; the API server checks them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from copyrator.api.schema import Form, Takes, custom, entries, items, number, text

_QUANTITY = (
    r"(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?"
)
_Quantities = Mapping[
    str,
    Annotated[
        Any,
        custom(
            str,
            {
                "x-kubernetes-int-or-string": True,
                "anyOf": [{"type": "integer"}, {"type": "string"}],
                "maxLength": 64,
                "pattern": f"^{_QUANTITY}$",
            },
        ),
    ],
]
_ID = number(0, bits=64)
_ANY_ID = Takes({"type": "integer", "format": "int64"})
_LABEL = text(most=256, least=0)


def _words(*words: str) -> Takes:
    return custom(str, {"type": "string", "enum": list(words)})


class Resources(Form):
    """Of a container."""

    requests: Annotated[_Quantities, entries(32)] | None = None
    """Resources that a container requests, such as cpu and memory."""
    limits: Annotated[_Quantities, entries(32)] | None = None
    """The most that a container may use."""


class Toleration(Form):
    """Of a pod."""

    key: Annotated[str, text(most=317, least=0)] = ""
    """Key of the taint; empty with Exists for every taint."""
    operator: Annotated[str, _words("Equal", "Exists")] = ""
    """Equal (default) or Exists."""
    value: Annotated[str, text(most=63, least=0)] = ""
    """Value of the taint, for Equal."""
    effect: Annotated[str, _words("NoSchedule", "PreferNoSchedule", "NoExecute")] = ""
    """Effect of the taint; if omitted, every effect."""
    toleration_seconds: Annotated[int, _ANY_ID] = 0
    """How many seconds a NoExecute taint is tolerated."""


class SeccompProfile(Form):
    """Of a pod."""

    type: Annotated[str, _words("RuntimeDefault", "Localhost", "Unconfined")]
    """Type of the profile. Default RuntimeDefault."""
    localhost_profile: Annotated[str, text(most=1024, least=0)] = ""
    """Path of the profile on the node, for Localhost."""


class SeLinuxOptions(Form):
    """Of a pod."""

    user: Annotated[str, _LABEL] = ""
    """SELinux user."""
    role: Annotated[str, _LABEL] = ""
    """SELinux role."""
    type: Annotated[str, _LABEL] = ""
    """SELinux type."""
    level: Annotated[str, _LABEL] = ""
    """SELinux level."""


class SecurityContext(Form):
    """Of a pod."""

    run_as_user: Annotated[int, _ID] = 0
    """User id of the processes. Default 1000, werf's build user."""
    run_as_group: Annotated[int, _ID] = 0
    """Group id of the processes. Default 1000."""
    run_as_non_root: bool = False
    """Whether a container that would run as root is rejected."""
    fs_group: Annotated[int, _ID] = 0
    """Group that owns the volumes. Default 1000."""
    fs_group_change_policy: Annotated[str, _words("OnRootMismatch", "Always")] = ""
    """When the volumes' ownership is changed."""
    supplemental_groups: Annotated[tuple[Annotated[int, _ANY_ID], ...], items(64)] = ()
    """Additional groups of the processes."""
    seccomp_profile: SeccompProfile | None = None
    """Seccomp profile of the containers."""
    se_linux_options: SeLinuxOptions | None = None
    """SELinux labels of the containers."""
