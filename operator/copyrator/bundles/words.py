"""What a feature says of a Bundle: in commands, on pages, in the report and in notices. Pure.

A feature's folder may have ``words.py`` with ``WORDS``, an object of a subclass of Words. It
imports ``api`` and the feature's other pure modules: commands that show Bundles load it, and so
do notifications.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, StrEnum, auto
from functools import cached_property
from typing import Any, ClassVar, Final, NamedTuple
from zoneinfo import ZoneInfo

from copyrator.api.bundle_spec import BundleSpec, Part
from copyrator.api.bundle_status import Attempted, BundleStatus, GateStatus, HistoryEntry
from copyrator.api.keys import BundleKey, ObjectName
from copyrator.api.reasons.notices import About
from copyrator.api.schema import InvalidSpec
from copyrator.api.text import Detail, time_until
from copyrator.bundles.features import load
from copyrator.bundles.fields import parse_status

# ruff: noqa: ARG002 - methods have what those of subclasses need


Body = Mapping[str, Any]
"""An object as the API server has it."""
Deploy = HistoryEntry | Attempted
MESSAGE: Final = 1500
"""Characters of a message that are shown."""
_LISTED: Final = ("conditions", "gates", "available", "deployed", "failedPolls", "lastError")


class View(ABC):
    """A Bundle as it is shown, made once from the object and the time."""

    body: Body
    now: datetime
    beside: Sequence[object]
    """What was read beside it and concerns it, see Beside."""
    unread: Sequence[str]
    """What the user may not read of that."""

    @property
    @abstractmethod
    def name(self) -> ObjectName:
        """Namespace and name."""

    @property
    @abstractmethod
    def spec(self) -> BundleSpec | InvalidSpec:
        """The spec, with the operator's defaults."""

    @property
    @abstractmethod
    def settings(self) -> Any:
        """The operator's Settings, as far as they are known; pure modules don't import these."""

    @property
    @abstractmethod
    def trouble(self) -> str:
        """The fault, what isn't trusted, healthy or as deployed, or what a person has to do."""

    @abstractmethod
    def hint(self, verb: str, *words: str) -> str:
        """A command about it."""

    @cached_property
    def status(self) -> BundleStatus:
        """The status, without what has a wrong type."""
        return parse_status(self.body)

    @cached_property
    def summary(self) -> BundleStatus:
        """What a line of a list shows of the status: all of it takes ten times as long to read."""
        return parse_status(
            self.body, *_LISTED, *(field for one in load_words() for field in one.listed)
        )

    @property
    def annotations(self) -> Mapping[str, str]:
        """The object's."""
        return self.body["metadata"].get("annotations") or {}

    @property
    def cluster(self) -> str:
        """The other cluster that its release is in; empty: there is none."""
        return next(lines_at(self, Place.CLUSTER), "")

    @property
    def is_repeating(self) -> bool:
        """Whether a feature's Job runs again after a fault of the infrastructure."""
        return any(one.is_repeating(self) for one in load_words())


class Place(Enum):
    """Where something is said; in each place the features are in the order of the list.

    Rows are parts of a description, and details those of a page and of the report; lines are texts.
    What isn't from `why` may be said of an invalid spec, too.
    """

    STATE = auto()
    """Rows: `describe`, below the status. Lines: `why`, below the checks."""
    SOURCE = auto()
    """Rows: `describe` and details, below the repository. Lines: `why`, below the last attempt."""
    NAMESPACE = auto()
    """Rows: `describe` and details, below the release's namespace."""
    VERSIONS = auto()
    """Rows: `describe`, below the versions."""
    TRUST = auto()
    """Rows: `describe`, `why` and details, about what is deployed."""
    ATTEMPT = auto()
    """Rows: `describe`, below the last attempt."""
    PLAN = auto()
    """Rows: `describe` and `why`, about what is going to be deployed."""
    DECISION = auto()
    """Rows: the part Plan of pages, about what is to be decided."""
    PREVIEW = auto()
    """Rows: `describe` and details, below that of `describe`."""
    RELEASE = auto()
    """Rows: `describe` and `why`, below that."""
    OBJECTS = auto()
    """Rows: `describe` and `why`, below that. Lines: pages, above the release's objects."""
    HISTORY = auto()
    """Rows: `describe`, `why` and details, about what was deployed. Lines: `why`, below these."""
    LEAD = auto()
    """Lines: the first sentence of a page of a Bundle that waits: what a person has to decide."""
    AWAITS = auto()
    """Lines: the reason for which a person has to do something, where no version waits for that."""
    NEWS = auto()
    """Lines: overviews, of a Bundle without trouble."""
    LOGIN = auto()
    """Lines: lists, by what the registry is logged in to, where that is no Secret."""
    CLUSTER = auto()
    """Lines: everywhere, the cluster that the release is in, where that is another one."""
    RETRY = auto()
    """Lines: what has to happen before a failed deploy is retried: ``a window opens``."""


