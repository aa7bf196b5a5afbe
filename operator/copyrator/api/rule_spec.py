"""A CopyratorRule's spec; the old form is read into the same shape.

Other modules don't distinguish the forms, except by ``legacy``: such a rule adopts
the unmarked copies that the original copy operator left (docs/adoption.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, NoReturn, Self, TypeVar

import msgspec

from copyrator.api import names
from copyrator.api.kubeconfig import KubeconfigRef
from copyrator.api.rollout import Rollout
from copyrator.api.rule_status import RuleStatus
from copyrator.api.schema import (
    AGE,
    API_VERSION,
    DATA_KEY,
    KIND,
    LABEL_KEY,
    LABEL_VALUE,
    MESSAGE,
    NAMESPACE,
    OBJECT_NAME,
    OPEN,
    READY,
    REASON,
    STORED,
    Column,
    Fields,
    Form,
    InvalidSpec,
    Root,
    Rule,
    SpecError,
    check_text,
    custom,
    entries,
    fail,
    form_reader,
    items,
    json_type,
    number,
    read,
    reader,
    slots,
    text,
    unreadable,
)
from copyrator.api.selectors import (
    ANY_LABELS,
    NO_GLOBS,
    Globs,
    LabelSelector,
    Operator,
    SelectorForm,
    globs,
    read_selector,
    selecting,
)
from copyrator.api.text import (
    check_data_key,
    check_label_key,
    check_label_value,
    check_namespace,
    matching,
    member,
    quoted,
    truncate,
)

RULE_DEPTH: Final = 64
"""Levels of nesting in a rule's spec: some functions that traverse it are recursive."""

RENDERED_TEXT: Final = 1_048_576
"""Characters of one string while it is rendered: more than an object may have."""

RENDERED_OBJECT: Final = 1_572_864
"""Characters of all strings of one rendered object: etcd's limit of an object, in bytes."""

TEMPLATE_TEXT: Final = 65_536
"""Characters of one string that may contain Jinja2: compiling 64 KiB of nothing but Jinja2 takes
some two seconds in the child process."""

TEMPLATE_TEXTS: Final = 262_144
"""Characters of all strings of one template, keys included: it is compiled after each edit, and
rendered for each target."""


@dataclass(frozen=True, slots=True)
class Template:
    """An object rendered for each target namespace; ``body`` is as written, not rendered."""

    body: Mapping[str, Any] = field(hash=False)

    @property
    def kind(self) -> str:
        """The kind of the copies."""
        return str(self.body["kind"])

    @property
    def api_version(self) -> str:
        """Their apiVersion."""
        return str(self.body["apiVersion"])


_OWN_NAMESPACE: Final = "{{ namespace.name }}"


_SHORT: Final = {"type": "string", "maxLength": 253}


def _refuse_namespace(raw: Any) -> str:
    if raw != _OWN_NAMESPACE:
        raise SpecError("", "must be removed: the operator sets each target namespace")
    return _OWN_NAMESPACE


def _refuse_generated(_raw: Any) -> NoReturn:
    raise SpecError("", "must be removed: copies have fixed names; set metadata.name")


class TemplateMetadata(Form):
    """What is known of a template's metadata; the rest is written by the author of the rule."""

    RULES = (
        Rule(
            f"!has(self.__namespace__) || self.__namespace__ == '{_OWN_NAMESPACE}'",
            "remove metadata.namespace: the operator sets each target namespace",
        ),
        Rule(
            "!has(self.generateName)",
            "remove metadata.generateName: the objects of a rule have fixed names",
        ),
    )

    name: Annotated[str, text(most=1024)]
    """Name of the object; may contain Jinja2 expressions, for example ad-kubernetes-{{
    namespace.name }}."""
    namespace: Annotated[str, custom(_refuse_namespace, _SHORT)] | None = None
    """Not supported: the operator sets each target namespace."""
    generate_name: Annotated[str, custom(_refuse_generated, _SHORT)] | None = None
    """Not supported; set name."""


class TemplateForm(Form):
    """What is known of a template."""

    api_version: Annotated[str, API_VERSION]
    """apiVersion of the object; no Jinja2 here."""
    kind: Annotated[str, KIND]
    """Kind of the object, any namespaced kind that the operator is allowed to create; no Jinja2
    here."""
    metadata: Annotated[TemplateMetadata, replace(OPEN, required="is required, with a name")]
    """Name, labels and annotations of the object."""


_FORBIDDEN_METADATA: Final = {
    "ownerReferences": "owner references can't cross namespaces",
    "finalizers": "no controller would remove them",
    "uid": "the API server sets it",
    "resourceVersion": "the API server sets it",
    "managedFields": "the API server sets it",
    "creationTimestamp": "the API server sets it",
}


def read_template(raw: Any) -> Template:
    """Read a whole object, each string of which may contain Jinja2."""
    form = form_reader(TemplateForm)(raw)
    template = Fields(raw, "")
    metadata = Fields(template.get("metadata"), ".metadata")
    for name, hint in _FORBIDDEN_METADATA.items():
        if metadata.has(name):
            metadata.fail(name, f"must be removed: {hint}")
    for name in ("labels", "annotations"):
        metadata.text_map(name)
    if form.kind == "Secret":
        for name in ("data", "stringData"):
            Fields(template.get(name), f".{name}")
    if template.has("status"):
        fail("status", "must be removed: the object's controller sets it")
    _check_texts(template.raw)
    return Template(template.raw)


