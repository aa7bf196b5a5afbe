"""What generated files share."""

import yaml

NOTE = "<!-- Written by `make generate`: don't edit. -->\n"


def cell(text: str) -> str:
    """A text as a cell of a table."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


class Indented(yaml.SafeDumper):
    """Writes YAML as the files of this repository."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        """Indent the items of a list, too."""
        super().increase_indent(flow, False)
