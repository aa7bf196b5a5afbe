"""The error of a failed werf, as the status shows it. Pure.

werf ends with ``Error: LAYER: LAYER: CAUSE``, or with ``N errors occurred:`` and a cause on each of
the next lines (nelm's ``pkg/util/multierror.go``; Helm's libraries use hashicorp/go-multierror and
Go's ``errors.Join``). A person must see the causes, the first one first.

Texts may be truncated at both ends. They are redacted before they are shortened here: a part of a
Secret's value wouldn't be found (``redaction.py``).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

from copyrator.api.bundle_status import MAX_LOG_TAIL
from copyrator.api.text import count

MAX_ERROR: Final = 512
"""Characters of an error in a status."""
MAX_CAUSE: Final = 400
"""The same after the operations that failed."""
ERROR: Final = "Error:"
IN_LOG: Final = "<see the pod's log>"
MAX_BLOCK: Final = 16 * 1024
"""Characters of an error that are read; as many as are read of a log."""
_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[T ][0-9:.,]{8,20}(?:Z|[+-]\d\d:?\d\d)? ")
"""Before a line, if something adds it."""
NO_ERROR: Final = (
    "Error: changes planned",
    "Error: resource changes planned",
    "Error: no resource changes planned, but still must install release",
)
"""The last lines of a plan that has changes; the last two are werf 3's."""
_DEATHS: Final = "panic: ", "fatal error: "
"""Go's words before why a program died; the lines after it are of its source."""
_NO_CAUSE: Final = re.compile(
    r"\s*$"
    r"|\s*Use --debug\b"
    r"|\s*Set log level to \"debug\""
    r"|\s*[\u2500-\u257f]"  # frames
    r"|\s*>?\s*\d{1,9} \| "  # an excerpt of YAML, and what points into it
    r"|\s*\^"
)
_FIRST_LINE: Final = re.compile(rf"^(?:{_TIME.pattern})?{ERROR}", re.MULTILINE)
ITEM: Final = re.compile(r"\s*\*\s+(?=\S)")
_COUNT: Final = re.compile(r"\b\d{1,6} errors?(?:\(s\))? occurred:\s*")
_ROLLBACK: Final = re.compile(r"; (?=rollback: )")
_LAYER: Final = re.compile(
    r"(?:release (?:plan )?(?:install|rollback)|chart render"
    r'|(?:failed )?release "[^"]{1,64}" \(namespace: "[^"]{1,64}"\)'
    r"|execute (?:release install|failure) plan|wait for operations completion"
    r"|execute operation|execution canceled|(?:create|apply|recreate|delete) resource"
    r"|build resource infos|build (?:installable|deletable) resource info"
    r"|wait for (?:prev release )?resource pool"
    r"|(?:locally|remotely) validate resources|validate resource schemas"
    r"|validate adoptable resources|(?:UPGRADE|INSTALLATION) FAILED"
    r"): "
)
"""Layers that name neither an object nor a fault, at the beginning."""
_INNER_LAYER: Final = re.compile(
    r"(?<=: )(?:(?:retryable on webhook error|server-side apply): "
    r'|convert rendered templates to installable resources for chart at "[^"]{1,400}": )'
)
"""Such layers elsewhere."""
_PLAIN_LAYER: Final = re.compile(r"[A-Za-z][A-Za-z ,'-]{2,80}: (?=\S)")
"""Any layer that names nothing."""
_VALUE: Final = re.compile(
    r'(?:Invalid|Duplicate|Unsupported) value: (?:[&*]?[A-Za-z][\w.\[\]*]{0,100})?(["{[])'
)
"""The API server's words before a value, and how it begins."""
_CLOSING: Final = {"{": "}", "[": "]", '"': '"'}
_MAX_VALUE: Final = 60
_KEPT: Final = 40
"""Characters that are kept of a longer text."""
_REGEX: Final = re.compile(
    r" \((?:e\.g\. [^()]{0,200}, )?regex used for validation is '[^']*(?:'\)|$)"
)
_QUOTED: Final = re.compile(r"(?<=[ (])'[^']{41,}'(?=[\s),.;:\]]|$)")
_INCLUDE: Final = re.compile(
    r'(?:template: )?[^\s:]{1,320}:\d{1,9}:\d{1,9}:? executing "[^"]{1,320}" at <[^>]{0,320}>: '
    r"error calling include: "
)
_EMPTY: Final = re.compile(r"(?:rollback: )?(?:(?:UPGRADE|INSTALLATION) FAILED:?)?")
_REMEDIES: Final = (
    (
        re.compile(
            r"validate resource schemas: "
            r"|locally validate resources: (?:\d+ errors? occurred:\s+\* )?validate [A-Z]"
        ),
        (
            " (werf 3 checks this before it applies anything: correct the chart, or set "
            'WERF_NO_RESOURCE_VALIDATION: "1" in spec.env)'
        ),
    ),
    (
        re.compile(r"\.metadata\.(?:annotations|labels) accessor error: "),
        (
            " (werf 3 checks this, and no setting switches it off: quote the value in the chart, "
            "or deploy with werf 2, which leaves it out)"
        ),
    ),
)
"""What only werf 3 refuses, and what helps."""
_TEMPLATE_TEXT: Final = re.compile(
    r"error calling (?!include:(?: (?:template|execution error)"
    r"|\n(?:[^\s:]\S{0,320}:\d{1,9}:\d{1,9}\n|template: no template )))"
    r"[A-Za-z_][A-Za-z0-9_]{0,60}:\s"
    r"|execution error at \([^()\n]{1,400}\): "
    r"|range can't iterate over "
    r"|cannot unmarshal !![a-z]{1,20} "
    r"|cannot decode !![a-z]{1,20} "
    r"|unknown anchor "
    r"|mapping key "
    r"|don't meet the specifications of the schema\(s\)"
    r'| accessor error: (?:contains non-string value in the map under key "[^"\n]{1,320}": )?'
    r"|(?=&value\.valueUnstructured\{)"
    r"|\[\d{1,9}:\d{1,9}\] [^\n]{0,400}\n(?=[ >]{1,8}\d{1,9} \| )"
    r"|validate [A-Z][A-Za-z0-9]{0,63}/[^\s:]{1,320}(?: \([^()\n]{1,99}\))?: /[^\s:]{0,400}: (?=')"
)
"""Go's, Helm's, nelm's and the API server's words before a text that isn't theirs."""