def _check_texts(template: Mapping[str, Any]) -> None:
    left = TEMPLATE_TEXTS
    for place, found in template_texts(template, ""):
        left -= len(found)
        if problem := _length(found):
            raise SpecError(path_of(place), problem)
        if left < 0:
            raise SpecError(
                "",
                f"its strings are longer than {TEMPLATE_TEXTS} characters in total; split the rule",
            )


Place = tuple[Any, str | int]
"""The place of a value: the place of its container, and its key or index in that."""


def path_of(place: Place) -> str:
    """A place as text. Built only for messages: keys may be long, and many."""
    steps: list[str] = []
    above: Place | None = place
    while above is not None:
        above, step = above
        shown = f"[{step}]" if isinstance(step, int) else member(step)
        steps.append(shown if above else str(step))
    return "".join(reversed(steps))


def template_texts(root: Mapping[str, Any], path: str) -> Iterator[tuple[Place, str]]:
    """Every text in a template, keys included, with its place; not recursive.

    Raises:
        SpecError: it is nested too deeply.
    """
    pending: list[tuple[Place, Any, int]] = [((None, path), root, 0)]
    while pending:
        here, value, depth = pending.pop()
        if depth > RULE_DEPTH:
            raise SpecError(path, f"is nested more than {RULE_DEPTH} levels deep")
        if isinstance(value, str):
            yield here, value
        elif isinstance(value, dict):
            for key, item in value.items():
                yield here, str(key)
                pending.append(((here, str(key)), item, depth + 1))
        elif isinstance(value, list):
            pending += [((here, i), item, depth + 1) for i, item in enumerate(value)]


def _length(found: str) -> str | None:
    if len(found) > TEMPLATE_TEXT:
        return f"is longer than {TEMPLATE_TEXT} characters; shorten it"
    return None


NAME_TEXT: Final = 1_024
"""Characters of ``spec.transform.name``: parsing so many of a tenant takes 10 ms at most."""

COMPOSED_OBJECTS: Final = 500
"""Objects that all entries of spec.sources may select together."""

COMPOSED_BYTES: Final = 16 * 1024 * 1024
"""Bytes of the objects that all entries of spec.sources select together (as JSON): they are held in
memory while a rule's copies are rendered and written."""

NAMED_PATTERNS: Final = 5
"""Patterns of a list that a message names."""
EVERY_NAMESPACE: Final = "every namespace"
MAX_TARGETS_TEXT: Final = 400
"""Characters of a rule's targets in a message."""

WELL_KNOWN_KINDS: Final[Mapping[str, str]] = {
    "ConfigMap": "v1",
    "Secret": "v1",
    "ServiceAccount": "v1",
    "ResourceQuota": "v1",
    "LimitRange": "v1",
    "Role": "rbac.authorization.k8s.io/v1",
    "RoleBinding": "rbac.authorization.k8s.io/v1",
    "NetworkPolicy": "networking.k8s.io/v1",
}
"""apiVersion of the kinds that the chart allows by default; a CRD of the same kind (such as
Calico's NetworkPolicy) must be named with its own apiVersion.
"""


class ConflictPolicy(StrEnum):
    """What to do about an object of the copy's name that isn't ours."""

    SKIP = "Skip"
    ADOPT = "Adopt"
    OVERWRITE = "Overwrite"


class ImmutablePolicy(StrEnum):
    """What to do when the API server refuses a change of an immutable field."""

    FAIL = "Fail"
    RECREATE = "Recreate"


class DeletionPolicy(StrEnum):
    """What happens to copies that are no longer wanted."""

    DELETE = "Delete"
    ORPHAN = "Orphan"


class Mode(StrEnum):
    """Whether copies are written."""

    APPLY = "Apply"
    PLAN = "Plan"


S = TypeVar("S", bound="Source")


class Made(Form):
    """The kind of what is copied or created."""

    kind: Annotated[str, KIND]
    """Kind of the objects: ConfigMap, Secret, or any other namespaced kind that the operator is
    allowed to copy."""
    api_version: Annotated[str, API_VERSION] | None = None
    """apiVersion of the kind, such as v1 or networking.k8s.io/v1. Required only if several API
    groups serve the kind and none of them is built in."""

    @property
    def known_version(self) -> str | None:
        """The apiVersion; None: to be resolved by discovery."""
        return self.api_version or WELL_KNOWN_KINDS.get(self.kind)


_SOURCE_SELECTOR: Final = selecting(
    "must name at least one label; an empty one would select everything of this kind; to do so, "
    f"set {{key: …, operator: {Operator.DOES_NOT_EXIST}}}",
    rules=(
        Rule(
            "(has(self.matchLabels) && size(self.matchLabels) > 0) "
            "|| (has(self.matchExpressions) && size(self.matchExpressions) > 0)",
            "name at least one label under matchLabels or matchExpressions; an empty selector "
            "would select everything of this kind",
        ),
    ),
)


