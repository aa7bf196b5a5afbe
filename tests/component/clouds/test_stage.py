"""What these tests judge by tells a token that leaks, and one that isn't the account's."""

import json
import urllib.error
import urllib.request

import jwt
import pytest
import requests
from tests.clouds.guards import OwnTokens
from tests.clouds.stage import Answer, Stage


def test_tokens_are_found_in_texts_and_in_requests_in_whatever_form(cloud_stage: Stage) -> None:
    token = cloud_stage.issue("login")
    cloud_stage.serve("a.example", lambda _: Answer())
    cloud_stage.serve("b.example", lambda _: Answer())
    ca = cloud_stage.environment["SSL_CERT_FILE"]
    requests.get("https://a.example/", auth=("AWS", token), verify=ca, timeout=60)
    requests.post("https://b.example/", data={"refresh_token": token}, verify=ca, timeout=60)
    assert cloud_stage.hosts_told(token) == {"a.example", "b.example"}
    cloud_stage.assert_secret([("log", "nothing")])
    basic = requests.auth._basic_auth_str("AWS", token)
    for text in (token, json.dumps({"a": basic}), urllib.request.quote(token)):
        with pytest.raises(AssertionError, match="log: login as"):
            cloud_stage.assert_secret([("log", f"...{text}...")])


def test_account_tokens_are_verified_by_key_audience_and_time(account_tokens: OwnTokens) -> None:
    token = account_tokens.issue("team", "werf", "sts.amazonaws.com")
    subject = account_tokens.verify(token, "sts.amazonaws.com")
    assert subject == "system:serviceaccount:team:werf"
    for other, audience in (
        (token, "another"),
        (OwnTokens().issue("team", "werf", "sts.amazonaws.com"), "sts.amazonaws.com"),
        (account_tokens.issue("team", "werf", "a", seconds=-1), "a"),
    ):
        with pytest.raises(jwt.InvalidTokenError):
            account_tokens.verify(other, audience)
