"""``python -m generate``: writes all generated files; ``--check`` names those that are stale."""

import sys

from generate import (
    chart_defaults,
    chart_readme,
    chart_schema,
    definitions,
    manifests,
    marks,
    origin,
    reasons,
    reference,
    settings,
)

FILES = {
    **definitions.FILES,  # what follows reads them
    **settings.FILES,
    **chart_schema.FILES,
    **chart_defaults.FILES,  # the chart needs them to be rendered
    **manifests.FILES,
    **chart_readme.FILES,
    **reference.FILES,
    **marks.FILES,
    **reasons.FILES,
    **origin.FILES,
}


def stale() -> list[str]:
    """The generated files that don't hold what they should."""
    return [
        str(path) for path, make in FILES.items() if not path.exists() or path.read_text() != make()
    ]


def main() -> int:
    """Write, or check."""
    if "--check" in sys.argv[1:]:
        found = stale()
        print("\n".join(f"{path} is stale: make generate" for path in found))
        return 1 if found else 0
    for path, make in FILES.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(make())
    return 0


if __name__ == "__main__":
    sys.exit(main())