class Source(Made):
    """Objects that are read. Exactly one of ``name`` and ``selector`` is set."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.name) != has(self.selector)",
            "set exactly one of name (one object) and selector (every object with certain labels)",
        ),
    )

    namespace: Annotated[str, NAMESPACE] = ""
    """Namespace of the objects. Default: the rule's own namespace."""
    kubeconfig: KubeconfigRef | None = msgspec.field(default=None, name="kubeConfig")
    """Where the objects are in another cluster: a Secret in the rule's namespace with a kubeconfig
    of one cluster, one user (a token, or a client certificate with its key) and one context, at
    most 64 KiB. The copies are made in the operator's cluster. Only in the operator's namespace."""
    name: Annotated[str, OBJECT_NAME] | None = None
    """Name of the object. It may be created after the rule."""
    selector: Annotated[LabelSelector, _SOURCE_SELECTOR] | None = None
    """Labels of the objects. All requirements must match, from 1 to 64 of them."""

    def __post_init__(self) -> None:
        if (self.name is None) == (self.selector is None):
            fail("name", "set exactly one of name and selector")

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Where the objects are; when two have a source of one name, the first listed wins."""
        return (self.namespace,)

    @property
    def cluster(self) -> str:
        """For messages: `` in the cluster of kubeconfig …``; empty for the operator's own."""
        return place_of(self.kubeconfig) if self.kubeconfig else ""

    def means(self, namespace: str, name: str, labels: Mapping[str, str] | None) -> bool:
        """Whether an object of this kind in the operator's cluster is copied."""
        if self.kubeconfig is not None or namespace not in self.namespaces:
            return False
        return self.name == name if self.name else (self.selector or ANY_LABELS).matches(labels)

    def at(self: S, home: str) -> S:
        """The source of a rule in this namespace, with the apiVersion of a built-in kind."""
        namespace = self.namespace if self.namespaces[0] else home
        return msgspec.structs.replace(self, namespace=namespace, api_version=self.known_version)


class CopiedSource(Source):
    """What is copied."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        *Source.RULES,
        Rule(
            "!(has(self.__namespace__) && has(self.namespaces))",
            "set either namespace or namespaces, not both",
        ),
    )

    listed: Annotated[
        tuple[Annotated[str, NAMESPACE], ...],
        items(
            *(1000, 1),
            required="must name a namespace; remove it to use the rule's own namespace",
            remedy="split the rule",
        ),
    ] = msgspec.field(default=(), name="namespaces")
    """Namespaces of the objects. If several of them contain a source of the same name, the first
    listed is copied; the others are conflicts."""

    def __post_init__(self) -> None:
        if self.namespace and self.listed:
            fail("namespaces", "set either namespace or namespaces, not both")
        super().__post_init__()

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Where the sources are."""
        return self.listed or (self.namespace,)


def place_of(kubeconfig: KubeconfigRef) -> str:
    """`` in the cluster of kubeconfig …`` with the Secret's name."""
    return f" in the cluster of kubeconfig {kubeconfig.secret}"


_ALIAS: Final = text(
    matching(
        "[A-Za-z][A-Za-z0-9_]{0,62}",
        "can't be a name in a template; use at most 63 letters, digits and '_', beginning with a "
        "letter",
    ),
    most=63,
    pattern="[A-Za-z][A-Za-z0-9_]*",
)


PUBLIC_CA: Final = "public CA"
PUBLIC_CAS: Final = f"the {PUBLIC_CA}s"
"""What an entry with defaultCAs stands for, in messages."""
_DEFAULT_CAS: Final = "has(self.defaultCAs) && self.defaultCAs"
_ALONE: Final = "must be removed: with defaultCAs the entry stands for the public CAs"


