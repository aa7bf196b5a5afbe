"""Every limit on what a tenant, a registry or a caller of the webhook may send, in one place.

Anything over a limit is refused before it is processed, and its object's status reports that. The
limits are the operator's own: where a CRD allows more, the spec is InvalidSpec and the object stays
editable. docs/reference/limits.md is generated from this module.
"""

from __future__ import annotations

from typing import Final

# --- one step of work ---------------------------------------------------------------------------

STEP_SECONDS: Final = 0.05
"""Seconds of processor time that one step of the event loop may take: leader election, probes and
all other objects are delayed that long."""

SLICE_SECONDS: Final = 0.01
"""Seconds of processor time after which a long task yields to others."""

ISOLATED_CPU_SECONDS: Final = 10
"""Seconds of processor time of one call in the child process: ten times what the largest accepted
rule or Bundle needs."""

ISOLATED_MEMORY: Final = 512 * 1024 * 1024
"""Bytes of address space of the child process."""

# --- objects as the API server has them ----------------------------------------------------------

OBJECT_CONTAINERS: Final = 100_000
"""Maps and lists of one object that are decoded, which takes some 30 ms. Of an object with more,
the largest fields are left out: it isn't copied, and a rule or Bundle is InvalidSpec."""

PAGE_BYTES: Final = 16 * 1024 * 1024
"""Bytes of one page of a list: a larger one is requested again, with fewer objects."""

KOPF_PAGE_BYTES: Final = 4 * 1024 * 1024
"""The same for the pages of rules and Bundles: kopf decodes each as a whole."""

# --- rules --------------------------------------------------------------------------------------

RULE_VALUES: Final = 20_000
"""Maps, lists, strings and other values in a rule's spec: parsing each takes a microsecond or two.
A thousand globs in each list with 64 x 64 expressions in each selector are 17,000."""

RULE_ITEMS: Final = 1_000
"""Items of one list or map of a rule's spec outside its template, as in the CRD."""

SELECTOR_TEXT: Final = 16_384
"""Characters of a selector that is written as one string (old form): splitting them takes 15 ms."""

RULE_DEPTH: Final = 64
"""Levels of nesting in a rule's spec: some functions that traverse it are recursive."""

TEMPLATE_TEXT: Final = 65_536
"""Characters of one string that may contain Jinja2: compiling 64 KiB of nothing but Jinja2 takes
some two seconds in the child process."""

TEMPLATE_TEXTS: Final = 262_144
"""Characters of all strings of one template, keys included: it is compiled after each edit, and
rendered for each target."""

TENANT_NAME_TEXT: Final = 1_024
"""Characters of spec.transform.name of a tenant's rule, as in the CRD: parsing that many takes 10
ms at most."""

REQUEST_TEXT: Final = 256
"""Characters of the requestedAt annotation that are read and copied to the status."""

PROBLEM_PATH: Final = 512
"""Characters of the path of an invalid field: its keys are the author's and may be long."""

NOTED_FAULTS: Final = 10_000
"""Objects that couldn't be delivered whose fault is remembered, so that it is logged once."""

# --- templates ----------------------------------------------------------------------------------

COMPILED_AT_ONCE: Final = 512
"""Characters of the longest string that is compiled in the operator's own process: of nothing but
Jinja2 it takes 15 ms. A longer one is compiled in the child process."""

COMPILED_HERE: Final = 2_048
"""Characters of all strings of a rule up to which the operator's own process compiles them."""

COMPILED_TOGETHER: Final = 65_536
"""Characters of strings that the child process compiles in one call: two seconds at most."""

RENDER_STEPS: Final = 40_000
"""Steps that one object's rendering may take: an operation, a pass of a loop for each operation in
its body, or 64 characters processed. Measured: a step takes 0.2 to 1.2 us, so an object takes less
than STEP_SECONDS; 256 KiB of nothing but {{ namespace.name }} take 26,000 steps."""

RENDERED_TEXT: Final = 1_048_576
"""Characters of one string while it is rendered: more than an object may have."""

RENDERED_OBJECT: Final = 1_572_864
"""Characters of all strings of one rendered object: etcd's limit of an object, in bytes."""

