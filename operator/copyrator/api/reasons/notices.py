"""The reasons of Events about notifications."""

# ruff: noqa: E501 - a table: a text is one line

from copyrator.api.reasons import WARNING, Reason

NOTIFY = "notify"

# fmt: off


class NoticeEvent(Reason):
    """Reasons of Events about the ConfigMap of notifications."""

    FAILED = ("NotificationFailed", NOTIFY, WARNING, "a [notification](notifications.md) couldn't be sent", "fix what the message names; `copyrator notify test` tries it")
    INVALID = ("NotificationsInvalid", NOTIFY, WARNING, "the ConfigMap of [notifications](notifications.md) has a fault", "correct the field that the message names")