class ComposedSource(Source, kw_only=True):
    """One entry of ``spec.sources``: what a template reads as ``sources.NAME``."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"({_DEFAULT_CAS}) || has(self.kind)",
            "set kind with either name or selector, or only defaultCAs: true",
        ),
        *(Rule(f"({_DEFAULT_CAS}) || {one.rule}", one.message) for one in Source.RULES),
        Rule(
            f"!({_DEFAULT_CAS}) || !(has(self.kind) || has(self.apiVersion) "
            "|| has(self.__namespace__) || has(self.kubeConfig) || has(self.name) "
            "|| has(self.selector) || (has(self.optional) && self.optional))",
            "remove everything but as and defaultCAs: the entry stands for the public CAs",
        ),
    )

    alias: Annotated[str, _ALIAS] = msgspec.field(name="as")
    """Name in the template, as in sources.NAME."""
    kind: Annotated[str, KIND] = ""
    """Kind of the objects: ConfigMap, Secret, or any other namespaced kind that the operator is
    allowed to copy. Required without defaultCAs."""
    default_cas: bool = msgspec.field(default=False, name="defaultCAs")
    """If true, the entry stands for the public CAs of the operator's image (setting
    --default-cas-file), for the filters pem_bundle, jks and pkcs12; it has no other fields."""
    optional: bool = False
    """What happens without such an object: true, the template reads none (or an empty list); false
    (default), the copies stay as they are, and the rule has the reason SourceNotFound."""

    def __post_init__(self) -> None:
        if not self.default_cas:
            if not self.kind:
                fail("kind", "set kind with either name or selector, or only defaultCAs: true")
            super().__post_init__()
            return
        for place, value in (
            ("kind", self.kind),
            ("apiVersion", self.api_version),
            ("namespace", self.namespace),
            ("kubeConfig", self.kubeconfig),
            ("name", self.name),
            ("selector", self.selector),
            ("optional", self.optional),
        ):
            if value:
                fail(place, _ALONE)

    def at(self, home: str) -> Self:
        """The same in a rule of this namespace; the public CAs are in none."""
        return self if self.default_cas else super().at(home)

    @property
    def single(self) -> bool:
        """Whether it is one object by name, rather than a list."""
        return self.name is not None


# Targets and changes ----------------------------------------------------------------------------

_NAMESPACE_GLOB: Final = matching(
    r"[-a-z0-9*?]*",
    "isn't a valid pattern for namespaces; use lower-case letters, digits, '-', and the wildcards "
    "'*' and '?'",
    63,
)


class Targets(Form):
    """Which namespaces get a copy. Phase and consent are checked elsewhere."""

    namespaces: Annotated[Globs, globs("[a-z0-9*?-]+", _NAMESPACE_GLOB, length=63, least=1)] = (
        NO_GLOBS
    )
    """Names or patterns of namespaces; * matches any characters and ? exactly one, and a pattern
    must match the whole name. ["*"] is every namespace. If left out, selector alone decides."""
    exclude: Annotated[Globs, globs("[a-z0-9*?-]+", _NAMESPACE_GLOB, length=63)] = NO_GLOBS
    """Names or patterns of namespaces that get no copy."""
    selector: Annotated[LabelSelector, custom(read_selector, like=SelectorForm)] = ANY_LABELS
    """Labels of the namespaces that get a copy. All requirements must match, from 1 to 64 of
    them."""

    def __post_init__(self) -> None:
        if self.namespaces and self.selector.empty and self.selector is not ANY_LABELS:
            fail(
                "selector",
                "must name at least one label under matchLabels or matchExpressions; remove it to "
                'select by namespaces alone (["*"] for all)',
            )

    @property
    def named(self) -> tuple[str, ...]:
        """The namespaces that are listed by name, without a wildcard."""
        return tuple(p for p in self.namespaces.patterns if "*" not in p and "?" not in p)

    @property
    def is_every_name(self) -> bool:
        """Whether no name is left out by ``namespaces``."""
        return not self.namespaces or "*" in self.namespaces.patterns

    def matches(self, namespace: str, labels: Mapping[str, str] | None) -> bool:
        """Whether a namespace of this name and these labels is a target."""
        return (
            (not self.namespaces or self.namespaces.matches(namespace))
            and not self.exclude.matches(namespace)
            and self.selector.matches(labels)
        )

    def to_string(self) -> str:
        """For messages: ``team-*, app except team-x with labels a=b``; at most 400 characters."""
        patterns = self.namespaces.patterns
        text = EVERY_NAMESPACE if self.is_every_name else _listed(patterns)
        if self.exclude:
            text += f" except {_listed(self.exclude.patterns)}"
        if not self.selector.empty:
            text += f" with labels {self.selector.to_string()}"
        return truncate(text, MAX_TARGETS_TEXT)


def _listed(patterns: tuple[str, ...]) -> str:
    more = len(patterns) - NAMED_PATTERNS
    text = ", ".join(patterns[:NAMED_PATTERNS])
    return f"{text} and {more} more" if more > 0 else text


def _key_glob(value: str) -> str | None:
    return check_data_key(value.replace("*", "x").replace("?", "x")) and (
        f"{quoted(value)} isn't a valid pattern for keys; use letters, digits, '-', '_', "
        "'.', and the wildcards '*' and '?'"
    )


def _metadata_glob(value: str) -> str | None:
    return check_label_key(value.replace("*", "x").replace("?", "x")) and (
        f"{quoted(value)} isn't a valid pattern for label or annotation "
        "keys; write the whole key, with '*' and '?' as wildcards"
    )


def _read_new_key(raw: Any) -> str:
    if raw == "":
        raise SpecError("", "must not be empty; set the key's name in the copy")
    return check_text(raw, "", check_data_key)


_NEW_KEY: Final = custom(_read_new_key, DATA_KEY.schema)


class KeyTransform(Form):
    """Which keys of a ConfigMap's or Secret's data are copied, and under which names."""

    include: Annotated[
        Globs,
        globs(
            "[-._a-zA-Z0-9*?]+",
            _key_glob,
            length=253,
            empty="must name a key; remove it to copy every key",
        ),
    ] = NO_GLOBS
    """Keys to copy; * and ? are wildcards. All patterns with one may have 65,536 characters.
    Default: every key."""
    exclude: Annotated[Globs, globs("[-._a-zA-Z0-9*?]+", _key_glob, length=253)] = NO_GLOBS
    """Keys to leave out; * and ? are wildcards. All patterns with one may have 65,536
    characters."""
    rename: Annotated[
        Mapping[Annotated[str, DATA_KEY], Annotated[str, _NEW_KEY]],
        entries(1000, "split the rule"),
    ] = {}
    """Map of a source's key to the key in the copy. Two keys must not be renamed to the same
    key."""

    def __post_init__(self) -> None:
        taken: dict[str, str] = {}
        for old, new in self.rename.items():
            if other := taken.get(new):
                fail(f"rename{member(old)}", f"collides with {other}: both would be named {new}")
            taken[new] = old
        for old in self.rename:
            if self.exclude.matches(old) or (self.include and not self.include.matches(old)):
                fail(
                    f"rename{member(old)}",
                    "renames a key that include and exclude filter out; rename takes the source's "
                    "keys",
                )


def _read_keys(raw: Any) -> KeyTransform:
    """What is empty may be a mistake, and must not mean every key."""
    found = form_reader(KeyTransform)(raw)
    if not any(raw.get(name) is not None for name in ("include", "exclude", "rename")):
        fail("include", "is required, or exclude or rename; to copy every key, remove keys")
    return found


_METADATA_GLOBS: Final = globs(
    "[-._a-zA-Z0-9/*?]+", _metadata_glob, items(64, noun="patterns"), length=317
)


class MetadataTransform(Form):
    """Annotations to add to a copy, and globs of those not to copy."""

    add: Annotated[
        Mapping[
            Annotated[str, LABEL_KEY],
            Annotated[str, text(most=65_536, least=0)],
        ],
        entries(64),
    ] = {}
    """Added to every copy."""
    remove: Annotated[Globs, _METADATA_GLOBS] = NO_GLOBS
    """Keys that a copy doesn't take over; * and ? are wildcards."""

    def __post_init__(self) -> None:
        for key in self.add:
            ours = key in (names.LABEL_MANAGED_BY, names.LABEL_GUARD)
            if ours or key.startswith(names.RULE_PREFIX):
                fail(f"add{member(key)}", "is set by the operator; remove it")
            if self.remove.matches(key):
                fail(f"add{member(key)}", "is both added and removed; remove one of the two")