TEMPLATE_NUMBER_BITS: Final = 4_096
"""Binary digits of a number that a template calculates: a 64-bit number has 64."""

FORMAT_WIDTH: Final = 1_024
"""Width that a format such as %10d may have."""

COMPOSED_SOURCES: Final = 32
"""Entries of spec.sources, as in the CRD."""

COMPOSED_OBJECTS: Final = 500
"""Objects that all entries of spec.sources may select together."""

COMPOSED_BYTES: Final = 16 * 1024 * 1024
"""Bytes of these objects (as JSON): they are held in memory while a rule's copies are rendered and
written."""

OVERRIDDEN_HOSTS: Final = 20
"""Hosts in status.overridden."""

DROPPED_FIELDS: Final = 20
"""Fields in status.droppedFields."""

PASSED_OVER_SOURCES: Final = 20
"""Sources in status.passedOver."""

# --- copies, sources, consent -------------------------------------------------------------------

MAX_GLOBS: Final = 1_000
"""Patterns of one list of globs in a rule, and patterns with a wildcard in one allow-to or
allow-from annotation: they are matched together in 0.5 ms."""

MAX_GLOB_TEXT: Final = 65_536
"""Characters of all patterns with a wildcard in one list: the bits of the automaton that matches
them, built in 20 ms."""

MAX_GLOB_WORK: Final = 400_000_000
"""Characters of a source's keys times characters of the patterns that choose among them: some 40 ms
for one copy."""

MAX_CONSENT_TEXT: Final = 256 * 1024
"""Characters of an allow-to or allow-from annotation: as many as the API server allows all
annotations of an object together."""

MAX_REQUIREMENTS: Final = 64
"""Labels and expressions of one selector: matched for each namespace and each source."""

MAX_REQUIREMENT_VALUES: Final = 64
"""Values of one expression of a selector."""

COMPARED_VALUES: Final = 20_000
"""Values of an existing object in a copy's place and of the rule's desired one, together, up to
which they are compared (ConfigMaps and Secrets always are): 20 ms."""

FIGHTS: Final = 10_000
"""Copies that other clients change back, of which the pauses are kept (ConflictPersists): 1 KB
each. Beyond them the one that was written longest ago is written without a pause again."""

# --- fairness between namespaces ----------------------------------------------------------------

TENANT_WORKERS: Final = 8
"""Keys (rules, copies, Bundles) of one namespace that are reconciled at a time: a few namespaces
whose requests hang can't occupy all workers."""

TENANTS_WORKERS: Final = 48
"""The same of all tenants together: 16 of the 64 workers are left to trusted rules."""

TENANT_READS: Final = 4
"""Requests that read for one namespace at a time (lists, sources, values, Secrets for registries):
large objects of one don't delay others."""

TENANTS_READS: Final = 32
"""The same of all tenants together, of 128 connections for requests."""

TENANT_PLAN_READS: Final = 2
"""Logs of plans that are read for one namespace at a time: a kubelet that hangs delays nothing
else."""

TENANTS_PLAN_READS: Final = 8
"""The same of all namespaces together."""

TENANT_WATCHES: Final = 16
"""Watches of sources for the rules of one tenant's namespace. Each is a connection; rules with the
same selector share one, and rules that name their source share five of each kind."""

TENANTS_WATCHES: Final = 256
"""The same of all tenants together. `FIRST_WATCHES` of each namespace don't count."""

FIRST_WATCHES: Final = 2
"""Watches of sources that a tenant's namespace gets however many others have."""

REFERENCES_BY_NAME: Final = 4
"""ConfigMaps, and likewise Secrets, named by one namespace's Bundles, with a watch each. For
more there is one metadata watch of the namespace, which caches only the named objects."""

KIND_REFERENCE_WATCHES: Final = 64
"""Watches of ConfigMaps, and likewise of Secrets, named by Bundles. Where all namespaces together
would have more, there is one metadata watch of all namespaces, which caches only the named
objects."""

UNMANAGED_WATCHES: Final = 8
"""Watches of single objects that block copies: in one target namespace for trusted rules, and for
the rules of one tenant's namespace. Beyond it such an object is read again after ten seconds, and
then with back-off, at least every five minutes."""

