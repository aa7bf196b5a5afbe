"""Objects that hypothesis makes: good rules and Bundles of which some parts have gone bad.

What the CRDs let through of them comes to the operator.
"""

from __future__ import annotations

import json
from functools import lru_cache
from random import Random
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from hostile.bad import BUNDLES, RULES, Bad, Places
from hostile.mangled import BOMBS, anything, like, mangled

HOME = "home"
"""Stands for the author's namespace."""
EVIL = "evil"
"""Stands for the bad registry's address in specs."""
DIGEST = "sha256:" + "a" * 64

RULE = {
    "spec": {
        "source": {
            "kind": "Secret",
            "apiVersion": "v1",
            "namespaces": [HOME, "team-a"],
            "selector": {
                "matchLabels": {"app": "shop"},
                "matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}],
            },
        },
        "targets": {
            "namespaces": ["team-*", "team-a"],
            "exclude": ["kube-*"],
            "selector": {"matchLabels": {"team": "red"}},
        },
        "transform": {
            "name": "{{ source.name }}-x",
            "keys": {"include": ["*"], "exclude": ["b*"], "rename": {"a": "c"}},
            "labels": {"add": {"made": "yes"}, "remove": ["x*"]},
            "annotations": {"add": {"made": "yes"}, "remove": ["x*"]},
        },
        "onConflict": "Overwrite",
        "onImmutable": "Recreate",
        "deletionPolicy": "Delete",
        "limit": 100,
        "mode": "Apply",
        "suspend": False,
    },
    "status": {
        "conditions": [{"type": "Ready", "status": "True", "reason": "Synced", "message": ""}],
        "observedGeneration": 1,
        "copies": {"desired": 1, "ready": 1},
        "failures": [{"namespace": "a", "name": "b", "reason": "Conflict", "message": "c"}],
    },
}
KUBE_CONFIG = {"secretName": "creds", "key": "value"}
REMOTE_RULE = {
    "spec": {
        "source": {"kind": "Secret", "namespace": HOME, "name": "x", "kubeConfig": KUBE_CONFIG},
        "targets": {"namespaces": ["team-*"]},
    },
    "status": {
        "sourceClusters": [
            {"secretName": "creds", "key": "value", "uid": "x", "ca": "sha256:" + "a" * 64}
        ],
    },
}
TEMPLATE_RULE = {
    "spec": {
        "template": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "made", "labels": {"team": "{{ namespace.labels.team }}"}},
            "data": {"text": "{% if namespace.name %}{{ rule.name }}{% endif %}"},
        },
        "targets": {"namespaces": ["team-*"]},
    }
}
OLD_RULE = {"ruleType": "secret", "selector": {"app": "shop"}, "namespace": [HOME, "team-a"]}

SPEC = {
    "registry": EVIL,
    "repo": "team/app",
    "version": "1.*",
    "auth": "creds",
    "project_namespace": "team",
    "values": "values",
    "valuesFrom": [{"kind": "Secret", "name": "creds", "optional": True}],
    "env": {"DEBUG": True, "REPLICAS": 2},
    "interval": "10s",
    "timeout": "5m",
    "suspend": False,
    "serviceAccountName": "werf",
    "autoRollback": True,
    "releasesHistoryMax": 3,
    "tagFilter": "1[.].*",
    "prerelease": True,
    "insecure": True,
    "caSecret": "creds",
    "werf": {"version": "2"},
    "job": {"ttlSecondsAfterFinished": 5, "podLabels": {"a": "b"}, "resources": {"limits": {}}},
    "retry": {"limit": 1, "backoff": "1s"},
    "deletionPolicy": "Uninstall",
}
PLAIN = {"registry": EVIL, "repo": "team/app", "insecure": True, "retry": {"limit": 0}}
REMOTE = PLAIN | {
    "kubeConfig": KUBE_CONFIG,
    "attest": {"environment": "staging", "keyFrom": {"secretName": "creds", "key": "value"}},
}
REMOTE_STATUS = {
    "server": "https://other.example.com",
    "deployed": {"version": "1.0.0", "digest": DIGEST, "server": "https://other.example.com"},
    "attest": [
        {
            "digest": DIGEST,
            "version": "1.0.0",
            "environment": "staging",
            "reference": EVIL + "/team/app",
            "state": "Withdrawing",
            "issuedAt": "2026-01-01T00:00:00Z",
            "since": "2026-01-01T00:00:00Z",
            "until": "2026-01-01T00:00:00Z",
            "seconds": 1,
        }
    ],
}
STATUS = {
    "ready": 1,
    "forceUpdate": 1,
    "target": {"digest": DIGEST, "version": "1.0.0"},
    "deploy": {"digest": DIGEST, "version": "1.0.0"},
    "observedGeneration": 1,
    "conditions": [
        {
            "type": "Ready",
            "status": "True",
            "reason": "Deployed",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ],
    "available": {
        "version": "1.0.0",
        "digest": DIGEST,
        "rejected": [{"version": "2", "reason": "x"}],
    },
    "deployed": {"version": "1.0.0", "digest": DIGEST, "namespace": "team", "revision": 1},
    "attempted": {
        "version": "1.0.0",
        "digest": DIGEST,
        "job": "app-deploy-0123456789",
        "attempt": 1,
        "failures": 1,
        "outcome": "Running",
        "generation": 1,
        "nextRetryAt": "2026-01-01T00:00:00Z",
    },
    "history": [{"version": "1.0.0", "outcome": "Failed", "time": "2026-01-01T00:00:00Z"}],
    "nextPollAt": "2026-01-01T00:00:00Z",
    "lastError": {"reason": "DeployFailed", "message": "x", "logTail": "y"},
    "lastHandledRequest": "x",
}

FORMS: dict[str, list[dict[str, Any]]] = {
    "rules": [RULE, REMOTE_RULE, TEMPLATE_RULE, OLD_RULE],
    "bundles": [
        {"spec": SPEC, "status": STATUS},
        {"spec": PLAIN},
        {"spec": REMOTE, "status": REMOTE_STATUS},
    ],
}
BATCH = 20
"""Objects that one seed of hypothesis makes."""


def rules(random: Random, places: Places, name: str) -> Bad:
    """A rule of any form, mangled."""
    return _bad(RULES, "rules", random, places, name)


def bundles(random: Random, places: Places, name: str) -> Bad:
    """A Bundle, mangled."""
    return _bad(BUNDLES, "bundles", random, places, name)


def _bad(where: tuple[str, str], form: str, random: Random, places: Places, name: str) -> Bad:
    text = random.choice(_batch(form, random.randrange(1_000)))
    for word, real in ((HOME, places.evil[0]), (EVIL, places.registry)):
        text = text.replace(f'"{word}"', f'"{real}"')
    content = json.loads(text)
    status = content.pop("status", None)
    return Bad(where, random.choice(places.evil), name, {**content, "metadata": {}}, status)


@lru_cache(maxsize=4)
def _batch(form: str, number: int) -> list[str]:
    """The objects that a seed makes, as JSON."""
    found: list[str] = []
    junk = st.sampled_from([like, like, anything, _dear])

    @seed(number)
    @settings(
        database=None,
        deadline=None,
        max_examples=BATCH,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.tuples(st.sampled_from(FORMS[form]), junk).flatmap(lambda both: mangled(*both)))
    def example(made: dict[str, Any]) -> None:
        found.append(json.dumps(made))

    example()
    return found


def _dear(value: Any) -> st.SearchStrategy[Any]:
    """For `mangled`: as `dear`, but no deeper than `json` writes; `texts.deep` is."""
    return BOMBS if isinstance(value, str) else like(value)