class LabelTransform(MetadataTransform):
    """The same of labels."""

    add: Annotated[
        Mapping[Annotated[str, LABEL_KEY], Annotated[str, LABEL_VALUE]], entries(64)
    ] = {}
    """Added to every copy."""


_DATA_KINDS: Final = ("ConfigMap", "Secret")
_TYPE: Final = "[A-Za-z0-9]([-A-Za-z0-9._/]*[A-Za-z0-9])?"
_is_type: Final = matching(_TYPE, "isn't a valid type of a Secret, such as Opaque", 253)
_SERVERS_TYPES: Final = frozenset(
    {
        "kubernetes.io/service-account-token",
        "bootstrap.kubernetes.io/token",
        "helm.sh/release.v1",
    }
)
"""Types that grant rights, or count as something else's record."""


def _secret_type(value: str) -> str | None:
    if value in _SERVERS_TYPES:
        return f"must not be {value}: controllers act on Secrets of this type; use Opaque"
    return _is_type(value)


class Transform(Form):
    """The differences between a copy and its source."""

    name: Annotated[str, text(most=NAME_TEXT)] | None = None
    """Name of the copy; may contain Jinja2 expressions, for example {{ source.name }}-{{
    namespace.name }}. Default: the source's name."""
    type: Annotated[str, text(_secret_type, most=253, pattern=_TYPE)] | None = None
    """Type of the copied Secrets, such as Opaque if keys aren't copied that the source's type
    requires. Default: the source's type."""
    keys: Annotated[KeyTransform, custom(_read_keys, like=KeyTransform)] = KeyTransform()
    """Which keys of a ConfigMap's or Secret's data are copied, and under which names."""
    labels: LabelTransform = LabelTransform()
    """Changes to the labels that a copy takes over from its source."""
    annotations: MetadataTransform = MetadataTransform()
    """Changes to the annotations that a copy takes over from its source."""


NO_KEYS: Final = KeyTransform()
NO_TRANSFORM: Final = Transform()


# The spec ---------------------------------------------------------------------------------------

_PERCENTAGE: Final = matching("(100|[1-9]?[0-9])%", 'isn\'t a percentage between "0%" and "100%"')


def _read_percentage(raw: Any) -> int:
    return int(check_text(raw, "", _PERCENTAGE).removesuffix("%"))


NO_NAMESPACES: Final = (
    'must say which namespaces get a copy: set namespaces (["*"] for all), or selector with at '
    "least one label under matchLabels or matchExpressions"
)