TRUSTED_UNMANAGED_WATCHES: Final = 64
"""The same of all trusted rules together: each is a connection."""

TENANTS_UNMANAGED_WATCHES: Final = 32
"""The same of all tenants together, apart from those of trusted rules."""

REFERENCE_WATCHES: Final = 32
"""Watches for the Bundles of one namespace where the wider ones aren't granted. Objects beyond it
are read again at every poll instead."""

ALL_REFERENCE_WATCHES: Final = 128
"""Watches of objects named by Bundles, all together: each is a connection. Where the wider ones
aren't granted, each namespace gets its first before any gets a second."""

HEALTH_NAMESPACES: Final = 16
"""Namespaces whose Deployments, StatefulSets, DaemonSets and Jobs of releases are watched for
spec.health, with a watch of each kind. For more there is one of each kind for all namespaces."""

ALL_HEALTH_NAMESPACES: Final = 32
"""The same where watches of all namespaces aren't granted; Bundles whose release is in a further
one report Healthy as Unknown."""

TENANT_SOURCE_BYTES: Final = 8 * 1024 * 1024
"""Bytes of sources (as JSON, with `SOURCE_OVERHEAD` for each) that are held in memory for the rules
of one tenant's namespace: eight of the largest objects that etcd accepts."""

TENANTS_SOURCE_BYTES: Final = 64 * 1024 * 1024
"""The same of all tenants together: an eighth of the chart's memory limit. `FIRST_SOURCE_BYTES` of
each namespace don't count."""

FIRST_SOURCE_BYTES: Final = 256 * 1024
"""Bytes of sources that a tenant's namespace may have however much others have."""

TRUSTED_SOURCE_BYTES: Final = 128 * 1024 * 1024
"""Bytes of sources that are held for all trusted rules: a quarter of the chart's memory limit."""

SOURCE_OVERHEAD: Final = 2048
"""Bytes of memory per source beyond its JSON: dicts and strings of a small object."""

CERTIFICATE_KEYS: Final = 1000
"""Keys of one source that are searched for certificates."""

CERTIFICATE_BYTES: Final = 2 * 1024 * 1024
"""Bytes of one source that are searched for certificates: more than an object may have."""

CERTIFICATES_READ: Final = 1000
"""Certificates of one source that are read, some 20 us each, and blocks of PEM that turn out to be
none; the bundles of browsers have 150 certificates."""

CERTIFICATE_PEM: Final = 16 * 1024
"""Characters of one certificate in PEM; longer ones are skipped."""

CERTIFICATE_RULES: Final = 100
"""Rules in the metric of certificates: those whose certificates end soonest."""

ROLLOUT_STEPS: Final = 20
"""Steps of one spec.rollout."""

ROLLOUT_PAUSE: Final = 7 * 24 * 3600
"""Seconds of one pause of a rollout."""

UNHEALTHY_BEFORE: Final = 100
"""Consumers in status.rollout.unhealthyBefore: those that weren't healthy before a step."""

CONSUMER_LISTS: Final = 8
"""Lists of consumers that all rollouts have in flight."""

RESTARTED_FOR: Final = 10
"""Rules that a consumer's annotation names as the reason of its restarts: the latest ones."""

TENANT_HOST_POLLS: Final = 6
"""Requests in flight to one registry for the Bundles of one namespace: fewer than the 8 requests
that a host gets at a time, so that others' Bundles of that registry continue."""

TENANT_POLLS: Final = 64
"""Requests in flight to all registries for the Bundles of one namespace: each is a connection."""

TENANTS_POLLS: Final = 256
"""The same of all namespaces together."""

# --- Bundles ------------------------------------------------------------------------------------

BUNDLE_VALUES_BYTES: Final = 8 * 1024 * 1024
"""Bytes of all values of a Bundle together. werf reads them whole, and so does the redaction of a
failed deploy's log."""

BUNDLE_VALUES_FILES: Final = 2_000
"""Keys of all values sources of a Bundle together: each is a variable of the Job, which has to stay
below etcd's limit of 1.5 MB."""

BUNDLE_SECRET_KEY: Final = 4_096
"""Bytes of the key that ``spec.secretKey`` names; werf's have 32."""

