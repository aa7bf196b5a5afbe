"""What rules of tests copy to."""

from typing import Any, Final

EVERYWHERE: Final[dict[str, Any]] = {"namespaces": ["*"]}
"""``spec.targets`` of every namespace."""