class RuleSpec(Form):
    """A valid rule. Exactly one of ``source`` and ``template`` is set."""

    RULES = (
        Rule(
            "has(self.source) != has(self.template)",
            "set exactly one of source (copy what exists) and template (create an object for each "
            "namespace)",
        ),
        Rule(
            "!has(self.sources) || has(self.template)",
            "sources are read by a template: set template, or copy with source",
        ),
        Rule(
            "!(has(self.template) && has(self.transform))",
            "remove transform: put the changes into template",
        ),
        Rule(
            "!has(self.source) || !has(self.transform) || !has(self.transform.keys) "
            "|| self.source.kind in ['ConfigMap', 'Secret']",
            "remove transform.keys: only ConfigMaps and Secrets have data keys",
        ),
        Rule(
            "!has(self.source) || !has(self.transform) || !has(self.transform.type) "
            "|| self.source.kind == 'Secret'",
            "remove transform.type: only Secrets have a type",
        ),
    )
    legacy: ClassVar[bool] = False

    source: CopiedSource | None = None
    """The objects to copy, by kind and namespace, and by either name or selector. Exactly one of
    source and template is required."""
    sources: Annotated[
        tuple[ComposedSource, ...],
        items(
            32,
            1,
            keys=("as",),
            required="must name a source; remove it for a template without sources",
            noun="entries",
            remedy="use a selector",
        ),
    ] = ()
    """Objects that the template reads as sources.NAME, where NAME is the entry's as: one object for
    an entry with a name, a list sorted by namespace and name for one with a selector. Together they
    may be 500 objects with 16 MiB. An entry with defaultCAs is the public CAs. Only in the
    operator's namespace, and only with template."""
    template: Annotated[Template, custom(read_template, OPEN.schema, like=TemplateForm)] | None = (
        None
    )
    """A complete object that is created in each target namespace. Every string in it may contain
    Jinja2 expressions with namespace.name, namespace.labels and namespace.annotations, and
    sources.NAME of spec.sources; an unknown name is an error on that target. Data of a source that
    is a Secret can only be written to the data of a Secret, or, certificates alone, by the filters
    pem_bundle, jks and pkcs12 to a ConfigMap. A string may have 65,536 characters, all together
    262,144; a rendered string 1,048,576, all together 1,572,864."""
    targets: Targets = Targets()
    """The namespaces that get a copy: those that namespaces, exclude and selector all select.
    Required, with namespaces or selector or both; for every Active namespace, set namespaces to
    ["*"]. A source's own namespace never gets a copy under the source's name, and a namespace with
    the label copyrator.flant.com/ignore "true" gets none at all."""
    transform: Transform = NO_TRANSFORM
    """How a copy differs from its source. Not allowed with template. Owner references, finalizers,
    kubectl's and kopf's annotations, and the marks by which a controller claims, prunes or fills an
    object (Helm, Argo CD, …) are never copied."""
    on_conflict: Annotated[ConflictPolicy, STORED] = ConflictPolicy.SKIP
    """How to treat an object of the copy's name that isn't a copy. Skip doesn't change it: with the
    content that a trusted rule requires it counts as ready, else it is a Conflict. Adopt takes over
    copies of other copying tools. Overwrite takes over any object."""
    on_immutable: Annotated[ImmutablePolicy, STORED] = ImmutablePolicy.FAIL
    """What to do when the API server refuses to change an immutable field. Fail reports it in the
    status. Recreate deletes and recreates the copy."""
    deletion_policy: Annotated[DeletionPolicy, STORED] = DeletionPolicy.DELETE
    """What happens to copies when the source, the target or the rule is deleted. Delete removes
    them. Orphan keeps them."""
    limit: Annotated[int, number(1, 10_000_000, bits=64), STORED] = 100_000
    """Maximum number of copies of this rule; a rule that requires more creates none."""
    max_delete: Annotated[
        int,
        custom(
            _read_percentage,
            {
                "type": "string",
                "default": "50%",
                "maxLength": 4,
                "pattern": "^(100|[1-9]?[0-9])%$",
            },
        ),
    ] = 50
    """Percentage of the rule's copies that an edit of the rule may delete without a confirmation.
    An edit that would delete more, and more than 20, deletes none until the annotation
    copyrator.flant.com/confirm-delete has the rule's generation. 100% needs no confirmation."""
    rollout: Rollout | None = None
    """Writes changed content in steps. New namespaces, and copies that were deleted, get the new
    content at once. Without it all copies are changed at once."""
    mode: Annotated[Mode, STORED] = Mode.APPLY
    """Apply writes copies. Plan writes nothing and shows in the status what Apply would do."""
    suspend: Annotated[bool, STORED] = False
    """If true, copies are not created, changed or deleted."""

    def __post_init__(self) -> None:
        if (self.source is None) == (self.template is None):
            fail("source", "set exactly one of spec.source and spec.template")
        if self.sources and self.template is None:
            fail("sources", "needs spec.template, which reads them; to copy, set spec.source")
        seen = set[str]()
        for i, one in enumerate(self.sources):
            if one.alias in seen:
                said = f"{one.alias} is the name of an earlier entry; choose another one"
                fail(f"sources[{i}].as", said)
            seen.add(one.alias)
        transform = self.transform
        if self.template is not None and transform is not NO_TRANSFORM:
            fail("transform", "must be removed: put the changes into spec.template")
        if transform.keys != NO_KEYS and self.kind not in _DATA_KINDS:
            fail("transform.keys", f"must be removed: a {self.kind} has no data keys")
        if transform.type is not None and self.kind != "Secret":
            fail("transform.type", f"must be removed: a {self.kind} has no type")
        # The API server drops a misspelled field, unless the client asks for strict validation.
        # What is absent or empty may therefore be a mistake, and must not mean every namespace.
        if not self.targets.namespaces and self.targets.selector.empty:
            fail("targets", NO_NAMESPACES)

    def at(self, home: str) -> RuleSpec:
        """The spec of a rule in this namespace."""
        return msgspec.structs.replace(
            self,
            source=self.source and self.source.at(home),
            sources=tuple(one.at(home) for one in self.sources),
        )

    @property
    def all_sources(self) -> tuple[Source, ...]:
        """The objects that are copied, or read by the template."""
        return (self.source,) if self.source is not None else self.composed_sources

    @property
    def composed_sources(self) -> tuple[ComposedSource, ...]:
        """The entries of spec.sources that are objects."""
        return tuple(one for one in self.sources if not one.default_cas)

    @property
    def default_cas(self) -> tuple[str, ...]:
        """The names of those that stand for the public CAs."""
        return tuple(one.alias for one in self.sources if one.default_cas)

    @property
    def kubeconfigs(self) -> tuple[KubeconfigRef, ...]:
        """The kubeconfigs of other clusters that sources are in, each once."""
        named = (source.kubeconfig for source in self.all_sources)
        return tuple(dict.fromkeys(one for one in named if one is not None))

    @property
    def kind(self) -> str:
        """The kind of the copies."""
        made = self.source or self.template
        assert made is not None
        return made.kind

    @property
    def api_version(self) -> str | None:
        """The apiVersion of the copies; None: to be resolved by discovery."""
        made = self.source or self.template
        assert made is not None
        return made.api_version


