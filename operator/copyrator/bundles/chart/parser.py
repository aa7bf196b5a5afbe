"""Parses Go templates as ``text/template/parse`` does (lex.go and parse.go of Go 1.26).

Where Go refuses a text this may accept it, such as undefined variables: a template that werf can't
parse writes nothing. What Go accepts is split the same way, and has the same meaning. Text between
actions and comments have none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Final

from copyrator.settings.limits import CHART_WORDS


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
        TemplateError: Go doesn't accept it either, or a character is unknown here.
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


_DEPTH: Final = 100
"""Blocks and parentheses in one another, together."""
_LITERALS: Final = frozenset({WordKind.STRING, WordKind.LITERAL, WordKind.NIL, WordKind.DOT})
_OPERANDS: Final = _LITERALS | {
    WordKind.IDENTIFIER,
    WordKind.FIELD,
    WordKind.VARIABLE,
    WordKind.LEFT,
}


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; ``text`` is None unless it is a string."""

    text: str | None


@dataclass(frozen=True, slots=True)
class Path:
    """Fields of a value: of ``.``, of a variable (``$x``), or of a parenthesis or function."""

    start: str | FunctionName | Pipe
    """``.``, a variable's name with its ``$``, or what gives the value."""
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FunctionName:
    """A function's name."""

    name: str


@dataclass(frozen=True, slots=True)
class Command:
    """Operands: the first one is called with the others where it is a function or method."""

    line: int
    operands: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pipe:
    """Commands; each gets the value of the one before as its last operand."""

    line: int
    commands: tuple[Command, ...]
    variables: tuple[str, ...] = ()
    """The variables that the value is assigned to."""


Operand = Literal | Path | FunctionName | Pipe


@dataclass(frozen=True, slots=True)
class ActionNode:
    """A pipe whose value is printed, unless it is assigned to a variable."""

    pipe: Pipe


@dataclass(frozen=True, slots=True)
class Invocation:
    """``template NAME PIPE``, and what ``block`` leaves in its place."""

    line: int
    name: str
    pipe: Pipe | None


@dataclass(frozen=True, slots=True)
class Branch:
    """A condition (``if``, ``with``, ``range``; ``else`` without a pipe), and what follows."""

    kind: str
    pipe: Pipe | None
    body: Body


@dataclass(frozen=True, slots=True)
class Control:
    """``if``, ``with`` or ``range`` with all its branches."""

    branches: tuple[Branch, ...]


Body = tuple[ActionNode | Invocation | Control, ...]


@dataclass(slots=True)
class ParsedTemplate:
    """A parsed file: its own body, and those that it defines by name."""

    body: Body = ()
    defined: list[tuple[str, Body]] = field(default_factory=list)
    size: int = 0
    """Words in its actions."""


def parse(text: str, first_line: int = 1) -> ParsedTemplate:
    """Parse one template.

    Raises:
        TemplateError: Go doesn't accept it either, or it is nested too deeply.
    """
    return _Parser(text, first_line).parse()


