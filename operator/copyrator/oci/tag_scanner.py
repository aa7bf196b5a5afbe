"""An incremental parser for a page of a tag list, which never holds the whole page.

A decoder of whole pages makes a string of each tag at once: 1.7 million of them, 100 MB, from 8 MB
of two-letter tags. Here only one batch of tags and the incomplete end of the text are in memory.
Anything but strings under "tags", or brackets that don't match, make the page invalid: an
incomplete list looks as if newer versions were deleted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum, auto
from typing import Final

import msgspec

from copyrator.settings.limits import TAG_CHARACTERS

BATCH: Final = 1000
"""Tags that are decoded at a time."""
PIECE: Final = 16 * 1024
"""Bytes that are parsed in one step, and ..."""
STEP: Final = 1000
"""... values and punctuation: some milliseconds. A run of well-formed tags counts as one."""
MAX_DEPTH: Final = 64
MAX_TOKEN: Final = 64 * 1024
"""Bytes of a string or number, which is held until it is complete."""

_SPACE = rb"[ \t\n\r]*"
_TOKEN = re.compile(
    _SPACE + rb"(?:(?P<sign>[\[\]{},:])"
    rb'|"(?P<text>[^"\\\x00-\x1f]*(?:\\["\\/bfnrtu][^"\\\x00-\x1f]*)*)"'
    rb"|(?P<scalar>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null)"
    rb"(?=[ \t\n\r,\]}]))"
)
_PLAIN = rb'"[A-Za-z0-9_.-]{1,%d}"' % TAG_CHARACTERS
_RUN = re.compile(rb"(?:" + _SPACE + _PLAIN + _SPACE + rb",){1,%d}" % BATCH)
"""Tags as the specification requires, each with its comma: nearly every page is one such run."""

_DIGEST = re.compile(r"[a-z][a-z0-9+._-]{0,31}[:-][0-9a-fA-F]{64,256}(?:\.[a-z0-9-]{1,16})?")
"""A digest as some registries list it among the tags: ``sha512:…``, ``sha512-….sig``."""

_strings = msgspec.json.Decoder(list[str])


_SKIPPED = re.compile(rb'(?:[^"\[\]{}]+|"[^"\\]*(?:\\.[^"\\]*)*")*', re.DOTALL)
"""The text between two brackets of a value that is skipped."""


class NotATagListError(ValueError):
    """The text isn't a tag list; the message doesn't quote it."""


class _Expect(Enum):
    VALUE = auto()
    VALUE_OR_END = auto()
    KEY = auto()
    KEY_OR_END = auto()
    COLON = auto()
    COMMA_OR_END = auto()


class TagScanner:
    """Parses one page of at most `room` values and punctuation: `feed` it, then `close` it.

    Attributes:
        room: the remaining number of them.
    """

    def __init__(self, room: int) -> None:
        self.room = room
        self._rest = b""
        self._stack = b""
        """The open brackets."""
        self._expect = _Expect.VALUE
        self._key = ""
        """The outermost object's key whose value is being parsed."""
        self._found = False
        """Whether there was a key "tags"."""

    def feed(self, piece: bytes) -> Iterator[list[str]]:
        """Yield the tags that are complete now, at most BATCH at a time.

        Yields an empty list after STEP values without tags: a step takes some milliseconds.

        Raises:
            NotATagListError: the text isn't the beginning of a tag list.
        """
        for start in range(0, len(piece), PIECE):
            yield from self._step(self._rest + piece[start : start + PIECE])

    def close(self) -> None:
        """Check that the page is complete.

        Raises:
            NotATagListError: it isn't, or has no tags.
        """
        if self._rest.strip(b" \t\n\r") or self._stack or not self._found:
            raise NotATagListError("it isn't complete")

    @property
    def _in_tags(self) -> bool:
        return self._key == "tags" and self._stack == b"{["

    @property
    def _wants_tag(self) -> bool:
        return self._expect in (_Expect.VALUE, _Expect.VALUE_OR_END) and self._in_tags

    def _step(self, text: bytes) -> Iterator[list[str]]:
        tags: list[str] = []
        at = done = 0
        while True:
            if self._wants_tag and (run := _RUN.match(text, at)):
                if tags:
                    yield tags
                    tags = []
                yield _strings.decode(b"[" + run[0].rstrip(b", \t\n\r") + b"]")
                self._expect, at = _Expect.VALUE, run.end()
                continue
            if self._skips:
                after = self._skip(text, at)
            else:
                token = _TOKEN.match(text, at)
                after = token.end() if token else at
                if token and (tag := self._take(token)) is not None:
                    tags.append(tag)
            if after == at:
                break
            at = after
            done += 1
            if done % STEP == 0:
                self._use_room(STEP)
                yield tags
                tags = []
        self._use_room(done % STEP)
        self._rest = text[at:]
        if len(self._rest) > MAX_TOKEN:
            raise NotATagListError("a value is too long")
        yield tags

    def _use_room(self, number: int) -> None:
        self.room -= number
        if self.room < 0:
            raise NotATagListError("it has too many values")

    @property
    def _skips(self) -> bool:
        """Whether the current value isn't the tags, so that it is skipped."""
        return len(self._stack) > 1 and self._key != "tags"

    def _skip(self, text: bytes, at: int) -> int:
        """Advance past the next bracket, or as far as strings are complete."""
        run = _SKIPPED.match(text, at)
        at = run.end() if run else at
        sign = text[at : at + 1]
        if sign in (b"[", b"{"):
            self._open(sign)
        elif sign in (b"]", b"}"):
            self._close(sign)
        else:
            return at
        return at + 1

    def _take(self, token: re.Match[bytes]) -> str | None:
        """Process one token; return it if it is a tag."""
        if token["sign"] is not None:
            self._sign(token["sign"])
        elif token["text"] is not None:
            return self._text(token["text"])
        else:
            self._value(token["scalar"])
            self._expect = _Expect.COMMA_OR_END
        return None

    def _sign(self, sign: bytes) -> None:
        if sign in b"[{":
            self._value(sign)
            self._open(sign)
            self._expect = _Expect.KEY_OR_END if sign == b"{" else _Expect.VALUE_OR_END
        elif sign in b"]}":
            self._need(
                _Expect.COMMA_OR_END,
                _Expect.VALUE_OR_END if sign == b"]" else _Expect.KEY_OR_END,
            )
            self._close(sign)
        elif sign == b",":
            self._need(_Expect.COMMA_OR_END)
            if not self._stack:
                raise NotATagListError("it has text after its end")
            self._expect = _Expect.KEY if self._stack[-1:] == b"{" else _Expect.VALUE
        else:
            self._need(_Expect.COLON)
            self._expect = _Expect.VALUE

    def _open(self, sign: bytes) -> None:
        self._stack += sign
        if len(self._stack) > MAX_DEPTH:
            raise NotATagListError("it is nested too deeply")

    def _close(self, sign: bytes) -> None:
        if self._stack[-1:] != (b"[" if sign == b"]" else b"{"):
            raise NotATagListError("it has an unmatched closing bracket")
        self._stack = self._stack[:-1]
        self._expect = _Expect.COMMA_OR_END

    def _text(self, raw: bytes) -> str | None:
        if self._expect in (_Expect.KEY, _Expect.KEY_OR_END):
            if len(self._stack) == 1:
                self._begin(_decoded(raw))
            self._expect = _Expect.COLON
            return None
        tag = _decoded(raw) if self._in_tags else None
        if tag is None:
            self._value(b'"')
        else:
            self._need(_Expect.VALUE, _Expect.VALUE_OR_END)
        self._expect = _Expect.COMMA_OR_END
        if tag is None or len(tag) <= TAG_CHARACTERS:
            return tag
        if _DIGEST.fullmatch(tag):  # of sha512, say: no tag
            return None
        raise NotATagListError("a tag is too long")

    def _begin(self, key: str) -> None:
        self._key = key
        if key == "tags":
            if self._found:
                raise NotATagListError("it has tags twice")
            self._found = True

    def _value(self, first: bytes) -> None:
        """Check that a value other than a tag is allowed here."""
        self._need(_Expect.VALUE, _Expect.VALUE_OR_END)
        if not self._stack and first != b"{":
            raise NotATagListError("it isn't an object")
        if self._in_tags:
            raise NotATagListError("a tag isn't a string")
        if self._stack == b"{" and self._key == "tags" and first not in (b"[", b"null"):
            raise NotATagListError("its tags aren't a list")

    def _need(self, *expected: _Expect) -> None:
        if self._expect not in expected:
            raise NotATagListError("it isn't JSON")


def _decoded(raw: bytes) -> str:
    try:
        return str(msgspec.json.decode(b'"' + raw + b'"', type=str))
    except (msgspec.MsgspecError, ValueError):
        raise NotATagListError("it has an invalid string") from None
