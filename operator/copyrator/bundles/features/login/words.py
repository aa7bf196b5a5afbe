"""What is said of ``spec.provider``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from copyrator.api.schema import InvalidSpec
from copyrator.api.text import Detail
from copyrator.bundles.features.login.fields import LoginSpec
from copyrator.bundles.words import Place, View, Words


class LoginWords(Words):
    """Whose token its registry gets."""

    def rows(self, view: View, place: Place) -> Iterator[Detail]:
        """That."""
        if place is Place.SOURCE and (identity := _identity(view)):
            yield Detail("Logs in as", identity)

    def lines(self, view: View, place: Place) -> Iterator[str]:
        """The same; the provider also of an invalid spec."""
        if place is Place.LOGIN:
            yield str((view.body.get("spec") or {}).get("provider") or "")
        if place is Place.SOURCE and (identity := _identity(view)):
            assert not isinstance(view.spec, InvalidSpec)
            yield f"{view.spec.registry} gets tokens of {identity}."


def _identity(view: View) -> str:
    """Whose token of which cloud; empty without ``spec.provider``."""
    if isinstance(view.spec, InvalidSpec) or (login := view.spec.find(LoginSpec)) is None:
        return ""
    from copyrator.bundles.features.login.identity import identity_of  # noqa: PLC0415 - not for lists

    return f"{identity_of(view.spec, view.settings)} ({login.provider})"


WORDS: Final = LoginWords()
