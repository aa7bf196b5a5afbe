import pytest
from hypothesis import given
from hypothesis import strategies as st

from copyrator.copies.seal.sealing import DIGEST_BYTES, Sealer

SEALER = Sealer(b"k" * 32)
PLACE = ("secrets", "team-a", "creds", "default/rule")


def test_a_seal_opens_at_its_place():
    digest = SEALER.digest({"data": {"a": "b"}})
    assert len(digest) == DIGEST_BYTES
    assert SEALER.open(SEALER.seal(digest, *PLACE), *PLACE) == digest


@pytest.mark.parametrize("part", range(4))
def test_a_seal_from_elsewhere_opens_nowhere(part):
    seal = SEALER.seal(SEALER.digest({}), *PLACE)
    elsewhere = list(PLACE)
    elsewhere[part] += "x"
    assert SEALER.open(seal, *elsewhere) is None


def test_another_key_makes_and_opens_other_seals():
    other = Sealer(b"o" * 32)
    assert other.digest({"a": 1}) != SEALER.digest({"a": 1})
    assert other.open(SEALER.seal(SEALER.digest({}), *PLACE), *PLACE) is None


@pytest.mark.parametrize("text", ["", "nonsense", "ü", "AAAA", "=" * 32, "A" * 31, "A" * 1000])
def test_junk_opens_nowhere(text):
    assert SEALER.open(text, *PLACE) is None


@given(st.dictionaries(st.text(), st.text()), st.dictionaries(st.text(), st.text()))
def test_the_digest_differs_exactly_when_the_content_does(one, other):
    assert (SEALER.digest(one) == SEALER.digest(other)) == (one == other)


def test_the_digest_doesnt_depend_on_the_order_of_keys():
    assert SEALER.digest({"a": 1, "b": 2}) == SEALER.digest({"b": 2, "a": 1})


def test_a_seal_fits_a_line_and_shows_nothing_of_the_content():
    seal = SEALER.seal(SEALER.digest({"data": {"password": "cGFzc3dvcmQ="}}), *PLACE)
    assert len(seal) == 32


@pytest.mark.parametrize("key", [b"", b"short", b"x" * 33])
def test_a_key_of_another_length_is_refused(key):
    with pytest.raises(ValueError, match="bytes"):
        Sealer(key)


def test_seals_are_those_of_the_versions_before_so_that_an_upgrade_writes_nothing():
    sealer = Sealer(bytes(range(32)))
    digest = sealer.digest({"data": {"a": "YQ=="}})
    assert digest.hex() == "bf6f80fdfe067fb889215ad03298ae8c"
    assert sealer.seal(digest, *PLACE) == "v2-A_f4Gf7iJIVrQMpiujLnEAwmJ-QaK"


@pytest.mark.parametrize("change", ["\n", " ", "!", "\0"])
def test_a_seal_with_anything_between_opens_nowhere(change):
    seal = SEALER.seal(SEALER.digest({}), *PLACE)
    assert SEALER.open(seal[:9] + change + seal[9:], *PLACE) is None
    assert SEALER.open(seal + change, *PLACE) is None


def test_sealers_with_one_key_are_equal():
    assert Sealer(b"k" * 32) == SEALER
    assert hash(Sealer(b"k" * 32)) == hash(SEALER)
    assert Sealer(b"o" * 32) != SEALER
    assert len({hash(Sealer(bytes([n]) * 32)) for n in range(9)}) == 9
    assert SEALER != b"k" * 32
