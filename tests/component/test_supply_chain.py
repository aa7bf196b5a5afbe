"""What we depend on: no known vulnerability, no licence that binds, nothing abandoned."""

import datetime
import re
import subprocess
import sys

import pytest

import audit
from dependencies import DOCUMENT, REASONS, ROOT, licence

ALLOWED = (
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "MIT",
    "MIT-0",
    "MPL-2.0",  # binds changes of its own files only; we change none
    "PSF-2.0",
    "Unlicense",
)
SPELLED = {
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "The Unlicense (Unlicense)": "Unlicense",
}
"""How metadata from before SPDX expressions name them."""

TWO_YEARS = datetime.timedelta(days=730)


def pinned(lock: str) -> set[str]:
    """`name==version` of each package in a lock file."""
    return set(re.findall(r"^([a-z0-9-]+==\S+)", (ROOT / lock).read_text(), re.MULTILINE))


PLAIN, KEYLESS, CLOUDS, DEV = (
    pinned(f"requirements{one}.lock") for one in ("", "-keyless", "-clouds", "-dev")
)
LOCKED = sorted(one.partition("==")[0] for one in CLOUDS)
"""What is in an image; the variant for clouds' registries has all of the others."""


def vulnerability(*aliases):
    return {"id": "PYSEC-1", "aliases": list(aliases), "fix_versions": ["2"]}


def test_the_lock_has_no_known_vulnerability():
    done = subprocess.run(
        [sys.executable, audit.__file__], capture_output=True, text=True, check=False
    )
    if done.returncode == audit.UNKNOWN:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("dependencies", "code", "said"),
    [
        ([{"name": "a", "version": "1", "vulns": []}], 0, "No known vulnerability in 1"),
        (
            [{"name": "a", "version": "1", "vulns": [vulnerability()]}],
            audit.FOUND,
            "a 1: PYSEC-1, fixed in 2",
        ),
        ([{"name": "a", "skip_reason": "not found"}], audit.UNKNOWN, "NOT AUDITED"),
        ([], audit.UNKNOWN, "NOT AUDITED"),
        (
            [
                {"name": "a", "skip_reason": "not found"},
                {"name": "b", "version": "1", "vulns": [vulnerability()]},
            ],
            audit.FOUND,
            "b 1",
        ),
    ],
)
def test_silence_is_no_good_news(dependencies, code, said):
    found, text = audit.judge({"dependencies": dependencies})
    assert found == code
    assert said in text


def test_an_advisory_is_left_out_only_by_name(monkeypatch):
    known = {"dependencies": [{"name": "a", "version": "1", "vulns": [vulnerability("CVE-1")]}]}
    assert audit.judge(known)[0] == audit.FOUND
    monkeypatch.setitem(audit.EXCEPTIONS, "CVE-1", "we don't call it")
    assert audit.judge(known)[0] == 0


@pytest.mark.parametrize("name", LOCKED)
def test_the_licence_of_a_dependency_lets_us_use_it(name):
    words = re.split(r" (?:AND|OR) |, ", licence(name))
    assert {SPELLED.get(word, word) for word in words} <= set(ALLOWED)


def test_images_variants_and_the_tests_have_the_same_versions_as_the_plain_image():
    assert PLAIN < KEYLESS < CLOUDS < DEV


def test_every_direct_dependency_is_documented_argued_and_alive():
    text = DOCUMENT.read_text()
    written = datetime.date.fromisoformat(re.findall(r"^As of ([\d-]+)\.$", text, re.MULTILINE)[0])
    rows = re.findall(
        r"^\| ([a-z0-9-]+) \| .+ \| .+ \| ([^ ]+) \| ([\d-]+) \|$", text, re.MULTILINE
    )
    assert [name for name, _, _ in rows] == sorted(REASONS)
    for name, version, day in rows:
        assert f"{name}=={version}" in CLOUDS, f"{name}: run make lock"
        assert written - datetime.date.fromisoformat(day) < TWO_YEARS, name


def test_a_rule_against_insecure_code_is_only_switched_off_with_a_reason():
    sources = [*ROOT.glob("operator/**/*.py"), *ROOT.glob("hack/**/*.py")]
    bare = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in sources
        for line in path.read_text().splitlines()
        if re.search(r"# noqa: (?:\w+, )*S\d+(?!\d*(?:, \w+)* - \w)", line)
    ]
    assert bare == []


def test_the_numbers_of_dependencies_are_those_in_the_docs():
    page = (ROOT / "docs" / "reliability.md").read_text()
    oldest = min(re.findall(r"\| (\d{4}-\d\d-\d\d) \|$", DOCUMENT.read_text(), re.MULTILINE))
    assert f"{len(LOCKED)} dependencies, all with an allowed licence" in page
    assert f"of the {len(REASONS)} [direct ones](dependencies.md)" in page
    assert f"the oldest latest release is of {oldest} |" in page
