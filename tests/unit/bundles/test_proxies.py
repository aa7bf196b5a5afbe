"""Which of the operator's proxies Jobs get to know."""

import pytest

from copyrator.bundles.jobs.pod import proxies_with_password, variables_for_jobs

API = "$(KUBERNETES_SERVICE_HOST)"
PLAIN = "http://proxy:3128"
SECRET = "http://user:word@proxy:3128"


@pytest.mark.parametrize(
    ("proxies", "variables"),
    [
        ({}, {}),
        ({"no": "example.com"}, {}),
        ({"https": PLAIN}, {"HTTPS_PROXY": PLAIN, "NO_PROXY": API}),
        (
            {"https": PLAIN, "http": PLAIN, "no": ".svc,10.0.0.1"},
            {"HTTPS_PROXY": PLAIN, "HTTP_PROXY": PLAIN, "NO_PROXY": f".svc,10.0.0.1,{API}"},
        ),
        ({"https": "http://$(HOME):1"}, {"HTTPS_PROXY": "http://$$(HOME):1", "NO_PROXY": API}),
        ({"https": SECRET}, {}),
        ({"https": SECRET, "http": PLAIN}, {"HTTP_PROXY": PLAIN, "NO_PROXY": API}),
        ({"ftp": PLAIN}, {}),
    ],
)
def test_names_what_werf_needs_and_no_password(
    proxies: dict[str, str], variables: dict[str, str]
) -> None:
    assert variables_for_jobs(proxies) == variables


def test_knows_which_ones_hold_a_password() -> None:
    assert proxies_with_password({"https": SECRET, "http": PLAIN}) == ["HTTPS_PROXY"]
    assert proxies_with_password({"http": SECRET}) == ["HTTP_PROXY"]
