"""The search itself finds what it has to find."""

import base64
import hashlib
import json
from urllib.parse import quote

import pytest
from tests.e2e.secrecy.sentinels import Sentinels


@pytest.mark.parametrize(
    "disguise",
    [
        lambda value: value,
        lambda value: json.dumps({"message": f"it was {value}!"}),
        lambda value: base64.b64encode(value.encode()).decode(),
        lambda value: base64.b64encode(f"user:{value}".encode()).decode(),
        lambda value: base64.b64encode(f"me:{value}:more".encode()).decode(),
        lambda value: base64.b64encode(base64.b64encode(value.encode())).decode(),
        quote,
        lambda value: value.encode().hex(),
        lambda value: hashlib.sha256(value.encode()).hexdigest()[:20],
        lambda value: hashlib.md5(base64.b64encode(value.encode())).hexdigest(),
        lambda value: base64.b64encode(hashlib.sha1(value.encode()).digest()).decode(),
    ],
)
def test_a_value_is_found_in_every_disguise(disguise):
    sentinels = Sentinels()
    text = f"before {disguise(sentinels.new('it'))} after"
    assert sentinels.leaks(text)
    assert not Sentinels(sentinels.values).leaks(text)


def test_what_has_nothing_to_do_with_it_is_not_found():
    sentinels = Sentinels()
    sentinels.new("one")
    assert sentinels.leaks(f"S3ntinel and {hashlib.sha256(b'another').hexdigest()}") == []
