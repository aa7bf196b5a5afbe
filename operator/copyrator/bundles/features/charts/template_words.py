"""Splits Go templates into words as ``text/template/parse`` does (lex.go of Go 1.26).

Where Go refuses a text this may accept it, such as a block without an end: a template that werf
can't parse writes nothing. What Go accepts is split the same way. Text between actions and comments
have no words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class TemplateSyntaxError(Exception):
    """A template can't be parsed."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line = line


class WordKind(StrEnum):
    """The kind of a word; a keyword's is the keyword."""

    OPEN = "{{"
    CLOSE = "}}"
    SPACE = "space"
    STRING = "string"
    LITERAL = "literal"
    """A number, a character, true or false."""
    NIL = "nil"
    IDENTIFIER = "identifier"
    FIELD = "field"
    """``.name``"""
    VARIABLE = "variable"
    """``$name``"""
    DOT = "."
    DECLARE = ":="
    ASSIGN = "="
    COMMA = ","
    PIPE = "|"
    LEFT = "("
    RIGHT = ")"
    KEYWORD = "keyword"


@dataclass(frozen=True, slots=True)
class Word:
    """A word of an action."""

    kind: WordKind
    text: str
    line: int


KEYWORDS: Final = frozenset(
    {"block", "break", "continue", "define", "else", "end", "if", "range", "template", "with"}
)
_SPACE: Final = tuple(" \t\r\n")
_SIMPLE: Final = {
    "=": WordKind.ASSIGN,
    "|": WordKind.PIPE,
    "(": WordKind.LEFT,
    ")": WordKind.RIGHT,
    ",": WordKind.COMMA,
}
_WORD: Final = re.compile(
    r"""(?P<space>[ \t\r\n]+)
    |(?P<declare>:=)
    |(?P<simple>[=|(),])
    |(?P<quoted>"(?:\\[^\n]|[^"\\\n])*")
    |(?P<raw>`[^`]*`)
    |(?P<char>'(?:\\[^\n]|[^'\\\n])*')
    |(?P<variable>\$\w*)
    |(?P<field>\.(?![0-9])\w*)
    |(?P<number>[-+.0-9][-+.0-9A-Za-z_]*)
    |(?P<identifier>\w+)""",
    re.VERBOSE,
)
_ESCAPE: Final = re.compile(
    rb"""\\(?:(?P<simple>[abfnrtv\\"])|x(?P<hex>[0-9a-fA-F]{2})|(?P<octal>[0-7]{3})
    |u(?P<short>[0-9a-fA-F]{4})|U(?P<long>[0-9a-fA-F]{8})|(?P<bad>.?))""",
    re.VERBOSE | re.DOTALL,
)
_SIMPLE_ESCAPES: Final = dict(zip(b'abfnrtv\\"', b'\a\b\f\n\r\t\v\\"', strict=True))


def words(text: str, first_line: int = 1) -> Iterator[Word]:
    """The words of all actions; OPEN and CLOSE enclose each. Text and comments are left out.

    Raises:
        TemplateSyntaxError: Go doesn't accept it either, or a character is unknown here.
    """
    at, counted, line = 0, 0, first_line
    while (start := text.find("{{", at)) >= 0:
        line, counted, at = line + text.count("\n", counted, start), start, start + 2
        if text.startswith("-", at) and text[at + 1 : at + 2] in _SPACE:
            at += 2
        if text.startswith("/*", at):
            at = _comment_end(text, at, line)
            continue
        yield Word(WordKind.OPEN, "{{", line)
        depth = 0
        while not (length := _closes(text, at)):
            line, counted = line + text.count("\n", counted, at), at
            word, at = _word(text, at, line)
            depth += (word.kind is WordKind.LEFT) - (word.kind is WordKind.RIGHT)
            if depth < 0:
                raise TemplateSyntaxError(line, "a parenthesis is closed that wasn't opened")
            yield word
        if depth:
            raise TemplateSyntaxError(line, "a parenthesis isn't closed")
        at += length
        yield Word(WordKind.CLOSE, "}}", line)


def _closes(text: str, at: int) -> int:
    """The length of the braces that end an action here, with their trim marker; 0: none."""
    if text.startswith("}}", at):
        return 2
    return 4 if text[at : at + 1] in _SPACE and text.startswith("-}}", at + 1) else 0


def _comment_end(text: str, at: int, line: int) -> int:
    end = text.find("*/", at + 2)
    if end < 0:
        raise TemplateSyntaxError(line, "a comment has no end")
    if not (length := _closes(text, end + 2)):
        raise TemplateSyntaxError(line, "something follows a comment in its braces")
    return end + 2 + length


def _word(text: str, at: int, line: int) -> tuple[Word, int]:
    """The word that begins here, and where it ends."""
    found = _WORD.match(text, at)
    if found is None:
        what = "an action isn't closed" if at >= len(text) else "an unknown character"
        raise TemplateSyntaxError(line, what)
    end = found.end()
    if found.lastgroup == "space" and text.startswith("-}}", end):
        end -= 1  # it belongs to the trim marker
    kind, value = _meaning(found, line)
    if kind in _ENDS and text[end : end + 1] not in _TERMINATORS and not _closes(text, end):
        raise TemplateSyntaxError(line, "an unknown character after a name")
    return Word(kind, value, line), end


_ENDS: Final = frozenset(
    {
        WordKind.FIELD,
        WordKind.VARIABLE,
        WordKind.DOT,
        WordKind.IDENTIFIER,
        WordKind.KEYWORD,
        WordKind.NIL,
    }
)
"""Words after which only some characters may follow."""


_TERMINATORS: Final = ("", *" \t\r\n.,|:)(")


def _meaning(found: re.Match[str], line: int) -> tuple[WordKind, str]:
    text = found[0]
    match found.lastgroup:
        case "simple":
            return _SIMPLE[text], text
        case "quoted" | "raw":
            return WordKind.STRING, _unquote(text, line)
        case "field":
            return (WordKind.DOT if text == "." else WordKind.FIELD), text[1:]
        case "identifier":
            kind = WordKind.KEYWORD if text in KEYWORDS else WordKind.IDENTIFIER
            return _CONSTANTS.get(text, kind), text
    return _GROUPS[found.lastgroup or ""], text


_CONSTANTS: Final = {"true": WordKind.LITERAL, "false": WordKind.LITERAL, "nil": WordKind.NIL}
_GROUPS: Final = {
    "space": WordKind.SPACE,
    "declare": WordKind.DECLARE,
    "char": WordKind.LITERAL,
    "number": WordKind.LITERAL,
    "variable": WordKind.VARIABLE,
}


def _unquote(text: str, line: int) -> str:
    """The value of a string (strconv.Unquote)."""
    inner = text[1:-1]
    if text[0] == "`":
        return inner.replace("\r", "")

    def escaped(found: re.Match[bytes]) -> bytes:
        if found["simple"]:
            return bytes([_SIMPLE_ESCAPES[found["simple"][0]]])
        if found["hex"]:
            return bytes([int(found["hex"], 16)])
        if found["octal"] and int(found["octal"], 8) < 256:
            return bytes([int(found["octal"], 8)])
        point = int(found["short"] or found["long"] or b"110000", 16)
        if point > 0x10FFFF or 0xD800 <= point < 0xE000:
            raise TemplateSyntaxError(line, "a string has an invalid escape")
        return chr(point).encode()

    raw = inner.encode(errors="replace")
    return _ESCAPE.sub(escaped, raw).decode(errors="replace")
