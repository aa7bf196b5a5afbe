"""Rollbacks, skips and holds on the page: what is asked, what is written, and what is refused."""

import html
import re
from copy import deepcopy

import pytest
from tests.component.cli.conftest import HTML, Cluster, fields_of, links, plain, posted
from tests.unit.cli.view.objects_seen import bundle, seen

from copyrator.api import names
from copyrator.cli.ui import questions

A, B, C, D = (f"sha256:{letter * 64}" for letter in "abcd")
PIN, SKIP, HOLD = names.ANN_PIN, names.ANN_SKIP_DIGESTS, names.ANN_HOLD
PAST = [
    {
        "version": version,
        "digest": digest,
        "outcome": "Succeeded",
        "reference": "registry:5000/shop",
        "time": "2026-01-01T00:00:00Z",
    }
    for version, digest in (("1.2.0", C), ("1.1.0", B), ("1.0.0", A))
]
STATUS = {
    "deployed": {"version": "1.2.0", "digest": C},
    "attempted": {"attempt": 3, "version": "1.2.0", "digest": C, "outcome": "Succeeded"},
    "available": {"version": "1.3.0", "digest": D},
    "history": PAST,
}
PINNED = {"pin": {"version": "1.1.0", "digest": B, "requested": f"1.1.0@{B}"}}


def shop(annotations=None, *, uid="shop", version="1", spec=None, **status):
    body = bundle("shop", **(STATUS | status))
    body["spec"] |= spec or {}
    body["metadata"] |= {"uid": uid, "resourceVersion": version, "annotations": annotations or {}}
    return body


@pytest.fixture
def shown(opened):
    """Lets the server show a Bundle; returns the cluster."""

    def show(body, *others, allowed=True):
        opened.server.live.now = seen(body, *others)
        opened.server.client = Cluster(body, allowed=allowed)
        return opened.server.client

    return show


def path_of(verb):
    return f"/do/{verb}/bundles/infra/shop"


def buttons_of(text):
    return [html.unescape(one) for one in re.findall(r"<button[^>]*>([^<]*)</button>", text)]


NEXT = bundle("next")
NEXT["spec"] |= {"promoteFrom": {"bundles": [{"name": "shop"}], "soak": "1h"}}
ATTEST = {"environment": "staging", "key": {"name": "key"}}


@pytest.mark.parametrize(
    ("body", "others", "verbs"),
    [
        pytest.param(shop(), [], ["rollback", "skip"], id="deploys on record"),
        pytest.param(
            shop({SKIP: D, PIN: f"1.1.0@{B}"}, **PINNED),
            [],
            ["rollback", "unpin", "skip", "unskip"],
            id="pinned, and a version skipped",
        ),
        pytest.param(
            shop({SKIP: f"{A},{B},{D}"}), [], ["rollback", "unskip"], id="all others are skipped"
        ),
        pytest.param(shop({PIN: "x"}, pin={"requested": "x", "refused": "y"}), [],
                     ["rollback", "unpin", "skip"], id="a pin was refused"),
        pytest.param(shop(history=PAST[:1]), [], ["skip"], id="only what runs was deployed"),
        pytest.param(
            shop(spec={"repo": "other"}), [], ["skip"], id="deployed from another repository"
        ),
        pytest.param(bundle("shop"), [], [], id="nothing is deployed yet"),
        pytest.param(shop({SKIP: "junk"}), [], [], id="its annotations aren't valid"),
        pytest.param(shop(), [NEXT], ["rollback", "skip", "hold"], id="promoted to another"),
        pytest.param(shop({names.ANN_PROMOTE_TO: "x"}, history=[], available={}), [], ["hold"],
                     id="may be promoted"),
        pytest.param(shop({HOLD: ""}, history=[], available={}), [], ["unhold"], id="held"),
    ],
)  # fmt: skip
async def test_what_can_be_done_is_offered(opened, shown, body, others, verbs):
    shown(body, *others)
    _, text, _ = await opened.get("/bundles/infra/shop")
    assert links(text, "/do/")[2:] == [path_of(verb) for verb in verbs]