class Tone(StrEnum):
    """How something looks on a page."""

    GOOD = "good"
    WAITING = "waiting"
    SUSPENDED = "suspended"
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class Soak:
    """How much of its soak a version has that waits for it."""

    version: str
    done: float
    """From 0 to 1."""
    until: str = ""
    """When it ends; empty where it doesn't end by itself."""
    text: str = ""
    """``soaked 5h of 24h, 19h left``."""


@dataclass(frozen=True, slots=True)
class Environment:
    """An environment of other clusters, whose evidence a Bundle needs."""

    name: str
    where: str
    """The only cluster and release that count; empty: each."""
    asked: str
    """``soak 24h, at most 168h old``."""
    is_missing: bool | None
    """Whether its evidence is, for the version that waits; None: nothing was judged."""

    @property
    def text(self) -> str:
        """All of it in a line."""
        state = {True: "Waiting", False: "Ready", None: ""}[self.is_missing]
        parts = (f"environment {self.name}", self.where, self.asked, state)
        return ", ".join(filter(None, parts))


@dataclass(frozen=True, slots=True)
class Origins:
    """Where the versions of a Bundle come from, before they may be deployed in it."""

    bundles: Sequence[BundleKey] = ()
    is_drawn: bool = False
    """Whether a page draws its way although no Bundle is linked with it."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What is drawn of a Bundle on that way."""

    soak: Soak | None = None
    """Of the version that waits for it."""
    environments: Sequence[Environment] = ()
    """Those of other clusters that it comes from."""
    attests: str = ""
    """What it says of the deployed version to other clusters: ``attested as staging 3h ago``."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page and of the report with a head of its own."""

    id: str
    title: str
    state: str
    tone: Tone | None
    """None: nothing was judged."""
    at: str | None
    """Since when, or when that was found."""
    is_since: bool
    message: str
    objects: Sequence[str]
    """Operations, as a plan's log has them."""
    more: int
    """Objects that aren't listed."""
    job: str
    """The Job whose log has the diffs of the objects; empty: none has."""
    notes: Sequence[str]
    """Sentences."""
    footer: str


@dataclass(frozen=True, slots=True)
class VersionEvent:
    """What happened to a version, or holds for it; its texts are printable."""

    change: str
    """In a word or two."""
    version: str
    digest: str
    time: str | None = None
    """None: it holds now, whenever that began; empty where none is known."""
    notes: Sequence[str] = ()
    """``promoted from apps/staging``, ``approved by ann``."""
    reason: str = ""
    message: str = ""
    command: str = ""
    """Changes it."""
    tone: Tone = Tone.GOOD


class StepState(StrEnum):
    """The state of a step on the way to a deploy."""

    PASSED = "passed"
    WAITING = "waiting"
    REFUSED = "refused"
    FAILED = "failed"
    NOT_REACHED = "not reached"