BUNDLE_VALUES_READERS: Final = 4
"""Namespaces whose Bundles' values are read at the same time, one source of each: some 5 MB."""

BUNDLE_REDACTIONS: Final = 2
"""Namespaces whose Bundles' Secrets are held at the same time to redact a log, one of each. Large
ones wait for the child process, so these have separate slots."""

BUNDLE_SECRETS: Final = 80
"""Secrets of a Job that are redacted from its log: 64 of ``valuesFrom``, the registry's and its
CA's, and some that an administrator's webhook adds."""

BUNDLE_REDACTION_BYTES: Final = BUNDLE_VALUES_BYTES + 2 * 1024 * 1024
"""Bytes of those Secrets together. Beyond it the whole text of the log is withheld."""

BUNDLE_REDACTION_INLINE_BYTES: Final = 4 * 1024
"""Bytes of Secrets that are parsed on the event loop, some 15 ms; more in a child process, because
the YAML parser is C code, which holds the GIL."""

BUNDLE_REDACTION_INLINE_BRACKETS: Final = 256
"""Brackets and braces in them: YAML's parsing time grows with the square of the depth."""

BUNDLE_LOG_BYTES: Final = 16 * 1024
"""Bytes of a pod's log that are read: 2 KB of it go into the status."""

BUNDLE_PODS: Final = 4
"""Pods of a Job that are read. A Job has one."""

BUNDLE_LABELLED_PODS: Final = 40
"""Pods with a Job's label that are looked through for its own: anyone may give a pod that label."""

BUNDLE_TERMINATION_MESSAGE: Final = 4096
"""Characters of a container's termination message, the kubelet's own limit."""

BUNDLE_STATUS_BYTES: Final = 16 * 1024
"""Bytes of a Bundle's status as JSON that are read unchanged; the operator's own have up to some
12 KB. A user who may write ``bundles/status`` may store more: the parts of that are cut."""

BUNDLE_STATUS_TEXT: Final = 4096
"""Characters of each string of a larger status: none of the operator's is longer."""

BUNDLE_STATUS_TEXTS: Final = 32 * 1024
"""Characters of all strings of a larger status together."""

BUNDLE_STATUS_ITEMS: Final = 32
"""Items of each list of a larger status: more than the operator's have."""

BUNDLE_STATUS_FIELDS: Final = 64
"""Fields of each map of a larger status: more than the operator's have."""

BUNDLE_STATUS_VALUES: Final = 2_048
"""Maps, lists, texts and numbers of a status that are read: the operator's own have up to some
1,400. It is held parsed, and an empty map of three bytes takes 64."""

BUNDLE_STATUS_DEPTH: Final = 8
"""Levels of a larger status: more than the operator's have."""

BUNDLE_LIST: Final = 64
"""Entries of ``spec.valuesFrom`` and of each list and map of ``spec.job``, as in the CRD; a
Bundle may have been stored under an older one."""

BUNDLE_JOB_FIELD: Final = 64 * 1024
"""Bytes of ``resources``, ``securityContext`` and ``tolerations`` of ``spec.job``, each as JSON:
they are copied to the Job unchanged."""

FREEZE_BYTES: Final = 4 * 1024
"""Bytes of a Namespace's annotation operator.werf.dev/freeze, and of the data of the ConfigMap
copyrator-freeze; a longer one freezes, and isn't read."""

BUNDLE_REQUEST: Final = 1024
"""Characters of an annotation such as requestedAt that identifies a request: they are copied to
the status."""

BUNDLE_SKIPPED_DIGESTS: Final = 20
"""Digests in the annotation skip-digests: each is held in memory, and compared with every version
that could be deployed."""

BUNDLE_ENV_NAMES: Final = 256
"""Variables in ``spec.env``, as in the CRD."""

BUNDLE_ENV_VALUE: Final = 128 * 1024
"""Bytes of one variable with its name: Linux's limit for a process (MAX_ARG_STRLEN)."""

BUNDLE_ENV_BYTES: Final = 256 * 1024
"""Bytes of all of ``spec.env`` with the names: the operator holds them, and they are twice in the
Job, for which etcd's limit is 1.5 MB."""

