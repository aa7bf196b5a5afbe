"""What all generated pages share."""

NOTE = "<!-- Written by `make generate`: don't edit. -->\n"


def cell(text: str) -> str:
    """A text as a cell of a table."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