BACK = "Roll back to 1.1.0 (sha256:bbbbbbbbbbbb)"
CASES = [
    pytest.param("rollback", shop(), B, {PIN: f"1.1.0@{B}"},
                 ["The version that you choose replaces 1.2.0 (sha256:cccccccccccc).",
                  "copyrator rollback bundle infra/shop --to VERSION"],
                 [BACK, "Roll back to 1.0.0 (sha256:aaaaaaaaaaaa)"],
                 "is pinned to 1.1.0 (sha256:bbbbbbbbbbbb), which is deployed next.",
                 id="rollback"),
    pytest.param("rollback", shop(spec={"suspend": True}), B, {PIN: f"1.1.0@{B}"},
                 ["It is deployed when it is resumed, by its digest"],
                 [BACK, "Roll back to 1.0.0 (sha256:aaaaaaaaaaaa)"],
                 "which is deployed when it is resumed.", id="rollback of a suspended one"),
    pytest.param("unpin", shop({PIN: f"1.1.0@{B}"}, **PINNED), "", {PIN: "none"},
                 ["again, in place of 1.1.0 (sha256:bbbbbbbbbbbb), which is pinned."], ["Unpin"],
                 "isn't pinned to 1.1.0 (sha256:bbbbbbbbbbbb) any more. What", id="unpin"),
    pytest.param("unpin", shop({PIN: "x"}, pin={"requested": "x", "refused": "y"}), "",
                 {PIN: "none"}, ["Nothing is pinned; the value that was refused is removed."],
                 ["Unpin"], "isn't pinned; the value that was refused", id="end a refused pin"),
    pytest.param("skip", shop({SKIP: A}), D, {SKIP: f"{A},{D}"},
                 ["is never deployed, until it is unskipped"],
                 ["Skip 1.3.0 (sha256:dddddddddddd)", "Skip 1.1.0 (sha256:bbbbbbbbbbbb)"],
                 f"skips {D}, the newest of 1.3.0", id="skip"),
    pytest.param("skip", shop(history=[*PAST, PAST[0] | {"digest": A, "version": "1.1.0"}]), A,
                 {SKIP: A}, [], ["Skip 1.3.0 (sha256:dddddddddddd)",
                                 "Skip 1.1.0 (sha256:bbbbbbbbbbbb)",
                                 "Skip 1.0.0 (sha256:aaaaaaaaaaaa)"],
                 f"skips {A}, the newest of 1.0.0", id="skip a digest with two tags"),
    pytest.param("skip", shop(history=[*PAST[:2], PAST[1] | {"digest": A}]), A, {SKIP: A}, [],
                 ["Skip 1.3.0 (sha256:dddddddddddd)", "Skip 1.1.0 (sha256:bbbbbbbbbbbb)",
                  "Skip 1.1.0 (sha256:aaaaaaaaaaaa)"],
                 f"skips {A}. To end that: copyrator unskip bundle infra/shop {A}",
                 id="skip an older digest of a tag"),
    pytest.param("unskip", shop({SKIP: f"{A},{D}"}), A, {SKIP: D}, ["can be deployed again"],
                 ["Unskip 1.0.0 (sha256:aaaaaaaaaaaa)", "Unskip 1.3.0 (sha256:dddddddddddd)"],
                 f"doesn't skip {A} any more.", id="unskip"),
    pytest.param("unskip", shop({SKIP: D}), D, {SKIP: None}, [],
                 ["Unskip 1.3.0 (sha256:dddddddddddd)"], "any more.", id="unskip the only one"),
    pytest.param("hold", shop(), f"it burns {HTML}", {HOLD: f"it burns {HTML}"},
                 ["isn't promoted until it is unheld"], ["Hold"], f"is held: it burns {HTML}.",
                 id="hold"),
    pytest.param("unhold", shop({HOLD: HTML}), "", {HOLD: None}, [f"It is held: {HTML}"],
                 ["Unhold"], "isn't held any more; its soak restarts.", id="unhold"),
]  # fmt: skip


@pytest.mark.parametrize(("verb", "body", "given", "written", "asked", "buttons", "done"), CASES)
async def test_it_is_asked_and_done_and_the_live_page_says_so(
    opened, shown, verb, body, given, written, asked, buttons, done
):
    cluster = shown(body)
    _, text, _ = await opened.get(path_of(verb))
    found = plain(text)
    assert re.search(rf"{questions.title_of(verb)} bundle infra/shop\?", found)
    for part in asked:
        assert part in found
    assert buttons_of(text) == buttons
    assert "<script>alert" not in text
    cluster.body = deepcopy(body)  # another field of it has changed since
    cluster.body["metadata"]["resourceVersion"] = "8"
    field = "reason" if verb == "hold" else "digest"
    status, _, location = await posted(opened, path_of(verb), fields_of(text) | {field: given})
    assert (status, location) == (303, "/bundles/infra/shop")
    (patch,) = cluster.patches
    assert patch == {"uid": "shop", "resourceVersion": "8", "annotations": written}
    _, text, _ = await opened.get(location)
    assert "data-live" in text
    notice = html.unescape(re.search(r'id="notice">([^<]*)<', text)[1])
    assert notice.startswith("bundle infra/shop ")
    assert done in notice