BUNDLE_METADATA: Final = 1_000
"""Labels, and likewise annotations, of a Bundle that are set on its release: each is a variable of
the Job."""

BUNDLE_POD_ANNOTATIONS: Final = 256 * 1024
"""Bytes of ``spec.job.podAnnotations``: the API server's limit for one object."""

TAG_FILTER_LENGTH: Final = 256
"""Characters of ``spec.tagFilter``."""

TAG_FILTER_MEMORY: Final = 128 * 1024
"""Bytes that RE2 may use for a compiled filter and its matching."""

TAG_FILTER_STEPS: Final = 512
"""Instructions of a compiled filter. RE2's time per tag grows with them: ``(.?){500}z`` has 5,500
and takes 3.5 ms, a filter of 512 at most some 0.1 ms."""

TAG_FILTERS: Final = 128
"""Compiled filters that are cached."""

VERSION_LENGTH: Final = 256
"""Characters of ``spec.version``."""

VERSION_CONSTRAINTS: Final = 32
"""Constraints in a version range, on both sides of every ``||``: each is checked for every tag of a
list."""

PLAN_OPERATIONS: Final = 5_000
"""Operations of one plan: a larger one is PlanFailed."""

PLAN_BYTES: Final = 1_000_000
"""Bytes of a plan's list of operations: what is approved is kept in one Secret, which may have at
most 1 MiB."""

PLAN_INPUT_FILES: Final = 500
"""Values files of a Bundle that are told apart to name what changed since the deployed plan; of
more only the ConfigMap or Secret is named."""

PLAN_INPUT_FILE_KEYS: Final = 100
"""Top-level keys of one such file, else only the file is named."""

PLAN_INPUT_KEYS: Final = 1_000
"""Top-level keys of all of them together."""

PLAN_INPUT_BYTES: Final = 256 * 1024
"""Bytes of all files whose top-level keys are read: half a second in a child process."""

PLAN_INPUT_BRACKETS: Final = 2_000
"""Brackets and braces in them: YAML's parsing time grows with the square of the depth."""

PERMISSION_KINDS: Final = 50
"""Kinds of a plan's objects, counted in each namespace, whose permissions are reviewed: seven
requests each."""

PERMISSION_REVIEWS_AT_ONCE: Final = 4
"""Access reviews in flight, of all plans together; those of one plan are sent one by one."""

PERMISSION_REVIEWS_SECONDS: Final = 60.0
"""Seconds for all access reviews of one plan; a plan of 50 kinds has some 370."""

# --- registries ---------------------------------------------------------------------------------

REGISTRY_REQUESTS: Final = 128
"""Requests to registries in flight over all hosts, fair between hosts: each may hold the headers
and the unread part of a response, some 200 KB."""

REGISTRY_REQUESTS_PER_HOST: Final = 8
"""Requests in flight to one host: enough for a thousand polls a minute at 100 ms each."""

REGISTRY_LARGE_ANSWERS: Final = 4
"""Responses of over REGISTRY_SMALL_ANSWER bytes that are held at a time over all hosts: 16 MiB; and
as many pages of tag lists: 32 MiB."""

REGISTRY_SMALL_ANSWER: Final = 64 * 1024
"""Bytes of a response that are held without waiting: manifests and tokens have a few KB."""

REGISTRY_HOSTS: Final = 2048
"""Hosts whose request rate and pause (after a 429 or 503) are remembered. Idle ones are dropped at
once; above this number the least recently used ones are."""

REGISTRY_HOST_LABELS: Final = 100
"""Hosts with separate metrics: each has some twenty series. Further ones, redirects' targets
and token servers are counted as host="other"."""

REGISTRY_HEADERS: Final = 64
"""Headers of a response."""

REGISTRY_HEADER_BYTES: Final = 16 * 1024
"""Bytes of one header, and of all Link or all WWW-Authenticate headers of a response that are
read."""

REGISTRY_LOOKUPS: Final = 16
"""Names of hosts that are resolved at a time, each in a thread: a name server that doesn't answer
occupies one for some ten seconds."""

MANIFEST_BYTES: Final = 4 * 1024 * 1024
"""Bytes of a manifest; the OCI specification lets registries refuse longer ones."""

