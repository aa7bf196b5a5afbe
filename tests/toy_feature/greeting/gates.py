"""The gates of ``spec.greeting``: an unwelcome version, and a release without words. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tests.toy_feature.greeting.fields import GreetingSpec
from tests.toy_feature.greeting.reasons import GreetingReason

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.keys import BundleKey
from copyrator.bundles.engine.gate import (
    PASSED,
    Candidate,
    Facts,
    Gate,
    Gates,
    Occasion,
    Refused,
    Verdict,
    Waiting,
    uses,
)
from copyrator.bundles.engine.links import Link


@dataclass(frozen=True, slots=True)
class Opinion:
    """What is said of one version."""

    is_welcome: bool


@dataclass(frozen=True, slots=True)
class Words:
    """What guests are greeted with, and the Bundles that have to greet before."""

    text: str
    awaited: tuple[BundleKey, ...] = ()


def _judge_version(spec: BundleSpec, candidate: Candidate, facts: Facts, _now: datetime) -> Verdict:
    found = facts.findings.of(Opinion)
    if found is None or found.is_welcome:
        return PASSED
    text = f"{candidate.version} is unwelcome in ConfigMap {spec.part(GreetingSpec).config_map}"
    return Refused(GreetingReason.UNWELCOME, text)


def _judge_words(spec: BundleSpec, _candidate: Candidate, facts: Facts, _now: datetime) -> Verdict:
    found = facts.findings.of(Words)
    if found is None or not found.text:
        name = spec.part(GreetingSpec).config_map
        return Waiting(GreetingReason.SPEECHLESS, f"ConfigMap {name} has no `words`")
    if found.awaited:
        return Waiting(GreetingReason.SPEECHLESS, f"{found.awaited[0]} hasn't greeted yet")
    return PASSED


LINK: Final = Link(
    field="spec.greeting.after",
    verb="greets after",
    part=GreetingSpec,
    named=lambda part: part.after,
)
WELCOME: Final = Gate(
    name="welcome",
    concerns=uses(GreetingSpec),
    occasions=frozenset(Occasion),
    judge=_judge_version,
)
WORDS: Final = Gate(
    name="words",
    concerns=uses(GreetingSpec),
    occasions=frozenset({Occasion.NEW_DIGEST, Occasion.REQUEST}),
    judge=_judge_words,
    link=LINK,
)
GATES: Final = Gates(version=(WELCOME,), moment=(WORDS,))