@dataclass(frozen=True, slots=True)
class DeployStep:
    """A check before a deploy, or the deploy."""

    name: str
    state: StepState
    text: str = ""
    """Why, or what it waits for; without a full stop."""
    reason: str = ""
    until: str = ""
    """A time; empty where none is known."""
    ends: str = ""
    """What happens then, as a verb."""
    command: str = ""
    """Changes it."""
    rejected: Sequence[tuple[str, str]] = ()
    """Versions that weren't chosen, each with the cause."""

    def lines(self, now: datetime) -> Iterator[str]:
        """For `copyrator why`."""
        text = f": {self.text}" if self.text else ""
        ends = f"; {self.ends} {time_until(self.until, now)}" if self.until else ""
        command = f"; {self.command}" if self.command else "."
        reason = f", {self.reason}" if self.reason else ""
        yield f"  {self.name}: {self.state}{reason}{text}{ends}{command}"
        for version, cause in self.rejected:
            yield f"    rejected {version}: {cause}"


@dataclass(frozen=True, slots=True)
class Banner:
    """What holds for several Bundles, above lists of them."""

    kind: str
    """Of those that are folded together, as a noun: ``freeze``."""
    label: str
    title: str
    text: str
    """The rest of the title's sentence."""
    notes: Sequence[str] = ()
    command: str = ""
    """Ends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What a feature needs to be read beside Bundles: a ConfigMap and annotations of Namespaces.

    Each is made a value of the feature's own type; None: it has nothing of that.
    """

    what: str
    """Those values as a plural noun."""
    config_map: str
    """Its name; it is in the operator's namespace."""
    of_config_map: Callable[[Body], object]
    of_namespace: Callable[[Body], object | None]
    find: Callable[[Sequence[object], datetime], Callable[[Body], tuple[object, ...]]]
    """Which of these values concern a Bundle now."""
    remarks: Callable[[Sequence[object], Sequence[str]], Iterable[str]]
    """Below a list: sentences about the values that concern Bundles in it, and what is unread."""
    banners: Callable[[Sequence[object], datetime, Callable[..., str]], Iterable[Banner]]
    """Above lists of Bundles, and overviews; the last argument makes a command of words."""


class Opening(NamedTuple):
    """When a deploy may begin; ``at`` is None where that is never."""

    at: datetime | None
    zone: ZoneInfo | None = None
    """In whose time it is to be said."""
    gate: str = ""
    """The gate that passes then."""


class Mark(NamedTuple):
    """A word beside the reason of Ready."""

    rank: int
    """Those with a lower one are first."""
    word: str
    """Empty: only the message is shown."""
    message: str = ""
    """What isn't well although the Bundle is Ready: that of the first one is the Bundle's."""
    is_flaw: bool = False
    """Whether the Bundle is Failing by it, Ready or not."""


class Notice(NamedTuple):
    """One thing to tell about a Bundle."""

    rank: int
    """Those with a lower one are first."""
    about: About
    what: str
    """The rest of a sentence that begins with the Bundle: ``waits for approval of 1.9.0``."""
    at: str
    """Since when, RFC 3339; empty where the status doesn't say."""
    key: str
    """What distinguishes it from others of the same Bundle and about."""
    why: str
    """Others' text."""
    command: str
    """What to do next."""


@dataclass(frozen=True, slots=True)
class Told:
    """A Bundle that people are told about."""

    namespace: str
    name: str
    status: BundleStatus

    @property
    def where(self) -> str:
        """Its name as arguments of a command."""
        return f"-n {self.namespace} {self.name}"

    @property
    def why(self) -> str:
        """The command that explains it."""
        return f"copyrator why {self.namespace}/{self.name} --kind bundle"


