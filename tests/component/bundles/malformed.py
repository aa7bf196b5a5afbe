"""Bad Bundles and all that they meet: Secrets, values, Jobs, reports and a registry."""

from __future__ import annotations

import base64
import itertools
import json
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from hypothesis import strategies as st
from tests.component.bundles.fake_cluster import BundleCluster, path_of
from tests.component.oci.fake_registry import FakeRegistry
from tests.kubeconfigs import document

from hostile.generated import DIGEST, EVIL, PLAIN, REMOTE, REMOTE_STATUS, SPEC, STATUS
from hostile.mangled import JSON, TEXTS, like, mangled

BUNDLES = st.builds(
    lambda spec, status: {"spec": spec, "status": status},
    mangled(SPEC) | mangled(PLAIN) | mangled(REMOTE) | st.just(PLAIN) | JSON,
    st.none() | st.just(STATUS) | mangled(STATUS) | mangled(REMOTE_STATUS) | JSON,
)
ANNOTATIONS = st.dictionaries(
    st.sampled_from(
        ["requestedAt", "forceAt", "force-delete", "disable-autoupdate", "bundle-uid", "attempt"]
    ).map("operator.werf.dev/{}".format)
    | TEXTS,
    TEXTS | st.just("true"),
    max_size=3,
)

KUBECONFIG = document()
DOCKER_CONFIG = {"auths": {EVIL: {"username": "u", "password": "p", "auth": "dTpw"}}}
SECRETS = st.builds(
    lambda kind, data: {
        "type": kind,
        "data": {key: base64.b64encode(text.encode()).decode() for key, text in data.items()},
    },
    st.sampled_from(["Opaque", "kubernetes.io/dockerconfigjson", "kubernetes.io/basic-auth"]),
    st.fixed_dictionaries(
        {},
        optional={
            "username": TEXTS,
            "password": TEXTS,
            "ca.crt": TEXTS,
            "values.yaml": TEXTS,
            "value": TEXTS | st.just(json.dumps(KUBECONFIG)) | mangled(KUBECONFIG).map(json.dumps),
            ".dockerconfigjson": TEXTS | mangled(DOCKER_CONFIG).map(json.dumps),
        },
    ),
)

REPORT = {
    "version": 3,
    "release": "app",
    "namespace": "team",
    "revision": 1,
    "status": "deployed",
    "completedOperations": ["create: ConfigMap/app"],
    "failedOperations": ["create: Pod/bad"],
}
ENDINGS = st.tuples(
    st.integers(0, 255), mangled(REPORT).map(json.dumps) | TEXTS | JSON.map(json.dumps)
)
"""Exit code and termination message."""
JOB = {
    "metadata": {
        "labels": {"operator.werf.dev/job": "deploy", "operator.werf.dev/bundle": "good"},
        "annotations": {"operator.werf.dev/bundle-uid": "x", "operator.werf.dev/attempt": "1"},
    },
    "spec": {"ttlSecondsAfterFinished": 259200, "activeDeadlineSeconds": 1},
    "status": {
        "startTime": "2026-01-01T00:00:00Z",
        "succeeded": 1,
        "failed": 1,
        "conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}],
    },
}

HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "Docker-Content-Digest": TEXTS | st.just(DIGEST),
        "Link": TEXTS | st.sampled_from(['</v2/x>; rel="next"', '<http://[>; rel="next"', "<>"]),
        "WWW-Authenticate": TEXTS
        | st.sampled_from(['Bearer realm="http://x"', "Basic", 'Bearer realm=",', "Bearer a=b"]),
        "Retry-After": TEXTS | st.sampled_from(["0", "-5", "9" * 30, "Mon, 99 Foo"]),
        "Location": TEXTS | st.sampled_from(["/v2/", "http://[::1", "ftp://x/", "//"]),
        "Content-Encoding": st.sampled_from(["gzip", "br", "x"]),
    },
).map(lambda headers: {name: _printable(text) for name, text in headers.items()})
TAGS = {"name": "team/app", "tags": ["1.0.0", "1.1.0", "latest", "v1.2.0-rc.1"]}
MANIFEST = {
    "schemaVersion": 2,
    "mediaType": "application/vnd.oci.image.manifest.v1+json",
    "config": {"mediaType": "x", "digest": DIGEST, "size": 2},
    "layers": [{"mediaType": "x", "digest": DIGEST, "size": 2}],
}
ANSWERS = st.tuples(
    st.sampled_from([200, 200, 200, 204, 301, 307, 400, 401, 403, 404, 416, 429, 500, 503, 599]),
    HEADERS,
    st.binary(max_size=64)
    | (mangled(TAGS) | mangled(MANIFEST) | JSON).map(lambda body: json.dumps(body).encode()),
)


def _printable(text: str) -> str:
    """What an HTTP header may hold."""
    return "".join(letter for letter in text if " " <= letter <= "~")


_numbers = itertools.count()


@dataclass
class Bad:
    """The bad things of one example."""

    bundles: list[tuple[dict[str, Any], dict[str, str]]]
    """Each with its annotations."""
    secret: dict[str, Any]
    values: dict[str, str]
    job: dict[str, Any]
    ending: tuple[int, str]
    answers: list[tuple[int, dict[str, str], bytes]]

    def begin(self, cluster: BundleCluster, evil: FakeRegistry) -> list[str]:
        """Put everything into the cluster; returns the paths."""
        evil.fault = self._registry()
        made = [("secrets", "creds", self.secret), ("configmaps", "values", {"data": self.values})]
        made.append(("jobs", f"job-{next(_numbers)}", self.job))
        for body, marks in self.bundles:
            # A valid JSON text stays one: what stands in for the address is quoted.
            addressed = json.dumps(body).replace(f'"{EVIL}"', f'"{evil.host}"')
            fields = {**json.loads(addressed), "metadata": {"annotations": marks}}
            made.append(("bundles", f"bad-{next(_numbers)}", fields))
        for plural, name, fields in made:
            cluster.put_object(plural, name, **fields)
        return [path_of(plural, name) for plural, name, _ in made]

    def _registry(self) -> Any:
        endless = itertools.cycle(self.answers)

        async def answer(_request: web.Request) -> web.StreamResponse:
            status, headers, body = next(endless)
            return web.Response(status=status, headers=headers, body=body)

        return answer


BAD = st.builds(
    Bad,
    bundles=st.lists(st.tuples(BUNDLES, ANNOTATIONS), min_size=1, max_size=3),
    secret=SECRETS,
    values=st.dictionaries(TEXTS, TEXTS, max_size=2),
    job=mangled(JOB, like),
    ending=ENDINGS,
    answers=st.lists(ANSWERS, min_size=1, max_size=3),
)