TAG_PAGE_BYTES: Final = 8 * 1024 * 1024
"""Bytes of one page of a tag list: registries without paging send everything at once."""

TAG_LIST_BYTES: Final = 64 * 1024 * 1024
"""Bytes of all pages of a tag list."""

TAG_LIST_TAGS: Final = 400_000
"""Tags of a list: many times what large repositories have; choosing from so many takes seconds of
processor time."""

TAG_LIST_PAGES: Final = 1000
"""Pages of a tag list."""

TAG_LIST_SECONDS: Final = 600.0
"""Seconds for all pages of a tag list; a single one has the client's timeout."""

TAG_LISTS_AT_ONCE: Final = 1
"""Tag lists of which tags are decoded at a time, fair between hosts: all others' pages wait, as
bytes, so that an iteration of the event loop has one such step."""

TAG_CHARACTERS: Final = 128
"""Characters of a tag: the OCI specification's own limit."""

TOKEN_ANSWER_BYTES: Final = 64 * 1024
"""Bytes of a token server's response."""

TOKEN_CHARACTERS: Final = 16 * 1024
"""Characters of a token: servers accept no longer headers."""

TOKENS_CHARACTERS: Final = 32 * 1024 * 1024
"""Characters of all Authorization headers that are cached, and of their challenges: 2 KB for each
of 10,000 Bundles and some more. The least recently used ones are dropped first."""

CREDENTIAL_BYTES: Final = 16 * 1024
"""Bytes of a user's name, a password or a token in the Secret of ``auth``: servers accept no longer
headers."""

DOCKER_CONFIG_BYTES: Final = 256 * 1024
"""Bytes of a ``.dockerconfigjson``, which is parsed whole: a thousand registries and more."""

DOCKER_CONFIG_GLOBS: Final = 64
"""Keys with wildcards in it that may match a registry: comparing one takes up to 0.4 ms."""

DOCKER_KEY_WILDCARDS: Final = 16
"""Wildcards in one of them; a key with more, or with over 253 characters, matches nothing."""

REALM_CHARACTERS: Final = 2048
"""Characters of a token server's URL."""

CA_BYTES: Final = 512 * 1024
"""Bytes of the certificates of caSecret: twice those that browsers trust."""

CA_CONTEXTS: Final = 64
"""Sets of certificates that are cached as SSL contexts."""

# --- signatures ---------------------------------------------------------------------------------

SIGNATURES: Final = 50
"""Signatures of one digest that are read, over all places and formats: each is one request or two,
and is checked against every entry."""

SIGNATURE_BYTES: Final = 256 * 1024
"""Bytes of one signature: a sigstore bundle or an envelope with its chain has some 10 KB."""

SIGNATURE_MANIFEST_BYTES: Final = 256 * 1024
"""Bytes of the manifest of a signature. That of the tag sha256-HEX.sig lists all its signatures,
with their certificates."""

SIGNATURES_BYTES: Final = 4 * 1024 * 1024
"""Bytes of all signatures of one digest, which are held until they are checked."""

SIGNATURES_SECONDS: Final = 60.0
"""Seconds for finding and reading the signatures of one digest."""

REFERRERS_BYTES: Final = 4 * 1024 * 1024
"""Bytes of one page of referrers, or of the index of the fallback tag, as of a manifest: some
10,000 referrers."""

REFERRERS_PAGES: Final = 10
"""Pages of referrers of one digest."""

SIGNATURE_POLICY_BYTES: Final = 64 * 1024
"""Characters of the signature policy."""

SIGNATURE_POLICY_ENTRIES: Final = 100
"""Entries of the signature policy."""

SIGNATURE_ENTRIES: Final = 10
"""Entries of one requirement."""

SIGNATURE_SUBJECTS: Final = 20
"""Subjects of one entry."""

SIGNATURE_KEYS: Final = 20
"""Public keys of all entries of one requirement: each signature is tried with each, for up to a
millisecond."""

SIGNATURE_KEY_BYTES: Final = 16 * 1024
"""Bytes of one file of public keys."""

SIGNATURE_ROOT_BYTES: Final = 256 * 1024
"""Bytes of certificates of one entry, or of its trusted root."""

SIGNATURE_CHAIN: Final = 10
"""Certificates in a signature's chain."""