class Words:
    """What one feature says; each method may be left out.

    They are called for all Bundles, also where the spec is invalid or the status forged, which
    mustn't matter: a status is read without what has a wrong type, and its texts go through `said`.
    """

    gates: ClassVar[Mapping[str, type[Part]]] = {}
    """The gates that a part of the spec requires, in their order."""
    listed: ClassVar[Collection[str]] = ()
    """Fields of the status that a line of a list needs, beside conditions and gates."""
    columns: ClassVar[Mapping[str, Callable[[View], str]]] = {}
    """Columns of `get bundles -o wide`, by their heads."""
    beside: ClassVar[Beside | None] = None
    """What commands read for it beside the Bundles that they show."""
    tells_ready: ClassVar[Collection[str]] = ()
    """Reasons why a Bundle isn't Ready that notices of its own tell."""
    tells_failures: ClassVar[Collection[str]] = ()
    """Reasons of a failed attempt that they tell."""

    # --- lists and overviews ----------------------------------------------------------------------

    def requires(self, view: View) -> Iterable[str]:
        """Its gates that the operator's settings require, by the status."""
        return ()

    def marks(self, view: View) -> Iterable[Mark]:
        """What holds beside Ready: words in lists, and what isn't well."""
        return ()

    # --- `describe`, `why`, details ---------------------------------------------------------------

    def rows(self, view: View, place: Place) -> Iterable[Detail]:
        """Parts of a description, at a place."""
        return ()

    def lines(self, view: View, place: Place) -> Iterable[str]:
        """Texts, at a place, which decides first: for lists a whole status isn't read.

        Those of `why` are about a valid spec.
        """
        return ()

    def polls_again(self, view: View) -> bool:
        """Whether it has polls made before the interval has passed."""
        return False

    # --- gates and steps --------------------------------------------------------------------------

    def steps(self, view: View, spec: BundleSpec, place: Place) -> Iterable[DeployStep]:
        """Its checks before a deploy beside its gates: in NAMESPACE and VERSIONS.

        In STATE, for pages: gates that would stop one, where the status doesn't have them yet.
        """
        return ()

    def ends(self, gate: GateStatus) -> str:
        """What happens at the time of a verdict of its gate, where the gate doesn't say it."""
        return ""

    def opens(self, spec: BundleSpec, moment: datetime) -> Opening | None:
        """When a deploy may begin that can't begin at this time; None: it can."""
        return None

    def is_repeating(self, view: View) -> bool:
        """Whether a Job of its own runs again after a fault of the infrastructure."""
        return False

    # --- versions ---------------------------------------------------------------------------------

    def notes(
        self, view: View, sources: Sequence[Body]
    ) -> Callable[[Deploy, str | None], Iterable[str]]:
        """What is to be said of a deploy of this time.

        ``sources``: the Bundles of ``origins`` that the user may see.
        """
        return lambda _entry, _time: ()

    def versions(self, view: View) -> Mapping[str | None, str | None]:
        """Digests with their versions that its status has beside deploys."""
        return {}

    def events(
        self, view: View, versions: Mapping[str | None, str | None]
    ) -> Iterable[VersionEvent]:
        """What happened to its versions beside deploys, or holds; ``versions``: all known ones."""
        return ()

    # --- pages and the report ---------------------------------------------------------------------

    def section(self, view: View) -> Section | None:
        """Its part of a page and of the report."""
        return None

    def origins(self, body: Body) -> Origins | None:
        """Where its versions come from; of each Bundle that a page knows. None: from anywhere."""
        return None

    def stage(self, view: View, sources: Sequence[Body]) -> Stage | None:
        """What is drawn of it; ``sources``: the Bundles of ``origins`` that the user may see."""
        return None

    # --- notices ----------------------------------------------------------------------------------

    def notices(self, told: Told) -> Iterable[Notice]:
        """What people are told; from the status alone, whenever it has changed."""
        return ()

    def unknown(self, status: BundleStatus) -> Iterable[About]:
        """Its faults of which it isn't known now whether they hold."""
        return ()


def load_words() -> tuple[Words, ...]:
    """What all features say of Bundles."""
    return tuple(one.WORDS for one in load("words"))


def rows_at(view: View, *places: Place) -> Iterator[Detail]:
    """What features say of a Bundle at these places of a description."""
    return (row for place in places for one in load_words() for row in one.rows(view, place))


def lines_at(view: View, place: Place) -> Iterator[str]:
    """The texts of features at a place."""
    return (line for one in load_words() for line in one.lines(view, place) if line)