OTHER_PIN = {"pin": {"version": "1.0.0", "digest": A, "requested": f"1.0.0@{A}"}}
NEWER = {"attempted": {"attempt": 4, "version": "1.3.0", "digest": D, "outcome": "Running"}}
CHANGED = "bundle infra/shop has changed since it was shown"


@pytest.mark.parametrize(
    ("verb", "body", "given", "meanwhile", "refused"),
    [
        pytest.param("rollback", shop(), B, shop(**NEWER), CHANGED, id="another version runs"),
        pytest.param("rollback", shop(), B, shop({PIN: f"1.0.0@{A}"}), CHANGED,
                     id="somebody else rolls back"),
        pytest.param("rollback", shop(), B, shop({PIN: f"1.0.0@{A}"}, **OTHER_PIN), CHANGED,
                     id="somebody else has rolled back"),
        pytest.param("rollback", shop(), B, shop(uid="new"), CHANGED, id="it was created again"),
        pytest.param("rollback", shop(), B, shop(history=[PAST[0], PAST[2]]),
                     "sha256:bbbbbbbbbbbb can't be chosen", id="gone from the history"),
        pytest.param("rollback", shop(), B, shop(history=PAST[:1]),
                     "has no other successful deploy in its history", id="all of it is gone"),
        pytest.param("rollback", shop(), B, shop(spec={"repo": "other"}),
                     "has no other successful deploy in its history", id="another repository"),
        pytest.param("unpin", shop({PIN: f"1.1.0@{B}"}, **PINNED), "",
                     shop({PIN: f"1.0.0@{A}"}, **OTHER_PIN), CHANGED, id="another pin"),
        pytest.param("unpin", shop({PIN: f"1.1.0@{B}"}, **PINNED), "",
                     shop({PIN: "none"}, pin={"requested": "none"}), "isn't pinned",
                     id="unpinned already"),
        pytest.param("skip", shop(), D, shop(deployed={"version": "1.3.0", "digest": D}),
                     "sha256:dddddddddddd can't be chosen", id="it runs by now"),
        pytest.param("skip", shop(), B, shop({PIN: f"1.1.0@{B}"}, **PINNED),
                     "sha256:bbbbbbbbbbbb can't be chosen", id="it is pinned by now"),
        pytest.param("skip", shop(), D, shop({SKIP: D}), "sha256:dddddddddddd can't be chosen",
                     id="skipped already"),
        pytest.param("unskip", shop({SKIP: f"{A},{D}"}), A, shop({SKIP: D}),
                     "sha256:aaaaaaaaaaaa can't be chosen", id="unskipped already"),
        pytest.param("hold", shop(), "mine", shop({HOLD: "theirs"}), "is held already: theirs",
                     id="held already"),
        pytest.param("unhold", shop({HOLD: "mine"}), "", shop({HOLD: "theirs"}), CHANGED,
                     id="held for another reason"),
        pytest.param("unhold", shop({HOLD: "mine"}), "", shop(), "isn't held", id="unheld"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("when", ["before", "during the write"])
async def test_where_it_isnt_as_it_was_shown_nothing_is_written(
    opened, shown, verb, body, given, meanwhile, refused, when
):
    cluster = shown(body)
    _, text, _ = await opened.get(path_of(verb))
    if when == "before":
        cluster.body = meanwhile
    else:
        cluster.meanwhile = deepcopy(meanwhile)
        cluster.meanwhile["metadata"]["resourceVersion"] = "9"
    field = "reason" if verb == "hold" else "digest"
    status, text, _ = await posted(opened, path_of(verb), fields_of(text) | {field: given})
    assert (status, cluster.patches) == (409, [])
    assert "It wasn't done: bundle infra/shop" in plain(text)
    assert refused in plain(text)


@pytest.mark.parametrize(
    ("verb", "body", "changed", "refused"),
    [
        pytest.param("rollback", shop(), {"digest": D}, "can't be chosen", id="never deployed"),
        pytest.param("rollback", shop(), {"digest": C}, "can't be chosen", id="what runs"),
        pytest.param("rollback", shop(), {"digest": "1.1.0"}, "can't be chosen", id="a tag"),
        pytest.param("rollback", shop(), {"digest": B[:19]}, "can't be chosen", id="a part of it"),
        pytest.param("rollback", shop(), {}, "can't be chosen", id="no version"),
        pytest.param("rollback", shop(), {"digest": HTML}, r"<script>alert(1)", id="markup"),
        pytest.param("rollback", shop(), {"digest": B, "seal": "x"}, CHANGED, id="another seal"),
        pytest.param("skip", shop(), {"digest": f"{D},{A}"}, "can't be chosen", id="two digests"),
        pytest.param("skip", shop(), {"digest": C}, "can't be chosen", id="skip what runs"),
        pytest.param("unskip", shop({SKIP: A}), {"digest": B}, "can't be chosen",
                     id="unskip what isn't skipped"),
        pytest.param("unhold", shop({HOLD: "x"}), {"seal": ""}, CHANGED, id="no seal"),
        *(
            pytest.param("hold", shop(), {"reason": reason}, "the reason must be one line of 1 to",
                         id=f"reason {name}")
            for name, reason in {
                "none": "", "blank": "  ", "lines": "a\nb", "control": "a\x1b[2J",
                "hidden": "a\u202eb", "long": "x" * 201,
            }.items()
        ),
    ],
)  # fmt: skip
async def test_a_form_that_was_tampered_with_writes_nothing(
    opened, shown, verb, body, changed, refused
):
    cluster = shown(body)
    _, text, _ = await opened.get(path_of(verb))
    status, text, _ = await posted(opened, path_of(verb), fields_of(text) | changed)
    assert (status, cluster.patches) == (409, [])
    assert refused in plain(text)
    assert "<script>alert" not in text
    if kept := changed.get("reason", "").strip():  # what was typed isn't lost
        value = re.search(r'id="reason" name="reason" value="([^"]*)"', text)[1]
        assert html.unescape(value).startswith(kept[:1])


@pytest.mark.parametrize("verb", ["rollback", "skip", "hold", "suspend"])
async def test_who_lacks_the_permission_is_told_before_and_has_no_button(opened, shown, verb):
    cluster = shown(shop(), allowed=False)
    _, text, _ = await opened.get(path_of(verb))
    lacks = (
        "It can't be done: you have no permission to change bundle infra/shop: the verb patch on "
        "bundles.operator.werf.dev is missing in the namespace infra; ask an administrator for it"
    )
    assert lacks in plain(text)
    assert (buttons_of(text), fields_of(text), cluster.patches) == ([], {}, [])
    assert links(text, "/bundles/") == ["/bundles/infra/shop"]


async def test_what_cant_be_done_any_more_is_said_without_a_button(opened, shown):
    shown(shop(history=[]))
    status, text, _ = await opened.get(path_of("rollback"))
    assert (status, buttons_of(text)) == (200, [])
    assert "can't be done: bundle infra/shop has no other successful deploy" in plain(text)
    assert (await opened.get("/do/rollback/rules/infra/shop"))[0] == 404


async def test_a_pin_that_was_ended_counts_again_only_once_the_operator_has_seen_that(
    opened, shown, monkeypatch
):
    monkeypatch.setattr(questions, "SEEN_WITHIN", 0.01)
    value = f"1.1.0@{B}"
    ended = shop({PIN: value}, pin={"requested": value})
    cluster = shown(ended)
    _, text, _ = await opened.get(path_of("rollback"))
    fields = fields_of(text) | {"digest": B}
    status, text, _ = await posted(opened, path_of("rollback"), fields)
    assert status == 409
    assert "the operator didn't respond within 0.01 s" in plain(text)
    assert [one["annotations"] for one in cluster.patches] == [{PIN: None}]
    cluster.body = shop()  # it has seen it
    assert (await posted(opened, path_of("rollback"), fields))[0] == 303
    assert cluster.patches[1]["annotations"] == {PIN: value}


async def test_of_forged_statuses_only_digests_can_be_chosen_and_not_too_many(opened, shown):
    forged = [
        PAST[0] | {"version": HTML, "digest": digest}
        for digest in ("x,y", f"{A},{B}", HTML, A + "a", B)
    ]
    many = [
        {"version": f"2.{number}", "digest": f"sha256:{number:064x}", "outcome": "Failed"}
        for number in range(200)
    ]
    cluster = shown(shop(history=[*forged, *many]))
    _, text, _ = await opened.get(path_of("skip"))
    assert "<script>" not in text.replace('<script src="/assets/live.js" defer></script>', "")
    buttons = buttons_of(text)
    assert buttons[:2] == [
        "Skip 1.3.0 (sha256:dddddddddddd)",
        f"Skip {HTML} (sha256:bbbbbbbbbbbb)",
    ]
    assert len(buttons) <= questions.MOST
    assert cluster.patches == []
