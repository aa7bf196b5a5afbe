"""Its settings. Pure."""

from __future__ import annotations

from typing import Final

from copyrator.settings.options import DNS_SUBDOMAIN, Group, Text, setting


class GreetingSettings(Group, place=80):
    """Greetings."""

    greeting_house: str = setting(
        Text(DNS_SUBDOMAIN, "a ConfigMap's name (lower case, digits, '-', '.')"),
        "greeting",
        "ConfigMap in the rules' namespace with the words for those who have none",
    )


SETTINGS: Final = (GreetingSettings,)