class _Parser:
    def __init__(self, text: str, first_line: int) -> None:
        self._words = list(islice(words(text, first_line), CHART_WORDS + 1))
        if len(self._words) > CHART_WORDS:
            raise TemplateSyntaxError(first_line, f"it has more than {CHART_WORDS} words")
        self._at = 0
        self._depth = 0
        self._template = ParsedTemplate()
        self._line = first_line

    def parse(self) -> ParsedTemplate:
        body, end = self._body(top=True)
        if end:
            raise self._error(f"{end} without a beginning")
        self._template.body, self._template.size = body, len(self._words)
        return self._template

    def _body(self, *, top: bool = False) -> tuple[Body, str]:
        """What follows up to ``end`` or ``else``, whose word it returns; "" at the text's end."""
        self._enter()
        found: list[ActionNode | Invocation | Control] = []
        keyword = ""
        while self._at < len(self._words) or not top:
            self._expect(WordKind.OPEN)
            word = self._peek()
            keyword = word.text if word.kind is WordKind.KEYWORD else ""
            if keyword:
                self._next()
            if keyword == "end":
                self._expect(WordKind.CLOSE)
            if keyword in ("end", "else"):
                break
            if keyword == "define" and top:
                self._define()
            elif (node := self._node(keyword)) is not None:
                found.append(node)
            keyword = ""
        self._depth -= 1
        return tuple(found), keyword

    def _node(self, keyword: str) -> ActionNode | Invocation | Control | None:
        """The action after a keyword (or none); None where it does nothing."""
        match keyword:
            case "if" | "with" | "range":
                return self._control(keyword)
            case "template" | "block":
                return self._invocation(keyword)
            case "break" | "continue":
                self._expect(WordKind.CLOSE)
                return None
            case "":
                return ActionNode(self._pipe(WordKind.CLOSE))
        raise self._error(f"{keyword} is out of place")

    def _define(self) -> None:
        name = self._expect(WordKind.STRING).text
        self._expect(WordKind.CLOSE)
        body, end = self._body()
        if end != "end":
            raise self._error("else is out of place")
        self._template.defined.append((name, body))

    def _invocation(self, keyword: str) -> Invocation:
        name = self._expect(WordKind.STRING)
        pipe = None
        if keyword == "template" and self._peek().kind is WordKind.CLOSE:
            self._next()
        else:
            pipe = self._pipe(WordKind.CLOSE)
        if keyword == "block":
            body, end = self._body()
            if end != "end":
                raise self._error("else is out of place")
            self._template.defined.append((name.text, body))
        return Invocation(name.line, name.text, pipe)

    def _control(self, keyword: str) -> Control:
        branches: list[Branch] = []
        kind, end = keyword, "else"
        pipe: Pipe | None = self._pipe(WordKind.CLOSE, is_range=keyword == "range")
        while True:
            body, end = self._body()
            branches.append(Branch(kind, pipe, body))
            if end == "end":
                return Control(tuple(branches))
            if pipe is None:
                raise self._error("else follows else")
            word = self._next()
            if word.kind is WordKind.CLOSE:
                kind, pipe = "else", None
            elif word.kind is WordKind.KEYWORD and word.text == keyword != "range":
                pipe = self._pipe(WordKind.CLOSE)
            elif word.kind is WordKind.KEYWORD and word.text in ("if", "with"):
                raise self._error(f"else {word.text} is out of place")
            else:
                raise self._error("something follows else")

    def _pipe(self, end: WordKind, *, is_range: bool = False) -> Pipe:
        self._enter()
        line = self._peek().line
        variables = self._variables(is_range=is_range)
        commands: list[Command] = []
        while self._peek().kind is not end:
            if self._peek().kind not in _OPERANDS:
                raise self._error("a word is out of place")
            commands.append(self._command())
        self._next()
        if not commands:
            raise self._error("a value is missing")
        for command in commands[1:]:
            first = command.operands[0]
            if isinstance(first, Literal) or (isinstance(first, Path) and first == _DOT):
                raise self._error("a constant can't take a value from a pipe")
        self._depth -= 1
        return Pipe(line, tuple(commands), variables)

    def _variables(self, *, is_range: bool) -> tuple[str, ...]:
        """The variables before ``:=`` or ``=``; none where the pipe begins with an operand."""
        start, names = self._at, list[str]()
        while self._peek().kind is WordKind.VARIABLE:
            names.append(self._next().text)
            kind = self._peek().kind
            if kind in (WordKind.DECLARE, WordKind.ASSIGN):
                self._next()
                return tuple(names)
            if kind is not WordKind.COMMA:
                break
            if not is_range or len(names) == 2:
                raise self._error("too many variables")
            self._next()
        if len(names) > 1:
            raise self._error("range can only initialize variables")
        self._at = start
        return ()

    def _command(self) -> Command:
        line = self._peek().line
        operands: list[Operand] = []
        while True:
            if self._peek().kind in _OPERANDS:
                operands.append(self._operand())
            kind = self._word().kind
            if kind is WordKind.SPACE:
                self._at += 1
                continue
            if kind is WordKind.PIPE:
                self._at += 1
            elif kind not in (WordKind.CLOSE, WordKind.RIGHT):
                raise self._error("a word is out of place")
            break
        if not operands:
            raise self._error("a command is empty")
        return Command(line, tuple(operands))

    def _operand(self) -> Operand:
        term = self._term()
        fields: list[str] = []
        while self._word().kind is WordKind.FIELD:
            fields.append(self._word().text)
            self._at += 1
        if not fields:
            return term
        if isinstance(term, Literal) or term == _DOT:
            raise self._error("a constant has no fields")
        if isinstance(term, Path):
            return Path(term.start, (*term.fields, *fields))
        return Path(term, tuple(fields))

    def _term(self) -> Operand:
        word = self._next()
        match word.kind:
            case WordKind.STRING:
                return Literal(word.text)
            case WordKind.LITERAL | WordKind.NIL:
                return Literal(None)
            case WordKind.IDENTIFIER:
                return FunctionName(word.text)
            case WordKind.LEFT:
                return self._pipe(WordKind.RIGHT)
            case WordKind.FIELD:
                return Path(".", (word.text,))
        return _DOT if word.kind is WordKind.DOT else Path(word.text, ())

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > _DEPTH:
            raise self._error("it is nested too deeply")

    def _word(self) -> Word:
        """The next word, a space too."""
        if self._at >= len(self._words):
            raise self._error("end is missing")
        word = self._words[self._at]
        self._line = word.line
        return word

    def _peek(self) -> Word:
        """The next word that isn't a space."""
        while self._word().kind is WordKind.SPACE:
            self._at += 1
        return self._word()

    def _next(self) -> Word:
        word = self._peek()
        self._at += 1
        return word

    def _expect(self, kind: WordKind) -> Word:
        word = self._next()
        if word.kind is not kind:
            raise self._error("a word is out of place")
        return word

    def _error(self, what: str) -> TemplateSyntaxError:
        return TemplateSyntaxError(self._line, what)


_DOT: Final = Path(".", ())
