"""The gate of ``spec.greeting``: a release waits for words. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tests.toy_feature.greeting.fields import GreetingSpec
from tests.toy_feature.greeting.reasons import GreetingReason

from copyrator.api.bundle_spec import BundleSpec
from copyrator.bundles.engine.gate import (
    PASSED,
    Candidate,
    Facts,
    Gate,
    Gates,
    Occasion,
    Verdict,
    Waiting,
    uses,
)


@dataclass(frozen=True, slots=True)
class Words:
    """What guests are greeted with."""

    text: str


def _judge_words(spec: BundleSpec, _candidate: Candidate, facts: Facts, _now: datetime) -> Verdict:
    found = facts.findings.of(Words)
    if found is None or not found.text:
        name = spec.part(GreetingSpec).config_map
        return Waiting(GreetingReason.SPEECHLESS, f"ConfigMap {name} has no `words`")
    return PASSED


WORDS: Final = Gate(
    name="words",
    concerns=uses(GreetingSpec),
    occasions=frozenset({Occasion.NEW_DIGEST, Occasion.REQUEST}),
    judge=_judge_words,
)
GATES: Final = Gates(moment=(WORDS,))
