"""``spec.health``: whether a release's objects are watched; the condition's reasons."""

from __future__ import annotations

from enum import StrEnum


class HealthMode(StrEnum):
    """Whether the release's objects are watched."""

    OFF = "Off"
    WATCH = "Watch"
    """The condition Healthy reports whether they are as their controllers want them."""


class HealthReason(StrEnum):
    """Reasons of the condition Healthy: stable values, part of the API."""

    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"
    """An object has failed, or hasn't become current in time."""
    PROGRESSING = "Progressing"
    """An object isn't current yet."""
    NOT_DEPLOYED = "NotDeployed"
    """This Bundle has no release in ``project_namespace``."""
    RELEASE_NOT_ACCEPTED = "ReleaseNotAccepted"
    """The release's namespace is another one, which hasn't consented: nothing is read there."""
    OTHER_MANAGER = "OtherManager"
    """The objects bear another value of the label by which they are watched."""
    UNCHECKED = "Unchecked"
    """The objects haven't been listed, or can't be watched now."""
    FORBIDDEN = "Forbidden"
    """The operator lacks a permission, or doesn't serve the namespace."""
