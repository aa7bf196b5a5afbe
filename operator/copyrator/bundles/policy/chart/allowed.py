"""The functions and methods that a template may call without making its plan unbound.

Each gives the same result in each run, whatever the time, the process and the cluster's objects.
The names are those of text/template (Go 1.26), sprig 3.3, Helm 3 and werf 2.67 to 3.2 (nelm); what
isn't listed isn't allowed, also what nobody knows.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final


class Rule(Enum):
    """What a function does with objects that hold pointers, which print as addresses."""

    PURE = auto()
    """Prints none of its operands; the result is plain."""
    PRINTS = auto()
    """Prints its operands, which have to be plain."""
    PASSES = auto()
    """Returns its operands, or a part or a changed copy of them."""
    COLLECTS = auto()
    """Returns a list of its operands."""
    ELEMENTS = auto()
    """Returns elements of its operands, or a list of them."""
    POINTER = auto()
    """Returns a pointer."""
    SPECIAL = auto()
    """flow.py knows it by name."""


_NAMES: Final[dict[Rule, str]] = {
    Rule.PURE: """
        eq ne lt le gt ge not len
        abbrev abbrevboth trunc trim upper lower title untitle substr repeat trimall trimAll
        trimSuffix trimPrefix nospace initials swapcase snakecase camelcase kebabcase wrap wrapWith
        contains hasPrefix hasSuffix indent nindent replace plural sha1sum sha256sum sha512sum
        adler32sum atoi int64 int float64 seq split splitList splitn until untilStep
        add1 add sub div mod mul add1f addf subf divf mulf
        biggest max min maxf minf ceil floor round
        empty all any typeOf typeIs typeIsLike kindOf kindIs deepEqual duration
        base dir clean ext isAbs osBase osClean osDir osExt osIsAbs b64enc b64dec b32enc b32dec
        hasKey has mustHas semverCompare hello
        regexMatch mustRegexMatch regexFindAll mustRegexFindAll regexFind mustRegexFind
        regexReplaceAll mustRegexReplaceAll regexReplaceAllLiteral mustRegexReplaceAllLiteral
        regexSplit mustRegexSplit regexQuoteMeta urlParse urlJoin
        fromJson mustFromJson fromJsonArray fromToml werf_secret_file
        """,
    Rule.PRINTS: """
        print println html js urlquery quote squote cat toString toStrings toDecimal join sortAlpha
        toYaml toToml toJson toPrettyJson toRawJson mustToJson mustToPrettyJson mustToRawJson
        """,
    Rule.PASSES: """
        and or default coalesce ternary deepCopy mustDeepCopy rest mustRest initial mustInitial
        reverse mustReverse uniq mustUniq without mustWithout compact mustCompact slice mustSlice
        concat pick omit unset
        """,
    Rule.COLLECTS: """
        list tuple append push mustAppend mustPush prepend mustPrepend chunk mustChunk
        """,
    Rule.ELEMENTS: "first mustFirst last mustLast pluck",
    Rule.POINTER: "semver",
    Rule.SPECIAL: """
        printf dict set get index dig merge mustMerge mergeOverwrite mustMergeOverwrite
        include tpl required fail
        """,
}

FUNCTIONS: Final = {name: rule for rule, names in _NAMES.items() for name in names.split()}

METHODS: Final = frozenset(
    {"Has", "Get", "GetBytes", "Glob", "Lines", "Compare", "Equal", "GreaterThan", "LessThan"}
)
"""Methods with operands: of ``.Capabilities.APIVersions``, ``.Files`` and SemVer versions."""

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
    "returns its result in an order that is drawn": "keys values",
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
