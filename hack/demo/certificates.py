"""Certificates in copies on screen: the rule says when the first one ends, and warns."""

from functools import partial

from demo.objects import condition
from demo.rules import delete_rule_of
from demo.screen import Rows
from demo.stage import Stage, example_of, spec_of
from demo.steps import Chapter, Step
from demo.waiting import NotYet, until

FILE = "rules/certificate.yaml"
NAME = "soon.example.com"


def copy(stage: Stage) -> Rows:
    """Apply the example: a certificate, and the rule that copies it."""
    stage.types(f"kubectl apply -f examples/{FILE}")
    stage.shows(spec_of(FILE))
    return _wait(stage, "CertificatesValid")


def replace(stage: Stage) -> Rows:
    """Replace the certificate by one that ends in three days."""
    stage.types(
        "kubectl -n copyrator create secret generic wildcard-tls \\\n"
        "  --type=kubernetes.io/tls --from-literal=tls.key=none \\\n"
        "  --from-file=tls.crt=<(\n"
        f"    hack/run python -m localcluster certificate {NAME} --days 3\n"
        "  ) --dry-run=client -o yaml | kubectl apply -f -"
    )
    return _wait(stage, "CertificateExpiring")


def _wait(stage: Stage, reason: str) -> Rows:
    return until(partial(_look, stage, reason), what=f"the rule's condition to be {reason}")


def _look(stage: Stage, reason: str) -> Rows:
    about = example_of(FILE, "CopyratorRule")["metadata"]
    rule = stage.objects.get("copyrators", about["name"], about["namespace"]) or {}
    found = condition(rule, "CertificateExpiring")
    if found.get("reason") != reason:
        raise NotYet(f"its reason is {found.get('reason')}")
    (one,) = rule["status"]["certificates"]
    row = (one["commonName"], one["notAfter"], f"{found['status']} ({reason})")
    return Rows(("CERTIFICATE", "ENDS", "CERTIFICATEEXPIRING"), [row])


CHAPTER = Chapter(
    "Certificates: the rule says when the first one ends",
    (
        Step("A certificate is copied, and the rule's status has its end", copy),
        Step("It is replaced by one that ends in three days, and the rule warns", replace),
        Step(
            "The rule is deleted, and so are the copies",
            partial(delete_rule_of, FILE, "The Secret with the certificate is unchanged."),
        ),
    ),
)
