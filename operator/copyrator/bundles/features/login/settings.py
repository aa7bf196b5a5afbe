"""Settings of ``spec.provider``. Pure."""

from __future__ import annotations

from typing import Final

from copyrator.settings.options import GLOBS, Chart, Group, setting


class LoginSettings(Group, place=30):
    """Identities of clouds."""

    operator_identity_namespaces: tuple[str, ...] = setting(
        GLOBS,
        (),
        "names or globs of namespaces whose Bundles with `spec.provider` use the "
        "[operator's own identity](clouds.md#the-operators-own-identity) in place of their "
        "service account's; its tokens reach Secrets of these namespaces "
        "([what they open](security.md#identities-of-clouds))",
        chart=Chart("bundles.operatorIdentity.namespaces"),
    )


SETTINGS: Final = (LoginSettings,)