def strip_colours(log: str) -> str:
    """A log without colour sequences."""
    return _ANSI.sub("", log)


def log_tail(log: str) -> str:
    """The end of a log, short enough for a status, from the start of a line where possible."""
    text = strip_colours(log).strip()
    if len(text) <= MAX_LOG_TAIL:
        return text
    tail = text[-MAX_LOG_TAIL:]
    _, newline, rest = tail.partition("\n")
    return rest if newline and rest else tail


def remove_template_text(text: str, literals: Collection[str] = ()) -> str:
    """Werf's error, or the end of its log, without what a template or a value gave to it.

    Kept are the template, its line and the function, or the object and the field; what follows
    may have values, in any number of lines, so it ends there. ``include`` gives no text of its own:
    what follows it is read on.

    Args:
        text: one or more lines.
        literals: texts of ``required`` and ``fail`` that stand in the chart itself, which may pass.
    """
    found = _TEMPLATE_TEXT.search(text)
    if found is None:
        return text
    line = text[found.end() :].partition("\n")[0]
    return text[: found.end()] + (line if line in literals else IN_LOG)


def has_error(log: str) -> bool:
    """Whether a log has the first line of an error of werf's."""
    return bool(_FIRST_LINE.search(strip_colours(log)))


def find_error(log: str) -> str:
    """The lines of werf's last ``Error: …``, with which its log ends.

    Without one: the line by which Go says why it died, else the last line. A termination
    message has only the end of a log: then they are the lines with causes, before which the rest of
    an incomplete one may stand.
    """
    lines = [_TIME.sub("", line.rstrip(), count=1) for line in strip_colours(log).split("\n")]
    lines = [line for line in lines if line.strip() not in NO_ERROR]
    found = [at for at, line in enumerate(lines) if line.startswith(ERROR)]
    found = found or [at for at, line in enumerate(lines) if line.lstrip().startswith(ERROR)]
    items = [at for at, line in enumerate(lines) if ITEM.match(line)]
    if found:
        start = found[-1]
    elif items:
        start = 0 if items[0] == 1 else items[0]
    else:
        died = [line for line in lines if line.startswith(_DEATHS)]
        ends = (line.strip() for line in (*died[:1], *reversed(lines)))
        return next(filter(None, ends), "")[:MAX_BLOCK]
    error = [line for line in lines[start:] if not _NO_CAUSE.match(line)]
    return "\n".join(error).strip()[:MAX_BLOCK]


def describe_error(error: str, most: int = MAX_ERROR) -> str:
    """An error in one line: the first cause, and as many of the others as there is space for.

    Layers that say nothing are left out, and so are long values. It is truncated at a word; causes
    that aren't named are counted. What only werf 3 checks is said to be so, with the remedies.

    Args:
        error: of ``find_error``, redacted.
        most: characters.
    """
    remedy = next((text for words, text in _REMEDIES if words.search(error)), "")
    most -= len(remedy)
    causes = [_shorten_values(strip_layers(cause)) for cause in _split(error)]
    telling = [cause for cause in causes if not _EMPTY.fullmatch(cause)]
    first, *others = dict.fromkeys(telling or causes or [""])
    text = _truncate(first, most - len(_uncounted(len(others))))
    for number, cause in enumerate(others):
        left = len(others) - number
        if len(f"{text}; {cause}{_uncounted(left - 1)}") > most:
            return text + _uncounted(left) + remedy
        text += f"; {cause}"
    return text + remedy


