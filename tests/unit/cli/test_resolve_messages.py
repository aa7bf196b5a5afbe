"""`resolve` names its own options, not a Bundle's fields."""

import pytest

from copyrator.api.bundle_status import Rejected
from copyrator.bundles.version.candidates import Choice, Rejection, Selection, explain
from copyrator.cli.registry_options import in_options
from copyrator.oci.reference import Repository
from copyrator.oci.tokens import _refused
from copyrator.oci.transport import _untrusted

REPOSITORY = Repository("r.example.com", "team/app")


@pytest.mark.parametrize(
    ("message", "option"),
    [
        (_refused(REPOSITORY, None).message, "set --auth-file"),
        (_refused(REPOSITORY, object()).message, "credentials of --auth-file"),
        ("refuses access (403); check the Secret of spec.auth", "check --auth-file"),
        ("refuses access (403); spec.auth names no Secret", "set --auth-file"),
        (
            "If it is the registry of team/app, set spec.registry to it",
            "If it is the registry of team/app, name it",
        ),
        (_untrusted("r.example.com", ValueError()), "--ca-file and --skip-tls-verify"),
    ],
)
def test_a_registrys_error_names_the_option_that_helps(message, option):
    said = in_options(message)
    assert option in said
    assert "spec." not in said
    assert "caSecret" not in said


def test_so_does_the_reason_why_no_tag_was_chosen():
    rejected = (Rejected(version="1.0.0-rc.1", reason=Rejection.PRE_RELEASE),)
    choice = Choice(Selection.NO_MATCH, rejected=rejected)
    assert in_options(explain(choice, "1.*")).endswith("; --prerelease admits pre-releases")
