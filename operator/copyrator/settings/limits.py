"""The limits on what a tenant, a registry or a caller of the webhook may send that modules share.

Anything over a limit is refused before it is processed, and its object's status reports that. The
limits are the operator's own: where a CRD allows more, the spec is InvalidSpec and the object stays
editable. A limit that one module checks is in that module.
"""

from __future__ import annotations

from typing import Final

STEP_SECONDS: Final = 0.05
"""Seconds of processor time that one step of the event loop may take: leader election, probes and
all other objects are delayed that long."""

OBJECT_CONTAINERS: Final = 100_000
"""Maps and lists of one object that are decoded, which takes some 30 ms. Of an object with more,
the largest fields are left out: it isn't copied, and a rule or Bundle is InvalidSpec."""

RULE_DEPTH: Final = 64
"""Levels of nesting in a rule's spec: some functions that traverse it are recursive."""

RENDER_STEPS: Final = 40_000
"""Steps that one object's rendering may take: an operation, a pass of a loop for each operation in
its body, or 64 characters processed. Measured: a step takes 0.2 to 1.2 us, so an object takes less
than STEP_SECONDS; 256 KiB of nothing but {{ namespace.name }} take 26,000 steps."""

RENDERED_TEXT: Final = 1_048_576
"""Characters of one string while it is rendered: more than an object may have."""

MAX_GLOBS: Final = 1_000
"""Patterns of one list of globs in a rule, and patterns with a wildcard in one allow-to or
allow-from annotation: they are matched together in 0.5 ms."""

MAX_GLOB_TEXT: Final = 65_536
"""Characters of all patterns with a wildcard in one list: the bits of the automaton that matches
them, built in 20 ms."""

ALL_HEALTH_NAMESPACES: Final = 32
"""Namespaces whose objects are watched for spec.health where watches of all namespaces aren't
granted; Bundles whose release is in a further one report Healthy as Unknown."""

UNHEALTHY_BEFORE: Final = 100
"""Consumers in status.rollout.unhealthyBefore: those that weren't healthy before a step."""

BUNDLE_VALUES_BYTES: Final = 8 * 1024 * 1024
"""Bytes of all values of a Bundle together. werf reads them whole, and so does the redaction of a
failed deploy's log."""

BUNDLE_VALUES_FILES: Final = 2_000
"""Keys of all values sources of a Bundle together: each is a variable of the Job, which has to stay
below etcd's limit of 1.5 MB."""

BUNDLE_REDACTION_INLINE_BYTES: Final = 4 * 1024
"""Bytes of Secrets that are parsed on the event loop, some 15 ms; more in a child process, because
the YAML parser is C code, which holds the GIL."""

BUNDLE_REDACTION_INLINE_BRACKETS: Final = 256
"""Brackets and braces in them: YAML's parsing time grows with the square of the depth."""

BUNDLE_TERMINATION_MESSAGE: Final = 4096
"""Characters of a container's termination message, the kubelet's own limit."""

BUNDLE_REQUEST: Final = 1024
"""Characters of an annotation such as requestedAt that identifies a request: they are copied to
the status."""

VERSION_LENGTH: Final = 256
"""Characters of ``spec.version``."""

REGISTRY_REQUESTS_PER_HOST: Final = 8
"""Requests in flight to one host: enough for a thousand polls a minute at 100 ms each."""

REGISTRY_HEADER_BYTES: Final = 16 * 1024
"""Bytes of one header, and of all Link or all WWW-Authenticate headers of a response that are
read."""

CA_BYTES: Final = 512 * 1024
"""Bytes of the certificates of caSecret: twice those that browsers trust."""

SIGNATURES: Final = 50
"""Signatures of one digest that are read, over all places and formats: each is one request or two,
and is checked against every entry."""

SIGNATURE_BYTES: Final = 256 * 1024
"""Bytes of one signature: a sigstore bundle or an envelope with its chain has some 10 KB."""

ATTESTATIONS: Final = 200
"""Attestations of one digest that are read, apart from its signatures. With more nothing is
promoted by them: a part of them may lack a withdrawal."""

ATTESTATION_BYTES: Final = 16 * 1024
"""Bytes of one attestation, a sigstore bundle; ours have 1.5 KB."""

REFERRERS_BYTES: Final = 4 * 1024 * 1024
"""Bytes of one page of referrers, or of the index of the fallback tag, as of a manifest: some
10,000 referrers."""

SIGNATURE_KEYS: Final = 20
"""Public keys of all entries of one requirement: each signature is tried with each, for up to a
millisecond."""

SIGNATURE_KEY_BYTES: Final = 16 * 1024
"""Bytes of one file of public keys."""

SIGNATURE_ROOT_BYTES: Final = 256 * 1024
"""Bytes of certificates of one entry, or of its trusted root."""

SIGNATURE_CHAIN: Final = 10
"""Certificates in a signature's chain."""

SIGNATURE_FAILURES: Final = 20
"""Reasons that are kept for one digest."""

CHART_LAYER_BYTES: Final = 8 * 1024 * 1024
"""Bytes of a packed chart: the bundle's one layer, and each archive in its ``charts/``. With more
the chart can't be judged: it isn't plain, its plans are unbound, and the Job's script decides
whether dependencies are vendored; so with CHART_UNPACKED_BYTES, CHART_JUDGED_BYTES and CHART_FILES.
The largest of 44 public charts has 1 MiB, 12 MiB unpacked."""

CHART_WORDS: Final = 200_000
"""Names, texts, spaces and braces in the actions of all templates, which take some two seconds in
the child process. With more its plans are unbound."""

HEADER_SECONDS: Final = 15.0
"""Seconds that a connection to one of the operator's own ports may take for the headers of a
request, and stay open without one."""
