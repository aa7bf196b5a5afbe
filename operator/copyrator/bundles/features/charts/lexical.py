"""Whether templates can render anything else than they did: looks at the names in actions. Pure.

Each function that an action names has to be on the list below: it gives the same result in each
run, whatever the time, the process and the cluster's objects. The names are those of text/template
(Go 1.26), sprig 3.3, Helm 3 and werf 2.67 to 3.2 (nelm); what isn't listed isn't allowed, also what
nobody knows. All templates count, whether something includes them or not, so neither ``include``
nor values are followed. ``tpl`` is followed into a literal text only. What that doesn't see is in
docs/adr/0064.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from copyrator.bundles.features.charts.template_words import (
    TemplateSyntaxError,
    Word,
    WordKind,
    words,
)

CHART_WORDS: Final = 200_000
"""Names, texts, spaces and braces in the actions of all templates, which take some two seconds in
the child process. With more its plans are unbound."""

_NAMES: Final = """
    eq ne lt le gt ge not len abbrev abbrevboth trunc trim upper lower title untitle substr
    repeat trimall trimAll trimSuffix trimPrefix nospace initials swapcase snakecase camelcase
    kebabcase wrap wrapWith contains hasPrefix hasSuffix indent nindent replace plural sha1sum
    sha256sum sha512sum adler32sum atoi int64 int float64 seq split splitList splitn until
    untilStep add1 add sub div mod mul add1f addf subf divf mulf biggest max min maxf minf ceil
    floor round empty all any typeOf typeIs typeIsLike kindOf kindIs deepEqual duration base dir
    clean ext isAbs osBase osClean osDir osExt osIsAbs b64enc b64dec b32enc b32dec hasKey has
    mustHas semverCompare hello regexMatch mustRegexMatch regexFindAll mustRegexFindAll
    regexFind mustRegexFind regexReplaceAll mustRegexReplaceAll regexReplaceAllLiteral
    mustRegexReplaceAllLiteral regexSplit mustRegexSplit regexQuoteMeta urlParse urlJoin
    fromJson mustFromJson fromJsonArray fromToml werf_secret_file print println html js urlquery
    quote squote cat toString toStrings toDecimal join sortAlpha toYaml toToml toJson
    toPrettyJson toRawJson mustToJson mustToPrettyJson mustToRawJson and or default coalesce
    ternary deepCopy mustDeepCopy rest mustRest initial mustInitial reverse mustReverse uniq
    mustUniq without mustWithout compact mustCompact slice mustSlice concat pick omit unset list
    tuple append push mustAppend mustPush prepend mustPrepend chunk mustChunk first mustFirst
    last mustLast pluck semver printf dict set get index dig include tpl required fail
    """
FUNCTIONS: Final = frozenset(_NAMES.split())

_WHY: Final[dict[str, str]] = {
    "draws": """
        randAlphaNum randAlpha randAscii randNumeric randInt randBytes shuffle uuidv4 genPrivateKey
        genCA genCAWithKey genSelfSignedCert genSelfSignedCertWithKey genSignedCert
        genSignedCertWithKey buildCustomCert bcrypt htpasswd encryptAES
        """,
    "depends on the time or the time zone": """
        now ago date date_in_zone date_modify dateInZone dateModify must_date_modify mustDateModify
        toDate mustToDate htmlDate htmlDateInZone unixEpoch durationRound
        """,
    "goes over keys in an order that is drawn": """
        keys values merge mustMerge mergeOverwrite mustMergeOverwrite
        """,
    "reads objects of the cluster, which may change": "lookup",
    "reads the environment": "env expandenv",
    "asks the network": "getHostByName",
    'draws where two keys are equal, such as 1 and "1"': "fromYaml fromYamlArray",
}
_REASONS: Final = {name: why for why, names in _WHY.items() for name in names.split()}
_UNKNOWN: Final = "isn't known to give the same result in each run"


def objection(name: str) -> str:
    """Why a function that isn't in FUNCTIONS isn't allowed."""
    return f"{name} {_REASONS.get(name, _UNKNOWN)}"


_DEPTH: Final = 8
"""Texts of ``tpl`` in one another."""
_MAX_LITERALS: Final = 50
_LITERAL_CHARACTERS: Final = 200
_NAME_CHARACTERS: Final = 60
_VERB: Final = re.compile(r"%[-#0+ .*\[\]0-9]*(.)", re.DOTALL)
_GLOB: Final = (WordKind.FIELD, WordKind.SPACE, WordKind.STRING, WordKind.RIGHT)


@dataclass(slots=True)
class TemplateLook:
    """What the templates of a chart and its subcharts name."""

    has_namesakes: Callable[[str], bool]
    """Whether two of a chart's files whose paths begin so have one name."""
    unbound: dict[str, None] = field(default_factory=dict)
    literals: dict[str, None] = field(default_factory=dict)
    """Of ``required`` and ``fail``."""
    size: int = 0
    """Words so far; above CHART_WORDS nothing more is looked at."""

    def add(self, path: str, text: str) -> None:
        """Look at a template."""
        try:
            for line, what in self._look(text, 1, 1):
                self.unbound[f"{path}:{line}: {what}"] = None
        except TemplateSyntaxError as error:
            self.unbound[f"{path}:{error.line}: can't be parsed: {error}"] = None

    def _look(self, text: str, first_line: int, depth: int) -> Iterator[tuple[int, str]]:
        found = [*islice(words(text, first_line), CHART_WORDS + 1 - self.size)]
        self.size += len(found)
        for at, word in enumerate(found):
            if word.kind is WordKind.IDENTIFIER:
                yield from self._function(word, _operand(found, at), depth)
            elif word.kind is WordKind.FIELD and (what := self._field(found, at)):
                yield word.line, what

    def _function(self, word: Word, literal: str | None, depth: int) -> Iterator[tuple[int, str]]:
        match word.text:
            case "tpl" if literal is None:
                yield word.line, "tpl of a text that isn't literal"
            case "tpl" if depth >= _DEPTH:
                yield word.line, f"more than {_DEPTH} texts of tpl in one another"
            case "tpl":
                yield from self._look(literal or "", word.line, depth + 1)
            case "printf" if literal is None:
                yield word.line, "printf of a format that isn't literal"
            case "printf" if any(verb[1] == "p" for verb in _VERB.finditer(literal or "")):
                yield word.line, "printf of %p, which prints an address"
            case "required" | "fail" if literal and len(self.literals) < _MAX_LITERALS:
                self.literals[literal[:_LITERAL_CHARACTERS]] = None
            case name if name not in FUNCTIONS:
                cut = name if len(name) <= _NAME_CHARACTERS else f"{name[:_NAME_CHARACTERS]}…"
                yield word.line, objection(cut)

    def _field(self, found: Sequence[Word], at: int) -> str:
        """What a field draws; empty for nothing."""
        name = found[at].text
        if (
            name == "APIVersions"
            and [(one.kind, one.text) for one in found[at + 1 : at + 2]] != _HAS
        ):
            return "reads .Capabilities.APIVersions, whose order is drawn, other than by Has"
        if name in ("AsConfig", "AsSecrets"):
            before = found[max(at - 4, 0) : at]
            is_glob = tuple(one.kind for one in before) == _GLOB and before[0].text == "Glob"
            start = re.split(r"[*?\[{\\!]", before[2].text, maxsplit=1)[0] if is_glob else ""
            if self.has_namesakes(start):
                return f"{name} takes one of several files of one name, which is drawn"
        return ""


_HAS: Final = [(WordKind.FIELD, "Has")]


def _operand(found: Sequence[Word], at: int) -> str | None:
    """The first operand of a function, if that is a literal text."""
    follows = next((one for one in found[at + 1 : at + 3] if one.kind is not WordKind.SPACE), None)
    return follows.text if follows and follows.kind is WordKind.STRING else None
