"""Settings of the operator's signature policy. Pure."""

from __future__ import annotations

from typing import Final

from copyrator.settings.options import Chart, Group, setting


class SignaturesSettings(Group, place=60):
    """Signatures."""

    require_signature_policy: bool = setting(
        None,
        False,
        "deploy nothing while there is no [signature policy](signatures.md), the ConfigMap "
        "`copyrator-signature-policy` in the rules' namespace",
        chart=Chart(
            "signaturePolicy.required",
            note="the chart makes it of the values below, or you create it yourself",
        ),
    )


SETTINGS: Final = (SignaturesSettings,)
