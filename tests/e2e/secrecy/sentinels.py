"""Values that nothing else in the world has, and every form in which one could come to light."""

import base64
import hashlib
import json
import secrets
from dataclasses import dataclass, field
from urllib.parse import quote, quote_plus

_DIGESTS = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512", "blake2b", "blake2s")
_SHOWN = 16
"""Characters of a digest that count as the digest: nobody shows fewer and means it."""


@dataclass
class Sentinels:
    """All values of a run; `leaks` tells which of them a text holds, and in which form."""

    values: dict[str, str] = field(default_factory=dict)
    _forms: dict[str, str] = field(default_factory=dict)

    def new(self, name: str) -> str:
        """A value with what URLs, JSON and shells want to be escaped."""
        value = f'S3ntinel+{secrets.token_hex(8)}/"{name}"&='
        return self._look_for(name, value)

    def new_token(self, name: str) -> str:
        """Likewise, of the characters that a bearer token may have (RFC 6750)."""
        return self._look_for(name, f"S3ntinel+{secrets.token_hex(8)}/{name}==")

    def watch(self, name: str, value: str) -> None:
        """Look for a value that another has made, as it is."""
        self._forms[value] = name

    def _look_for(self, name: str, value: str) -> str:
        self.values[name] = value
        for form, text in forms(value).items():
            self._forms[text] = f"{name} as {form}"
        return value

    def leaks(self, text: str) -> list[str]:
        return sorted({what for form, what in list(self._forms.items()) if form in text})


def forms(value: str) -> dict[str, str]:
    """A value as it is, encoded, and hashed without a key."""
    raw = value.encode()
    core = value.split("+")[1].split("/", maxsplit=1)[0]  # what no escaping changes
    found = {
        "text": core,
        "hexadecimal": raw.hex(),
        "URL": quote(value, safe=""),
        "form": quote_plus(value),
        "JSON": json.dumps(value)[1:-1],
    }
    for shift in range(3):  # inside of something longer: user:password, a whole document
        for name, encode in (("", base64.b64encode), ("url ", base64.urlsafe_b64encode)):
            encoded = encode(b"\0" * shift + raw).decode()
            found[f"{name}base64 {shift}"] = encoded[4 if shift else 0 : -4]
    twice = base64.b64encode(base64.b64encode(raw)).decode()
    found["base64 twice"] = twice[:-4]
    for name in _DIGESTS:
        for what, content in (
            ("", raw),
            ("base64 ", base64.b64encode(raw)),
            ("line ", raw + b"\n"),
        ):
            digest = hashlib.new(name, content).digest()
            found[f"{name} of {what}hex"] = digest.hex()[:_SHOWN]
            found[f"{name} of {what}base64"] = base64.b64encode(digest).decode()[:_SHOWN]
    return found
