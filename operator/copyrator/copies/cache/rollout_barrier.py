"""Where a rule with ``spec.rollout`` may write changed content now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class RolloutBarrier:
    """Closed until its rule has decided about the present content."""

    __slots__ = ("_everywhere", "_share", "portion", "step", "stopped")

    def __init__(self) -> None:
        self.close()

    def close(self) -> None:
        """Write no changed content."""
        self._everywhere = False
        self._share: frozenset[str] = frozenset()
        self.portion: Sequence[str] = ()
        """The namespaces that the open step adds."""
        self.step = 0
        """The step that it is open for; 0: none."""
        self.stopped = False
        """Nothing is changed at all, not even back to the new content."""

    def open(self) -> None:
        """Write all that is wanted: no rollout is in progress."""
        self.close()
        self._everywhere = True

    def admit(self, step: int, namespaces: Iterable[str], portion: Sequence[str] = ()) -> None:
        """Write changed content in these namespaces."""
        self.close()
        self.step = step
        self.portion = portion
        self._share = frozenset(namespaces)

    def stop(self) -> None:
        """Change nothing until the next decision."""
        self.stopped = True

    def holds(self, namespace: str, *, old: bool) -> bool:
        """Whether a copy there isn't written now: an old one, or one that was edited."""
        if self.stopped:
            return True
        return old and not self._everywhere and namespace not in self._share

    def __contains__(self, namespace: str) -> bool:
        return self._everywhere or namespace in self._share