SIGNATURE_CHECK: Final = 64 * 1024
"""Work of one check of a signature by one key, beside its bytes: up to a millisecond."""

SIGNATURE_WORK: Final = 128 * 1024 * 1024
"""Work of judging one digest, over all requirements: the bytes of each signature and
SIGNATURE_CHECK for each key that it is tried with, four times as much for a certificate. 1,000
checks of usual signatures take 75 MB. What is beyond isn't accepted, which depends on no clock."""

SIGNATURES_INLINE: Final = 64 * 1024
"""Bytes of the signatures of one digest that are judged in a thread; more are judged in the child
process: parsers hold up the other threads."""

SIGNATURE_REFUSALS: Final = 500
"""Refusals that are kept, some 10 KB each at most, so that the same signatures aren't judged again
at each poll."""

SIGNATURE_FAILURES: Final = 20
"""Reasons that are kept for one digest."""

TENANT_SIGNATURES: Final = 4
"""Digests whose signatures are read at a time for the Bundles of one namespace; each may hold
SIGNATURES_BYTES."""

TENANTS_SIGNATURES: Final = 32
"""The same of all namespaces together."""

SIGNATURE_CHECKS: Final = 2
"""Digests whose signatures are checked at a time, each in a thread, fair between namespaces."""

# --- charts of bundles --------------------------------------------------------------------------

CHART_MANIFEST_BYTES: Final = 256 * 1024
"""Bytes of the manifest of a bundle whose chart is read."""

CHART_LAYER_BYTES: Final = 4 * 1024 * 1024
"""Bytes of a packed chart: the bundle's one layer, and each archive in its ``charts/``. With more
the chart isn't judged: its plans are unbound, and the Job's script decides whether dependencies are
vendored; so with the next two limits and for each file of CHART_METADATA_BYTES."""

CHART_UNPACKED_BYTES: Final = 32 * 1024 * 1024
"""Bytes of a chart that are unpacked, those of the archives in its ``charts/`` included."""

CHART_FILES: Final = 5_000
"""Files of a chart, those of its subcharts included."""

CHART_TEMPLATES_BYTES: Final = 2 * 1024 * 1024
"""Bytes of all templates that are parsed. With more its plans are unbound."""

CHART_WORDS: Final = 200_000
"""Names, texts, spaces and braces in the actions of all templates, which take some two seconds in
the child process. With more its plans are unbound."""

CHART_METADATA_BYTES: Final = 64 * 1024
"""Bytes of each Chart.yaml, Chart.lock, requirements.yaml and requirements.lock."""

CHARTS_AT_ONCE: Final = 8
"""Charts that are downloaded and judged at a time, fair between namespaces: one a namespace."""

# --- webhook ------------------------------------------------------------------------------------

WEBHOOK_BODY_BYTES: Final = 128 * 1024
"""Bytes of a call; the longest payloads (GitHub's) are some 50 KB, and decoding 1 MB of brackets
takes 0.2 s."""

WEBHOOK_BEARER_CALLS: Final = 16
"""Calls with the secret as a bearer token that are read at a time: 2 MiB."""

WEBHOOK_BEARER_SECONDS: Final = 10.0
"""Seconds that such a call has for its body."""

WEBHOOK_SIGNED_CALLS: Final = 16
"""Calls with a signature that are read at a time, fair between peers: the caller is authenticated
only after the body was read."""

WEBHOOK_SIGNED_CALLS_PER_PEER: Final = 2
"""Of those, from one peer (an IPv4 address or an IPv6 /64)."""

WEBHOOK_SIGNED_SECONDS: Final = 5.0
"""Seconds that a signed call waits for its slot and has for its body: registries wait no longer
for an answer."""

WEBHOOK_PUSHES: Final = 1000
"""Pushes that one call may name; registries send one, or a few."""

CONNECTIONS: Final = 1024
"""Connections to one of the operator's own ports."""

CONNECTIONS_PER_PEER: Final = 64
"""Of those, from one peer that isn't a trusted proxy."""

HEADER_SECONDS: Final = 15.0
"""Seconds that a connection to one of the operator's own ports may take for the headers of a
request, and stay open without one."""