def first_cause(error: str) -> str:
    """The first cause of an error with all its layers, in one line."""
    return next(_split(error), "")


def lacks_access(error: str, server: str) -> bool:
    """Whether the first cause is that another cluster's API server can't be used now.

    It doesn't answer, has another certificate, or doesn't accept the credential, which may have
    ended. What the credential may not do is the deploy's fault, as in the operator's own cluster.

    Args:
        error: of ``find_error``.
        server: ``https://…`` of a kubeconfig; empty: the operator's own, for which this isn't said.
    """
    if not server:
        return False
    line = first_cause(error)
    if _UNAUTHORIZED.search(line) and not PULLING.search(line):
        return True
    return re.search(rf' "{re.escape(server)}[/?"]', line) is not None


_UNAUTHORIZED: Final = re.compile(
    r"the server has asked for the client to provide credentials|(?:^|: )Unauthorized$"
)
"""client-go's words for the code 401, at the end also those of some registries. It writes ``Get
"https://HOST/PATH": CAUSE`` where there was no answer at all (Go's url.Error). ``401 Unauthorized``
is of another server, such as the registry of an image that a workload can't pull."""


def refuses_login(error: str) -> bool:
    """Whether the first cause of an error is that the bundle's registry refuses the login."""
    line = first_cause(error)
    return PULLING.search(line) is not None and _REGISTRY_LOGIN.search(line) is not None


PULLING: Final = re.compile(r"pull bundle|get manifest|pulling", re.IGNORECASE)
"""Words of errors of the bundle's registry."""

_REGISTRY_LOGIN: Final = re.compile(
    r"unauthorized|authentication required|\bdenied\b|\b40[13]\b", re.IGNORECASE
)
"""Its refusals."""


def _uncounted(number: int) -> str:
    return f"; and {count(number, 'more error')}" if number else ""


def _split(error: str) -> Iterator[str]:
    """Yield the causes of an error, each in one line, the first with the layers before all."""
    cause, layers = "", ""
    lines = error.removeprefix(ERROR).split("\n")
    if not error.startswith(ERROR) and any(map(ITEM.match, lines[1:2])):  # its start is missing
        if lines[0].endswith(" occurred:"):
            del lines[0]
        elif not ITEM.match(error):
            layers = "…"
    for line in lines:
        item = ITEM.match(line)
        text = " ".join(line[item.end() if item else 0 :].split())
        if cause and (item or _LAYER.match(text)):
            yield from _ROLLBACK.split(cause)
            cause = ""
        counted = _COUNT.search(text)
        if counted and counted.end() == len(text):
            cause, layers = "", f"{cause}{layers}{text[: counted.start()]}"
            continue
        if counted:
            text = text[: counted.start()] + text[counted.end() :]
        cause = f"{cause} {text}".strip() if cause else f"{layers}{text}"
        layers = ""
    yield from _ROLLBACK.split(cause or layers)


def strip_layers(cause: str) -> str:
    """A cause without the layers that name neither an object nor a fault."""
    while (layer := _LAYER.match(cause)) and layer.end() < len(cause):
        cause = cause[layer.end() :]
    return _INNER_LAYER.sub("", cause).rstrip(": ")


def _shorten_values(cause: str) -> str:
    """A cause with long values of fields shortened, and whole objects left out."""
    text, at = "", 0
    for found in _VALUE.finditer(cause):
        start = found.end()
        if start <= at:
            continue
        end = _end_of_value(cause, start)
        if end - start > _MAX_VALUE:
            kept = _cut(cause[start:end], _KEPT) if found[1] == '"' else "…"
            text += f"{cause[at:start]}{kept}{_CLOSING[found[1]]}"
            at = end
    return text + cause[at:]


def _end_of_value(text: str, at: int) -> int:
    """Where a value ends that was opened before ``at``; the text's end if it isn't closed."""
    expected = [_CLOSING[text[at - 1]]]
    while at < len(text):
        char = text[at]
        at += 1
        if expected[-1] == '"':
            at += char == "\\"
            if char == '"':
                expected.pop()
        elif char == expected[-1]:
            expected.pop()
        elif char in _CLOSING:
            expected.append(_CLOSING[char])
        if not expected:
            return at
    return len(text)


def _truncate(text: str, most: int) -> str:
    """A cause of at most so many characters, truncated at a word as the last resort."""
    if len(text) > most:
        text = _REGEX.sub("", text)
        text = _QUOTED.sub("'…'", text)
    if len(text) > most:  # of a chain of includes, the first and the last have to be known
        chain = [one.span() for one in _INCLUDE.finditer(text)]
        for start, end in reversed(chain[1:]):
            text = text[:start] + text[end:]
    while len(text) > most and (layer := _PLAIN_LAYER.match(text)):
        text = text[layer.end() :]
    return text if len(text) <= most else _cut(text, most)


def _cut(text: str, most: int) -> str:
    end = text.rfind(" ", most // 2, most)
    return text[: end if end > 0 else most - 1].rstrip(" ,;:([{") + "…"