class OldRule(RuleSpec):
    """A rule in the old form: for all namespaces, with the defaults of everything else."""

    legacy: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Its own Form (OldForm) has checked it."""


RULE_VALUES: Final = 20_000
"""Maps, lists, strings and other values in a rule's spec: parsing each takes a microsecond or two.
A thousand globs in each list with 64 x 64 expressions in each selector are 17,000."""

SELECTOR_TEXT: Final = 16_384
"""Characters of a selector that is written as one string (old form): splitting them takes 15 ms."""

RULE_TYPES: Final = {"configmap": "ConfigMap", "secret": "Secret"}
_NESTING: Final = (dict, list)
_NAMESPACES: Final = items(1000, remedy="split the rule")


def parse_rule(body: Any) -> RuleSpec | InvalidSpec:
    """Parse a CopyratorRule from the API server. Never raises, whatever the JSON.

    Jinja2 in it is not parsed: compiling takes long (copies/template/compiling.py).
    """
    try:
        fields = Fields(body, "")
        _check_size(fields)
        return _read(fields)
    except SpecError as error:
        return error.invalid
    except Exception as error:
        return unreadable(error)


def copies_kind(body: Any) -> tuple[str, str | None] | None:
    """Kind and apiVersion of a rule's copies, without parsing more; None where they are absent."""
    try:
        fields = Fields(body, "")
        if not fields.has("spec"):
            kind = _read_type(fields.get("ruleType"))
            return kind, WELL_KNOWN_KINDS[kind]
        spec = fields.sub("spec")
        made = read(Made, spec.get("source" if spec.has("source") else "template"), "spec")
        return made.kind, made.known_version
    except SpecError:
        return None


def _check_size(body: Fields) -> None:
    """Refuse what would take long to parse; stops counting at the bound."""
    level: list[tuple[Place, Any]] = [
        ((None, name), body.get(name)) for name in ("spec", *(one.name for one in slots(OldForm)))
    ]
    values = 0
    for _ in range(RULE_DEPTH + 1):
        parts: list[tuple[Place, Any]] = []
        for place, value in level:
            if not isinstance(value, dict | list):
                continue
            values += len(value)
            if values > RULE_VALUES:
                raise SpecError("spec", f"has more than {RULE_VALUES} values; reduce it")
            pairs = value.items() if isinstance(value, dict) else enumerate(value)
            parts += [((place, key), part) for key, part in pairs if type(part) in _NESTING]
        if not parts:
            return
        level = parts
    top = ".".join(path_of(level[0][0]).split(".")[:2])
    raise SpecError(top, f"is nested more than {RULE_DEPTH} levels deep")


def _read(body: Fields) -> RuleSpec:
    old = [one.name for one in slots(OldForm) if body.has(one.name)]
    home = _home(body)
    if body.has("spec"):
        if old:
            body.fail(
                "spec", f"can't be combined with the old form; remove {', '.join(old)} or spec"
            )
        return read(RuleSpec, body.get("spec"), "spec").at(home)
    if not old:
        body.fail("spec", "is required: set spec.source or spec.template")
    return read(OldForm, body.raw, "").to_spec(home)


def _home(body: Fields) -> str:
    found = body.sub("metadata").get("namespace")
    return found if isinstance(found, str) and found else "default"


# The old form -----------------------------------------------------------------------------------


def _read_type(raw: Any) -> str:
    """The kind of a ``ruleType``, in any letter case."""
    found = check_text(raw, "")
    kind = RULE_TYPES.get(found.lower()) if len(found) <= 63 else None
    if kind is None:
        raise SpecError(
            "",
            f"must be configmap or secret, not {quoted(found)}; "
            "other kinds are copied by spec.source",
        )
    return kind


_read_namespaces: Final = reader(tuple[Annotated[str, NAMESPACE], ...], _NAMESPACES)


def _read_namespace(raw: Any) -> tuple[str, ...]:
    """One namespace, or a list of them."""
    if not isinstance(raw, str | list):
        raise SpecError("", f"must be a string or a list of strings, not {json_type(raw)}")
    if isinstance(raw, str):
        return (check_text(raw, "", check_namespace),)
    found: tuple[str, ...] = _read_namespaces(raw)
    return found


_read_labels: Final = reader(
    Mapping[Annotated[str, LABEL_KEY], Annotated[str, LABEL_VALUE]],
    entries(1000, "split the rule"),
)


def _read_selector(raw: Any) -> LabelSelector:
    if isinstance(raw, str):
        if len(raw) > SELECTOR_TEXT:
            raise SpecError("", f"is longer than {SELECTOR_TEXT} characters; use spec.source")
        return LabelSelector.from_labels(_split_labels(raw))
    if isinstance(raw, Mapping):
        return LabelSelector.from_labels(_read_labels(raw))
    raise SpecError("", f"must be a map of labels or a string key=value, not {json_type(raw)}")


