"""Makes the documents' links out of docs/ work on the site, which holds docs/ alone.

In a clone ``../examples/rules/secret.yaml`` leads to the file; on the site the file is added under
``repository/``, and the link leads there.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

_ROOT = Path(__file__).resolve().parents[1]
_OUT = re.compile(r"\]\((?P<up>(?:\.\./)+)(?P<path>[^)#]+)(?P<anchor>#[^)]*)?\)")
_NAME = re.compile(r"<td[^>]*>[\w, ]*<code>[^<]+</code>")
_PLACE = "repository"


def _targets(page: Path) -> dict[str, str]:
    """What a page links to outside of docs/: the link as written, and the path from the root."""
    found = {}
    for match in _OUT.finditer(page.read_text()):
        target = (page.parent / f"{match['up']}{match['path']}").resolve()
        if not target.is_relative_to(_ROOT / "docs") and target.is_relative_to(_ROOT):
            found[f"{match['up']}{match['path']}"] = str(target.relative_to(_ROOT))
    return found


def on_files(files: Any, config: Any) -> Any:
    """Add what is linked to: files as they are, of a directory the list of its files."""
    wanted = {path for page in (_ROOT / "docs").rglob("*.md") for path in _targets(page).values()}
    for path in sorted(wanted):
        target = _ROOT / path
        if target.is_dir():
            lines = [
                f"- `{one.relative_to(_ROOT)}`" for one in sorted(target.glob("*")) if one.is_file()
            ]
            text = f"# {path}\n\n" + "\n".join(lines) + "\n"
        elif target.suffix == ".md":  # its own links are for its own place
            text = re.sub(r"(?<!!)\[([^\]]+)\]\((?!https?:)[^)]+\)", r"\1", target.read_text())
            text = re.sub(r"!\[[^\]]*\]\([^)]+\)", "", text)
        else:
            text = f"# {path}\n\n```\n{target.read_text()}```\n"
        files.append(File.generated(config, f"{_PLACE}/{_page(path)}", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_more: Any) -> str:
    """Let the links lead to what was added; leave what only developers read out of the search."""
    if page.file.src_uri.startswith(("adr/", "facts/")):
        page.meta["search"] = {"exclude": True}
    source = Path(page.file.abs_src_path or "")
    if not source.is_relative_to(_ROOT / "docs"):
        return markdown
    up = "../" * (len(source.relative_to(_ROOT / "docs").parts) - 1)
    found = _targets(source)

    def lead(match: re.Match[str]) -> str:
        path = found.get(f"{match['up']}{match['path']}")
        return f"]({up}{_PLACE}/{_page(path)}{match['anchor'] or ''})" if path else match[0]

    return _OUT.sub(lead, markdown)


def on_page_content(html: str, **_more: Any) -> str:
    """Let names at the beginning of cells, also after verbs, be broken after dots and slashes."""
    return _NAME.sub(lambda name: re.sub(r"(?<=[a-z\]])([./])(?=\w)", r"\1<wbr>", name[0]), html)


def _page(path: str) -> str:
    return path.rstrip("/") if path.endswith(".md") else f"{path.rstrip('/')}.md"
