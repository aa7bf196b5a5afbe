"""The documents make a site without a broken link, a missing anchor or an unknown page."""

import html
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from demo.pictures import PICTURES

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"
DIAGRAMS = sorted(IMAGES.glob("*.dot"))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site."""
    output = tmp_path_factory.mktemp("docs") / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(output)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return output


def test_the_site_is_built_strictly(site):
    assert (site / "reference" / "commands" / "index.html").is_file()


def test_a_page_needs_nothing_from_the_web(site):
    loads = re.compile(
        r'<(?:script|img|iframe|source)[^>]* src="?([^" >]+)|<link[^>]* href="?([^" >]+)'
    )
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        text = page.read_text()
        found = {one or other for one, other in loads.findall(text)}
        assert [address for address in found if "//" in address] == [], page
        # The theme would fetch what draws these.
        assert 'class="mermaid"' not in text, page


def test_decisions_and_measured_facts_are_not_found_by_the_search(site):
    index = json.loads((site / "search" / "search_index.json").read_text())
    found = {one["location"].partition("#")[0] for one in index["docs"]}
    assert (site / "adr" / "0001-events-only" / "index.html").is_file()
    assert {"rules/", "reference/bundle/"} < found
    assert {one for one in found if one.startswith(("adr/", "facts/"))} == set()


def shown(picture):
    """The words of a picture."""
    text = " ".join(re.findall(r">([^<>]+)</text>", picture.read_text()))
    return html.unescape(text).replace("\xa0", " ")


@pytest.mark.parametrize("diagram", DIAGRAMS, ids=lambda path: path.stem)
def test_a_diagram_was_drawn_from_its_source(diagram):
    labels = re.findall(r'label="([^"]+)"', diagram.read_text())
    assert labels
    drawn = shown(diagram.with_suffix(".svg"))
    for label in labels:
        for line in label.split("\\n"):
            assert line in drawn, "run make diagrams"


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_shows_its_commands(name):
    picture = shown(IMAGES / f"{name}.svg")
    for command in PICTURES[name]:
        assert f"$ copyrator {command}" in picture, "run make picture"


def test_the_readmes_picture_has_20_lines_at_most():
    """Lines with a text, which begins at the left."""
    lines = re.findall(r'<text [^>]*\bx="0"', (IMAGES / "demo.svg").read_text())
    assert 10 < len(lines) <= 20


@pytest.mark.parametrize("picture", sorted(IMAGES.glob("*.*g")), ids=lambda path: path.stem)
def test_a_picture_is_shown_by_a_document_and_loads_nothing(picture):
    documents = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert any(f"images/{picture.name})" in one.read_text() for one in documents)
    assert b"@font-face" not in picture.read_bytes()