def _split_labels(text: str) -> dict[str, str]:
    labels: dict[str, str] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        key, sign, value = (piece.strip() for piece in part.partition("="))
        problem = check_label_key(key) or check_label_value(value)
        if not sign or problem:
            why = f": {problem}" if sign and problem else ""
            raise SpecError(
                "",
                f"{quoted(part)} is not key=value{why}; "
                "for other conditions use spec.source.selector",
            )
        if labels.setdefault(key, value) != value:
            raise SpecError("", f"requires two values of the label {quoted(key)}")
    return labels


class OldForm(Form):
    """The fields of the old form, beside ``metadata``."""

    kind: Annotated[
        str,
        custom(
            _read_type,
            {"type": "string", "maxLength": 63},
            rules=(
                Rule(
                    "self.lowerAscii() in ['configmap', 'secret']",
                    "ruleType must be configmap or secret; other kinds are copied by spec.source",
                ),
            ),
        ),
    ] = msgspec.field(default="", name="ruleType")
    """Old form: what is copied, configmap or secret, in any letter case. Under spec:
    spec.source.kind."""
    selector: Annotated[LabelSelector, custom(_read_selector, OPEN.schema)] = ANY_LABELS
    """Old form: labels that a source must have, all of them. A map of label to value, or one string
    key=value[,key2=value2]. At least one label is required, and at most 16,384 characters. Under
    spec: spec.source.selector."""
    namespace: Annotated[tuple[str, ...], custom(_read_namespace, OPEN.schema)] = ()
    """Old form: the sources' namespace, or a list of namespaces. Default: the rule's own namespace.
    Under spec: spec.source.namespace."""
    namespaces: Annotated[tuple[Annotated[str, NAMESPACE], ...], _NAMESPACES] = ()
    """Old form: the same as namespace, always a list; if both are set, both lists apply. Under
    spec: spec.source.namespaces."""

    def __post_init__(self) -> None:
        if not self.kind:
            fail("ruleType", "is required")
        # None at all would copy every Secret of the namespace into the whole cluster. That can't be
        # meant, so a missing or empty selector is refused.
        if self.selector.empty:
            fail(
                "selector",
                "must name at least one label; without one, everything in the namespace "
                "would be copied to every other",
            )

    def to_spec(self, home: str) -> OldRule:
        """The same as a spec."""
        source = CopiedSource(
            self.kind,
            selector=self.selector,
            listed=tuple(dict.fromkeys(self.namespace + self.namespaces)),
        )
        return OldRule(source=source.at(home))


# The whole object --------------------------------------------------------------------------------

_NAMED_TARGETS: Final = (
    "!has({0}.spec) || has({0}.spec.targets) && (has({0}.spec.targets.selector) "
    "? has({0}.spec.targets.selector.matchLabels) && "
    "size({0}.spec.targets.selector.matchLabels) > 0 "
    "|| has({0}.spec.targets.selector.matchExpressions) && "
    "size({0}.spec.targets.selector.matchExpressions) > 0 "
    ": has({0}.spec.targets.namespaces))"
)
_NO_TARGETS: Final = (
    'targets must say which namespaces get a copy: set targets.namespaces (["*"] for all), or '
    "targets.selector with at least one label under matchLabels or matchExpressions"
)


class CopyratorRule(OldForm, Root):
    """A rule that keeps copies of objects, or objects created from a template, in many namespaces.

    Its fields are under spec. The old form, with ruleType, selector and namespace next to metadata,
    is accepted unchanged; a rule has one form or the other, never both. Rules in the operator's own
    namespace are trusted; rules elsewhere aren't served unless tenant rules are enabled.
    """

    NAMES: ClassVar[Mapping[str, Any]] = {
        "plural": "copyrators",
        "singular": "copyrator",
        "shortNames": ["copyr"],
        "categories": ["copyrator-all"],
    }
    COLUMNS = (
        Column("Ready", f"{READY}.status", "Whether every desired copy is up to date."),
        REASON,
        Column("Desired", ".status.copies.desired", "Copies that the rule requires.", "integer"),
        Column("Copied", ".status.copies.ready", "Copies that are up to date.", "integer"),
        Column("Failed", ".status.copies.failed", "Copies that could not be written.", "integer"),
        Column(
            *("Conflicts", ".status.copies.conflicts"),
            "Targets that are owned by another rule or client.",
            *("integer", 1),
        ),
        MESSAGE,
        AGE,
    )
    RULES = (
        Rule(
            "!(has(self.spec) && (has(self.ruleType) || has(self.namespaces)))",
            "spec can't be combined with the old form: remove ruleType, selector, namespace and "
            "namespaces, or remove spec",
        ),
        Rule(
            "has(self.spec) || has(self.ruleType)",
            "set spec with a source or a template (or, in the old form, ruleType with selector)",
        ),
        # For a new rule, which has no status, and for an edit. Neither concerns writes of the
        # status or the finalizers of a stored rule without targets, which Kubernetes 1.29 validates
        # anew.
        Rule(f"has(self.status) || {_NAMED_TARGETS.format('self')}", _NO_TARGETS, ".spec.targets"),
        Rule(
            f"[oldSelf, self].map(one, {_NAMED_TARGETS.format('one')}) != [true, false]",
            *(_NO_TARGETS, ".spec.targets"),
        ),
    )

    spec: RuleSpec | None = None
    """What is copied, where to, and how: at most 20,000 values, 64 levels deep."""
    status: RuleStatus | None = None
    """Observed state. Set by the operator."""
