"""The functions and methods that a template may call without making its plan unbound. Pure.

Each gives the same result in each run, whatever the time, the process and the cluster's objects.
The names are those of text/template (Go 1.26), sprig 3.3, Helm 3 and werf 2.67 to 3.2 (nelm); what
isn't listed isn't allowed, also what nobody knows.

A shape says which parts of a value may hold pointers, which print as addresses. It is None where
the value is plain: text, numbers, and lists and dictionaries of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

_DEPTH: Final = 12
_FIELDS: Final = 40
_ANY: Final = "\0any"
_UNORDERED: Final = "\0unordered"


@dataclass(frozen=True, slots=True)
class ValueShape:
    """A value that holds pointers, or may."""

    fields: tuple[tuple[str, ValueShape | None], ...] = ()
    rest: ValueShape | None = None
    """All other fields and elements."""
    depth: int = 1

    @property
    def is_unordered(self) -> bool:
        """Whether its elements have an order that is drawn."""
        return any(name == _UNORDERED for name, _ in self.fields)


Value = ValueShape | None

OPAQUE: Final = ValueShape(((_ANY, None),))
"""May hold pointers anywhere."""
POINTER: Final = ValueShape()
"""A pointer to something plain."""


def shape(fields: Mapping[str, Value], rest: Value = None) -> Value:
    """A dictionary, list or struct of these values."""
    if rest is None and all(value is None for value in fields.values()):
        return None
    return _shape(fields, rest)


def _shape(fields: Mapping[str, Value], rest: Value) -> ValueShape:
    depth = 1 + max((one.depth for one in (*fields.values(), rest) if one), default=0)
    if depth > _DEPTH or len(fields) > _FIELDS:
        return OPAQUE
    return ValueShape(tuple(sorted(fields.items(), key=lambda item: item[0])), rest, depth)


def field(value: Value, name: str) -> Value:
    """The field or element of this name."""
    if value is None or value == OPAQUE:
        return value
    return next((found for key, found in value.fields if key == name), value.rest)


def element(value: Value) -> Value:
    """Any field or element."""
    if value is None or value == OPAQUE:
        return value
    return join_values((*(found for _, found in value.fields), value.rest))


def join_values(values: Iterable[Value]) -> Value:
    """A value that is one of these."""
    found: Value = None
    for value in values:
        found = _join(found, value)
    return found


def _join(one: Value, other: Value) -> Value:
    if one is None or other is None or one == other:
        return one or other
    if OPAQUE in (one, other):
        return OPAQUE
    names = dict.fromkeys(name for name, _ in (*one.fields, *other.fields))
    fields = {name: _join(field(one, name), field(other, name)) for name in names}
    return _shape(fields, _join(one.rest, other.rest))


def _known(fields: Mapping[str, Value], rest: Value = None) -> ValueShape:
    return _shape(fields, rest)


_POINTERS: Final = _known({}, POINTER)
_METADATA: Final = _known({"Maintainers": _POINTERS, "Dependencies": _POINTERS})
_CHART: Final = _known({"Maintainers": _POINTERS, "Dependencies": _POINTERS, "Metadata": _METADATA})
_API_VERSIONS: Final = _known({_UNORDERED: None, "Has": None}, OPAQUE)
_CAPABILITIES: Final = _known({"APIVersions": _API_VERSIONS, "Copy": OPAQUE})
_OF_EACH: Final[dict[str, Value]] = {"Chart": _CHART, "Capabilities": _CAPABILITIES}
_SUBCHARTS: Final = _known({}, _known({**_OF_EACH, "Subcharts": OPAQUE}))
ROOT: Final = _known({**_OF_EACH, "Subcharts": _SUBCHARTS, "AsMap": OPAQUE, "Table": OPAQUE})
"""``.`` of a file, as Helm and nelm build it (engine.go, recAllTpls)."""


class FunctionRule(Enum):
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


_NAMES: Final[dict[FunctionRule, str]] = {
    FunctionRule.PURE: """
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
    FunctionRule.PRINTS: """
        print println html js urlquery quote squote cat toString toStrings toDecimal join sortAlpha
        toYaml toToml toJson toPrettyJson toRawJson mustToJson mustToPrettyJson mustToRawJson
        """,
    FunctionRule.PASSES: """
        and or default coalesce ternary deepCopy mustDeepCopy rest mustRest initial mustInitial
        reverse mustReverse uniq mustUniq without mustWithout compact mustCompact slice mustSlice
        concat pick omit unset
        """,
    FunctionRule.COLLECTS: """
        list tuple append push mustAppend mustPush prepend mustPrepend chunk mustChunk
        """,
    FunctionRule.ELEMENTS: "first mustFirst last mustLast pluck",
    FunctionRule.POINTER: "semver",
    FunctionRule.SPECIAL: """
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
