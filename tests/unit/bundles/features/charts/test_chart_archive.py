"""Packed charts: hostile ones end at a limit or are unreadable, and none raises."""

import gzip
import io
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.packed_charts import CHART_YAML, chart, pack, pack_entries, pack_infos

from copyrator.bundles.features.charts.archive import CHART_FILES
from copyrator.bundles.features.charts.facts import ChartFacts, judge_layer

VENDORED = {
    "Chart.yaml": CHART_YAML
    + "dependencies: [{name: db, version: ~1.0, repository: https://charts.example}]",
    "Chart.lock": "dependencies: [{name: db, version: 1.0.3, repository: https://charts.example}]",
}

ONE = "dependencies: [{{name: db, version: {}, repository: https://c}}]"
"""A version that is a number is taken as werf takes it."""
NESTED = "name: db\nversion: 1.0.3\ndependencies: [{name: c, version: 2}]"


def _info(name: str, kind: bytes = tarfile.REGTYPE, **fields: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    for key, value in fields.items():
        setattr(info, key, value)
    return info


def _links(kind: bytes) -> bytes:
    return pack_infos([(_info("shop/a", kind, linkname="/etc/passwd"), b"")])


def _patched(at: int, new: bytes, *, checksum: bool = True) -> bytes:
    """An archive of one file whose header has other bytes at a place."""
    tar = bytearray(gzip.decompress(chart("a")))
    tar[at : at + len(new)] = new
    if checksum:
        tar[148:156] = b" " * 8
        tar[148:156] = b"%06o\0 " % sum(tar[:512])
    return gzip.compress(bytes(tar))


def _many_files() -> bytes:
    return pack({f"f{at}": "" for at in range(CHART_FILES + 1)})


def _bomb() -> bytes:
    return gzip.compress(bytes(110 * 2**20))


def _nested_bomb() -> bytes:
    inner = pack({"Chart.yaml": "name: a", "files/big": bytes(40 * 2**20)}, "a")
    return pack({"Chart.yaml": CHART_YAML, **{f"charts/{at}.tgz": inner for at in range(3)}})


def _large_templates() -> bytes:
    inner = pack({"Chart.yaml": "name: a", "templates/big": bytes(12 * 2**20)}, "a")
    return pack({"Chart.yaml": CHART_YAML, **{f"charts/{at}.tgz": inner for at in range(3)}})


def _in_a_directory() -> bytes:
    """A file that Go's reader sees, in what seems to be the content of a directory."""
    inner = gzip.decompress(pack_entries([("shop/templates/b", "{{ now }}")]))[:1024]
    tar = bytearray(gzip.decompress(pack_entries([("shop/d", inner), ("shop/Chart.yaml", "")])))
    tar[156:157] = b"5"
    tar[148:156] = b" " * 8
    tar[148:156] = b"%06o\0 " % sum(tar[:512])
    return gzip.compress(bytes(tar))


@pytest.mark.parametrize(
    ("layer", "why"),
    [
        (lambda: b"", "it is cut off"),
        (lambda: b"no archive", "it isn't packed with gzip"),
        (lambda: gzip.compress(b"no archive"), "it is cut off"),
        (lambda: chart("a")[:-40], "it is cut off"),
        (lambda: chart("a") + b"more", "it isn't packed with gzip"),
        (lambda: bytes(9 * 2**20), "it has more than 8 MiB"),
        (_bomb, "unpacked it has more than 100 MiB"),
        (_nested_bomb, "of charts/2.tgz: unpacked it has more than 100 MiB"),
        (_large_templates, "of charts/2.tgz: its templates, CRDs and subcharts have more than 32"),
        (_in_a_directory, "a header in it contradicts itself"),
        (lambda: _patched(100, b"0040644\0"), "a header in it contradicts itself"),
        (lambda: _patched(508, b"tar\0"), "a header in it is of an unknown form"),
        (lambda: _patched(148, b"x", checksum=False), "a header in it has no number where one"),
        (lambda: gzip.compress(b"") * 20, "it is packed in too many parts"),
        (_many_files, "it has more than 5000 files"),
        (lambda: _links(tarfile.SYMTYPE), "shop/a in it is a link, a device"),
        (lambda: _links(tarfile.LNKTYPE), "shop/a in it is a link, a device"),
        (lambda: _links(tarfile.CHRTYPE), "shop/a in it is a link, a device"),
        (lambda: _links(tarfile.FIFOTYPE), "shop/a in it is a link, a device"),
        (lambda: pack_entries([("/etc/a", "")]), "/etc/a in it is outside of"),
        (lambda: pack_entries([("shop/../a", "")]), "shop/../a in it is outside of"),
        (lambda: pack_entries([("../shop/a", "")]), "../shop/a in it is outside"),
        (lambda: pack_entries([("./shop/a", "")]), "./shop/a in it is outside of"),
        (lambda: pack_entries([("a", "")]), "a in it is outside of"),
        (lambda: pack_entries([("shop\\a", "")]), "shop\\a in it has control"),
        (lambda: pack_entries([("shop/a\n", "")]), "shop/a? in it has control"),
        (lambda: pack_entries([("shop/a", ""), ("b/a", "")]), "it has more than one top directory"),
        (lambda: pack_entries([("shop/a", ""), ("shop/a", "")]), "it has two files a"),
        (lambda: pack_entries([]), "it has no files"),
        (lambda: _patched(0, b"x", checksum=False), "a header in it is damaged"),
        (lambda: _patched(257, b"xxxxx"), "it isn't a tar archive"),
        (lambda: _patched(124, b"\x80" + bytes(11)), "a header in it has no number"),
        (lambda: _patched(124, b"77777777777\0"), "its templates, CRDs and subcharts"),
        (lambda: gzip.compress(gzip.decompress(chart("a")) + b"x"), "it goes on after its end"),
        (lambda: gzip.compress(gzip.decompress(chart("a"))[:1024]), "it is cut off"),
        (lambda: pack({"charts/a.tgz": "x" * 40}), "of charts/a.tgz: it isn't packed with"),
        (lambda: pack({"charts/a.tgz/b": "x"}), "charts/a.tgz is a directory"),
        (lambda: pack({"charts/a/" * 9 + "b": "x"}), "it has more than 8 charts in one another"),
    ],
)  # fmt: skip
def test_an_archive_that_isnt_plain_or_small_is_unreadable(layer, why: str) -> None:  # type: ignore[no-untyped-def]
    facts = judge_layer(layer())

    assert facts.unreadable is not None
    assert facts.unreadable.startswith(why)
    assert facts == ChartFacts(unreadable=facts.unreadable)


def test_long_names_and_directories_are_read() -> None:
    long = "templates/" + "a" * 120
    infos = []
    for name, content in (("shop/Chart.yaml", b"name: shop"), (f"shop/{long}", b"{{ now }}")):
        info = _info(name)
        info.size = len(content)
        infos.append((info, content))
    infos.insert(0, (_info("shop/templates/", tarfile.DIRTYPE), b""))

    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        (why,) = judge_layer(pack_infos(infos, form)).unbound
        assert ": now depends on the time" in why
    assert judge_layer(gzip.compress(gzip.decompress(chart("{{ now }}")))).unbound


def test_large_files_that_nothing_judges_are_left_out() -> None:
    big = {f"files/{at}": bytes(10 * 2**20) for at in range(6)}

    assert judge_layer(chart("{{ now }}", **big)).unbound


def test_aliases_of_yaml_dont_grow() -> None:
    bomb = "a0: &a0 [x, x]\n" + "".join(
        f"a{at}: &a{at} [*a{at - 1}, *a{at - 1}]\n" for at in range(1, 60)
    )

    assert judge_layer(chart(**{"values.yaml": bomb})) == ChartFacts()
    assert "Chart.yaml:1: an anchor (&)" in judge_layer(pack({"Chart.yaml": bomb})).unplain[0]


@given(st.binary(max_size=400))
def test_no_bytes_raise(raw: bytes) -> None:
    assert judge_layer(raw).unreadable is not None
    judge_layer(gzip.compress(raw))


@given(st.integers(0, 3000), st.binary(min_size=1, max_size=4))
def test_no_change_of_an_archive_raises(at: int, new: bytes) -> None:
    tar = bytearray(
        gzip.decompress(pack({**VENDORED, "templates/a": "{{ now }}", "values.yaml": "a: 1"}))
    )
    tar[at : at + len(new)] = new

    judge_layer(gzip.compress(bytes(tar), 1))


@pytest.mark.parametrize(
    ("files", "missing"),
    [
        ({}, ("db 1.0.3",)),
        ({"charts/db/Chart.yaml": "name: db\nversion: 1.0.3"}, ()),
        ({"charts/other/Chart.yaml": "name: db\nversion: 1.0.3"}, ()),
        ({"charts/db-1.tgz": pack({"Chart.yaml": "name: db\nversion: 1.0.3"}, "db")}, ()),
        (
            {"charts/db/Chart.yaml": "name: db\nversion: 1.0.4"},
            ("db 1.0.3 (charts/ has another version)",),
        ),
        ({"charts/db/values.yaml": "a: 1"}, ("db 1.0.3",)),
        *(
            (
                {
                    "Chart.yaml": CHART_YAML + ONE.format("1.0"),
                    "Chart.lock": ONE.format(version),
                    "charts/db/Chart.yaml": "name: db\nversion: '1'\n",
                },
                (),
            )
            for version in ("1.0", "'1'")
        ),
        ({"charts/_db/Chart.yaml": "name: db\nversion: 1.0.3"}, ("db 1.0.3",)),
        (
            {
                "charts/db/Chart.yaml": NESTED
            },
            ("c 2 of charts/db",),
        ),
        (
            {
                "charts/db/Chart.yaml": NESTED,
                "charts/db/charts/c/Chart.yaml": "name: c\nversion: 2.1",
            },
            (),
        ),
    ],
)  # fmt: skip
def test_what_chart_yaml_and_chart_lock_name_has_to_be_in_charts(
    files: dict[str, str | bytes], missing: tuple[str, ...]
) -> None:
    assert judge_layer(pack({**VENDORED, **files})).unvendored == missing


@pytest.mark.parametrize(
    ("files", "missing"),
    [
        ({"Chart.yaml": "name: a\ndependencies: []"}, ()),
        (
            {"Chart.yaml": "name: a\ndependencies: [x, {}]", "charts/a": "x"},
            ("one without a name",),
        ),
        ({"Chart.yaml": "name: a\ndependencies: [{name: b, alias: c}]"}, ("b",)),
        (
            {
                "Chart.yaml": "name: a\ndependencies: [{name: b, alias: c}]",
                "charts/c/Chart.yaml": "name: c",
            },
            (),
        ),
        (
            {
                "Chart.yaml": "name: a\ndependencies: [{name: b, repository: 'file://../b'}]",
                "Chart.lock": "dependencies: [{name: b, version: 1, repository: 'file://../b'}]",
                "charts/b/Chart.yaml": "name: b\nversion: 2",
            },
            (),
        ),
        ({"requirements.yaml": "dependencies: [{name: b, version: 1}]"}, ("b 1",)),
        ({"requirements.lock": "dependencies: [{name: b, version: 1}]"}, ("b 1",)),
        ({"Chart.lock": '{"dependencies": [{"name": "b", "version": "1"}]}'}, ("b 1",)),
        ({"Chart.yaml": "dependencies: [{name: b, condition: b.enabled}]"}, ("b",)),
        ({"Chart.yaml": f"dependencies: [{{name: {'b' * 300}}}]"}, ("b" * 80 + "…",)),
    ],
)
def test_dependencies_of_all_forms_are_compared(
    files: dict[str, str | bytes], missing: tuple[str, ...]
) -> None:
    assert judge_layer(pack({"Chart.yaml": CHART_YAML, **files})).unvendored == missing


def test_at_most_twenty_missing_dependencies_are_named() -> None:
    many = ", ".join(f"{{name: d{at}}}" for at in range(50))

    assert len(judge_layer(pack({"Chart.yaml": f"dependencies: [{many}]"})).unvendored) == 20


def test_gzip_members_in_a_row_are_one_archive() -> None:
    tar = gzip.decompress(chart("{{ now }}"))
    found = io.BytesIO()
    for part in (tar[:700], tar[700:]):
        found.write(gzip.compress(part))

    assert judge_layer(found.getvalue()).unbound
