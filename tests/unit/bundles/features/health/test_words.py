"""What commands say of a Bundle: health."""

from __future__ import annotations

from tests.unit.cli.view.test_bundle import READY, SICK, bundle, described, why


def test_describe_and_why_say_what_isnt_healthy() -> None:
    body = bundle({"health": "Watch"}, conditions=[READY, SICK])
    head, text = described(body, "Health")
    assert head.split() == ["Health:", "Unhealthy,", "for", "3h"]
    assert text == "  not healthy: Deployment/web (Ready: 0/1)"
    assert why(body, "Health:") == [head, text]
    body = bundle({"health": "Watch"})
    assert described(body, "Health") == ["Health:        not known yet"]
    assert why(body, "Health:") == ["Health:        not known yet"]
