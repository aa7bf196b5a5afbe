"""Commands about rules and copies, on a cluster where the operator runs."""

import json
import re
import secrets
from dataclasses import replace

import pytest
import yaml
from tests.builders.encoding import b64
from tests.e2e.cli.conftest import SENTINEL, copying, plainly, rbac, rule, secret
from tests.e2e.installation import RULES
from tests.e2e.operator_process import until
from tests.e2e.vanishing import vanish

from copyrator.cli import _COMMANDS
from localcluster import ApiStatusError


@pytest.fixture
def copied(stage, word, namespace):
    """A rule `word` whose Secret stands in two namespaces; they are returned."""
    targets = sorted(namespace(f"{word}-team") for _ in range(2))
    stage.apply(
        secret(stage.home, word, "user", "password"), copying(stage.home, word, f"{word}-*")
    )
    stage.wait_reason(RULES.format(stage.home), word, "Synced")
    yield targets
    stage.delete_rule(word)


@pytest.fixture(scope="module")
def seen(stage):
    """A rule whose Secret stands in two namespaces, and these; tests leave it as they found it."""
    word = f"t{secrets.token_hex(3)}"
    targets = [f"{word}-{name}" for name in ("one", "two")]
    for name in targets:
        stage.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    stage.apply(
        secret(stage.home, word, "user", "password"), copying(stage.home, word, f"{word}-*")
    )
    stage.wait_reason(RULES.format(stage.home), word, "Synced")
    yield word, targets
    stage.delete_rule(word)
    vanish(stage.cluster, targets)


def test_get_shows_rules_and_copies_in_every_shape(stage, seen):
    word, copied = seen
    home = stage.home
    assert plainly(stage.types(f"get rules -n {home} {word}")) == (
        f"NAME STATUS REASON SINCE COPIES MESSAGE\n{word} Ready Synced AGE 2/2\n"
    )
    assert plainly(stage.types(f"get copies -A --rule {word}")) == (
        "NAMESPACE KIND NAME AGE RULE\n"
        + "".join(f"{one} Secret {word} AGE {home}/{word}\n" for one in copied)
    )
    assert "SOURCE" in stage.types(f"get copies -A --rule {word} -o wide")
    assert json.loads(stage.types(f"get rules -n {home} {word} -o json"))["kind"] == "CopyratorRule"
    assert "SOURCES" in stage.types(f"get rules -n {home} {word} -o wide")


def test_the_names_that_get_prints_are_kubectls(stage, seen):
    word, copied = seen
    kubectl = stage.cluster.kubectl
    for what, there in (("rules", stage.home), ("copies", copied[0])):
        printed = stage.types(f"get {what} -n {there} {word} -o name").strip()
        assert kubectl("get", printed, "-n", there, "-o", "name").strip() == printed


def test_why_is_answered_for_programs_too(stage, seen):
    word, copied = seen
    said = json.loads(stage.types(f"why {copied[0]}/{word} --kind secret -o json"))
    owner = f"{stage.home}/{word}"
    (answer,) = (one["answer"] for one in said.pop("rules") if one["rule"] == owner)
    assert answer.startswith("requires it, from ")
    named = {"apiVersion": "v1", "kind": "Secret", "namespace": copied[0], "name": word}
    assert said == {
        "apiVersion": "cli.copyrator.flant.com/v1",
        "kind": "Explanation",
        "object": named,
        "exists": True,
        "madeBy": owner,
        "verdict": f"It is up to date with the rule {owner}.",
    }
    absent = yaml.safe_load(stage.types(f"why default/{word} --kind secret -o yaml"))
    assert (absent["exists"], absent["madeBy"]) == (False, None)


def test_where_the_operator_is_can_be_said_as_everywhere(stage):
    for command in ("doctor -n {}", "uninstall --dry-run -n {}"):
        stage.types(command.format(stage.home))
    assert "Deployment: not found" in stage.types("doctor -n default", code=None)


def test_get_says_where_a_rule_is_that_isnt_here(stage, seen):
    word, _ = seen
    said = stage.types(f"get rules {word} -n default", code=1)
    assert said == (
        f"Error: there is no CopyratorRule {word} in the namespace default; "
        f"there is one in {stage.home}: add -n {stage.home}\n"
    )


SYNCED = re.compile(r"Synced: (rules .+: )?2 copies are up to date")
"""The Event of a rule, or of several that are synced at the same time."""


def test_describe_tells_what_the_rule_says_and_what_happened(stage, word, copied):
    said = plainly(stage.types(f"describe rule {stage.home}/{word}"))
    assert f"Name: {stage.home}/{word}\n" in said
    assert f"Source: Secret {word} in {stage.home}\n" in said
    assert f"Targets: {word}-*\n" in said
    assert "Copies: 2 desired: 2 ready, 0 failed, 0 in conflict, 0 pending\n" in said
    until(lambda: SYNCED.search(stage.types(f"describe rule {stage.home}/{word}")), "Events")
    found = json.loads(stage.types(f"describe rule {stage.home}/{word} -o json"))
    assert found["object"]["metadata"]["name"] == word
    assert {event["involvedObject"]["name"] for event in found["events"]} <= {word, stage.home}
    assert found["events"]


def takes_no_secret(stage, full):
    """Whether admission knows of the quota: later than the quota's status does."""
    try:
        stage.api.create(f"/api/v1/namespaces/{full}/secrets?dryRun=All", secret(full, "probe"))
    except ApiStatusError as error:
        return "exceeded quota" in str(error)
    return False


def test_plan_names_every_kind_of_change_and_makes_none(
    stage, word, copied, namespace, tmp_path, requests
):
    first, second = copied
    full, taken, fresh = (namespace(f"{word}x-{name}") for name in ("full", "taken", "fresh"))
    stage.apply(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "none", "namespace": full},
            "spec": {"hard": {"secrets": "0"}},
        },
        secret(taken, word, "theirs"),
    )
    until(lambda: takes_no_secret(stage, full), "the quota counts")
    newer = secret(stage.home, word, "user", "token", team="a")
    wanted = copying(stage.home, word, first, full, taken, fresh)
    file = tmp_path / "rule.json"
    file.write_text(json.dumps({"kind": "List", "items": [newer, wanted]}))
    user = f"planner-{word}"
    planner = replace(stage, admin=stage.cluster.kubeconfig_for_user(user, ["system:masters"]))
    before = stage.cluster.audit_offset()
    quota = (
        f'QuotaExceeded: secrets "{word}" is forbidden: the ResourceQuota none counts '
        "secrets: 0 of 0 used, 1 requested"
    )
    unmanaged = "an object of that name that isn't a copy exists; delete it, or set"
    assert plainly(planner.types(f"plan -f {file}", code=2)) == (
        "ACTION NAMESPACE NAME WHAT\n"
        f"update {first} {word} +labels/team +token -password\n"
        f"delete {second} {word}\n"
        f"create {fresh} {word} +labels/team +token +user\n"
        f"blocked {full} {word} {quota}\n"
        f"conflict {taken} {word} Conflict: {unmanaged} spec.onConflict "
        "(it differs in labels, data)\n"
        "Plan: 1 to create, 1 to update, 1 to delete, 1 in conflict, 1 blocked; "
        "0 are up to date.\n"
    )

    def shown(place, code=2, more=""):
        said = planner.types(f"plan -f {file} --show {place}/{word} {more}", code=code)
        assert b64(SENTINEL) not in said
        return said

    data = (
        "- password: <hidden, 16 bytes>\n + token: <hidden, 16 bytes>\n user: <hidden, 16 bytes>\n"
    )
    said = plainly(shown(first))
    assert said.startswith(f"update Secret {first}/{word}\n apiVersion: v1\n data:\n {data}")
    assert " app.kubernetes.io/managed-by: copyrator\n + team: a\n" in said
    assert shown(fresh).count("\n  + ") == shown(fresh).count("\n") - 1
    assert shown(second).startswith(f"delete Secret {second}/{word}\n  - apiVersion: v1\n")
    assert plainly(shown(full)).startswith(f"blocked Secret {full}/{word}: {quota}\n + apiVersion")
    assert plainly(shown(taken)).startswith(
        f"conflict Secret {taken}/{word}: Conflict: {unmanaged}"
    )
    meant = f"rule {stage.home}/{word} has no copy {word}-t/{word}; did you mean {word}"
    assert meant in shown(f"{word}-t", code=1)
    (found,) = json.loads(shown(first, more="-o json"))["items"][0]["changes"]
    assert found["object"]["data"] == dict.fromkeys(("token", "user"), "<hidden, 16 bytes>")
    assert "\n-   password: <hidden, 16 bytes>\n" in found["diff"]
    wanted["spec"]["onConflict"] = "Adopt"
    file.write_text(json.dumps({"kind": "List", "items": [newer, wanted]}))
    adopts = "an object of that name that no known copying tool created exists, and"
    advised = f"Conflict: {adopts} onConflict: Adopt takes over no other; delete it, or set"
    assert advised in plainly(planner.types(f"plan -f {file}", code=2))
    assert stage.types(f"get copies -A --rule {word} -o name").count(word) == 2
    assert any(
        event.user == user and "dryRun=All" in event.uri
        for event in stage.cluster.audit_events(before)
    )
    assert _persisted(stage, before, user) == []
    wanted["spec"]["onConflict"] = "Overwrite"
    file.write_text(json.dumps({"kind": "List", "items": [newer, wanted]}))
    found = json.loads(stage.types(f"plan -f {file} -o json", code=2))
    assert (found["kind"], found["items"][0]["kind"]) == ("PlanList", "Plan")
    actions = {change["namespace"]: change["action"] for change in found["items"][0]["changes"]}
    assert actions[taken] == "adopt"
    assert "\n  -   theirs: <hidden, 16 bytes>\n" in shown(taken)
    wanted["spec"]["deletionPolicy"] = "Orphan"
    file.write_text(json.dumps({"kind": "List", "items": [newer, wanted]}))
    assert f"\n  -     copyrator.flant.com/rule: {stage.home}/{word}\n" in shown(second)
    assert _persisted(stage, before, user) == []


def _persisted(stage, offset, user):
    """Writes of a user that stayed. Others write meanwhile: the node renews its Lease."""
    words = ("create", "update", "patch", "delete")
    return [
        event
        for event in stage.cluster.audit_events(offset)
        if event.user == user
        and event.verb in words
        and "dryRun=All" not in event.uri
        and "reviews" not in event.resource
    ]


def test_why_gives_each_rules_answer(stage, word, copied, namespace):
    first = copied[0]
    other, closed = (
        namespace("elsewhere"),
        namespace(f"{word}-closed", labels={"copyrator.flant.com/ignore": "true"}),
    )
    owner = f"{stage.home}/{word}"

    def said(there, name=word, more=""):
        return stage.types(f"why {there}/{name} --kind secret {more}")

    assert said(first).splitlines()[:2] == [
        f"Secret {first}/{word} exists and carries the marks of the rule {owner}.",
        f"It is up to date with the rule {owner}.",
    ]
    assert f"rule {owner} (its owner): requires it, from {owner}" in said(first)
    assert f"{other} doesn't match spec.targets.namespaces ({word}-*)" in said(other)
    assert f"{closed} excludes all rules by the label copyrator.flant.com/ignore" in said(closed)
    assert f"rule {owner}: creates {word} there, not this object" in said(first, "other")
    assert "The namespace nowhere doesn't exist." in said("nowhere")
    taken = namespace(f"{word}-taken")
    stage.wait_reason(RULES.format(stage.home), word, "Synced")
    stage.apply(copying(stage.home, f"{word}-late", taken, source=word))
    stage.wait_failing(RULES.format(stage.home), f"{word}-late")
    late = f"rule {owner}-late: requires it, but it belongs to the rule {owner}"
    first, *others = said(taken, more="--all").splitlines()[4:]
    assert first == f"  rule {owner} (its owner): requires it, from {owner}"
    assert f"  {late}" in others
    first, counted = said(taken).splitlines()[4:]
    assert first == f"  rule {owner} (its owner): requires it, from {owner}"
    assert re.fullmatch(r"  \d+ other rules?, 1 of which requires it, too \(--all\)", counted)


def test_an_object_that_is_right_already_is_named_as_such(stage, word, namespace):
    taken, shown = namespace("taken"), f"rule {stage.home}/{word}"
    stage.apply(
        secret(stage.home, word, "user"),
        secret(taken, word, "user"),
        copying(stage.home, word, taken),
    )
    stage.wait_reason(RULES.format(stage.home), word, "Satisfied")
    assert "1 desired: 1 ready (1 of them not created by the operator), 0 failed" in plainly(
        stage.types(f"describe {shown}")
    )
    assert stage.types(f"plan {shown}") == "No changes: 1 copy is up to date.\n"
    said = plainly(stage.types(f"why {taken}/{word} --kind secret").replace("\n", " "))
    assert f"exists with the content that the rule {stage.home}/{word} requires" in said
    stage.cluster.kubectl("delete", "copyrator", word, "-n", stage.home, "--wait=true")
    assert stage.cluster.kubectl("get", "secret", word, "-n", taken, "-o", "name")


def without_deployments(stage, user):
    """A user with the operator's cluster-wide permissions, as without `bundles.health`."""
    account = {"kind": "ServiceAccount", "name": "copyrator", "namespace": stage.home}
    roles = [
        binding["roleRef"]["name"]
        for binding in stage.api.get(rbac("clusterrolebindings"))["items"]
        if account in (binding.get("subjects") or ())
    ]
    paths = [f"{rbac('clusterroles')}/{role}" for role in roles]
    rules = [one for path in paths for one in stage.api.get(path)["rules"]]
    kept = [one for one in rules if "apps" not in one.get("apiGroups", ())]
    assert 0 < len(kept) < len(rules)
    stage.grant(user, *kept)
    return user


def test_in_the_operators_own_pod_its_variables_say_which_rules_are_trusted(
    stage, seen, monkeypatch
):
    word, copied = seen
    user = without_deployments(stage, f"reader-{word}")
    typed = f"why {copied[0]}/{word} --kind secret --as {user}"
    monkeypatch.setitem(stage.variables, "COPYRATOR_OPERATOR_NAMESPACE", "")
    said = plainly(stage.types(typed))
    assert "isn't served: NotTrusted" in said
    lacks = (
        "you have no permission to list deployments.apps in all namespaces or list "
        "leases.coordination.k8s.io in all namespaces, by which it is found"
    )
    assert (
        f"default settings are assumed, with trusted rules in the namespace default: {lacks}"
        in said
    )
    created = f"create rule {word}-no --source none --to none --as {user}"
    said = " ".join(stage.types(created, code=1).split())
    assert f"created in the operator's namespace, and {lacks}; or set --namespace" in said
    own = {
        "POD_NAMESPACE": stage.home,
        "NAMESPACE": stage.home,
        "COPYRATOR_LEASE_NAME": "copyrator",
    }
    for name, value in own.items():
        monkeypatch.setitem(stage.variables, name, value)
    said = plainly(stage.types(typed))
    assert f"It is up to date with the rule {stage.home}/{word}." in said
    assert "default settings are assumed" not in said


def test_suspend_and_resume_wait_for_the_operator(stage, seen):
    word, _ = seen
    shown = f"rule {stage.home}/{word}"
    said = stage.types(f"suspend {shown}")
    before = "status Suspended: suspended; before: Synced: "
    assert said.startswith(f"{shown} suspended; {before}")
    assert stage.types(f"suspend {shown}") == f"{shown} is already suspended.\n"
    resumed = yaml.safe_load(stage.types(f"resume {shown} -o yaml"))
    assert resumed["status"]["observedGeneration"] == resumed["metadata"]["generation"]
    stage.wait_reason(RULES.format(stage.home), word, "Synced")


def test_reconcile_tries_at_once_what_had_failed_and_ends_with_1_while_it_fails(
    stage, word, copied, namespace
):
    there = namespace(f"{word}-taken", labels={"copyrator.flant.com/ignore": "true"})
    stage.apply(secret(there, word, "theirs"))
    path = f"/api/v1/namespaces/{there}"
    stage.api.patch(path, {"metadata": {"labels": {"copyrator.flant.com/ignore": None}}})
    stage.wait_failing(RULES.format(stage.home), word)
    shown = f"rule {stage.home}/{word}"
    said = stage.types(f"reconcile {shown}", code=1)
    fault = f"{there}/{word}: Conflict (differs in data), 1 of 3: "
    assert said.startswith(f"Error: {shown} isn't ready; status PartialFailure: {fault}")
    assert stage.types(f"reconcile {shown} --timeout 0").startswith(f"{shown} annotated; ")
    stage.api.delete(f"{path}/secrets/{word}")
    assert stage.types(f"reconcile {shown}") == (
        f"{shown} reconciled; status Synced: 3 copies are up to date\n"
    )


def test_reseal_waits_until_the_operator_has_taken_over_what_carries_the_rules_marks(stage, seen):
    word, _ = seen
    assert stage.types(f"reseal rule {stage.home}/{word}") == (
        f"rule {stage.home}/{word} resealed; status Synced: 2 copies are up to date\n"
    )
    named = stage.types(f"reseal rule {stage.home}/{word} --timeout 0 -o name")
    assert named == f"copyratorrule.flant.com/{word}\n"


def test_an_edit_that_would_delete_most_copies_is_confirmed_by_a_command(stage, word, namespace):
    """On a real API server: the edit, the status, the refusal, the command, the deletion."""
    spaces = sorted(namespace(f"{word}-{number:02}") for number in range(22))
    stage.apply(secret(stage.home, word, "value"), copying(stage.home, word, f"{word}-*"))
    stage.wait_reason(RULES.format(stage.home), word, "Synced")
    nothing = stage.types(f"confirm-delete rule {stage.home}/{word}", code=1)
    assert "no deletion is waiting for confirmation" in nothing
    stage.apply(copying(stage.home, word, spaces[0]))
    stage.wait_reason(RULES.format(stage.home), word, "DeletionUnconfirmed")
    planned = stage.types(f"plan rule {stage.home}/{word}", code=2)
    assert f"confirm: copyrator confirm-delete rule {stage.home}/{word}" in planned
    for space in spaces:
        assert stage.api.get(f"/api/v1/namespaces/{space}/secrets/{word}")
    said = stage.result(f"confirm-delete rule {stage.home}/{word} --wait")
    assert said.exit_code == 0
    assert said.stdout == (
        f"rule {stage.home}/{word}: the deletion of 21 copies by generation 2 is confirmed; status "
        "Synced: 1 copy is up to date\n"
    )
    found = stage.api.get("/api/v1/secrets", fieldSelector=f"metadata.name={word}")
    left = {item["metadata"]["namespace"] for item in found["items"]}
    assert left == {stage.home, spaces[0]}


def test_copies_of_a_rule_that_doesnt_exist_are_an_error(stage, seen):
    word, _ = seen
    for typed in (f"{stage.home}/nope", "nope"):
        said = stage.types(f"get copies -A --rule {typed}", code=1)
        assert "there is no CopyratorRule nope in " in said
    assert "No copies found" in stage.types(f"get copies -n default --rule {stage.home}/{word}")


def test_lists_are_selected_by_labels(stage, seen):
    word, _ = seen
    path = f"{RULES.format(stage.home)}/{word}"
    stage.api.patch(path, {"metadata": {"labels": {"team": word}}})
    typed = f"get rules -n {stage.home} -l team={word}"
    assert stage.types(f"{typed} -o name") == f"copyratorrule.flant.com/{word}\n"
    assert "No rules found" in stage.types(f"get rules -n {stage.home} -l team=none{word}")
    assert "No copies found" in stage.types(f"get copies -A -l team=none{word}")


def test_get_all_lists_every_kind(stage, seen):
    word, copied = seen
    names = stage.types("get all -A -o name").split()
    assert {f"copyratorrule.flant.com/{word}", f"secret/{word}"} <= set(names)
    assert json.loads(stage.types("get all -A -o json"))["kind"] == "List"
    shown = plainly(stage.types(f"get all -n {copied[0]}"))
    assert shown == f"KIND NAME AGE RULE\nSecret {word} AGE {stage.home}/{word}\n"


def test_suspend_and_resume_take_all_of_a_namespace(stage, word, namespace):
    there = namespace(f"{word}-tenant")
    for number in "12":
        stage.apply(rule(there, f"{word}-{number}", source={"kind": "Secret", "name": word}))
    assert stage.types(f"suspend rules --all -n {there} --timeout 0").splitlines() == [
        f"rule {there}/{word}-{number} suspended." for number in "12"
    ]
    assert "already suspended" in stage.types(f"suspend rules --all -n {there} --timeout 0")
    assert stage.types(f"resume rules --all -n {there} --timeout 0").count("resumed.") == 2
    assert "set names of rules, or --all" in stage.types("suspend rules", code=2)


def test_plan_takes_a_rule_whose_namespace_comes_with_it(stage, word, namespace, tmp_path):
    there = namespace(f"{word}-there")
    new = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"{word}-new"}}
    wanted = copying(stage.home, word, f"{word}-*")
    lost = rule(f"{word}-lost", "lost", source={"kind": "Secret", "name": word})
    source = secret(stage.home, word, "user")
    for number, document in enumerate((new, wanted, source)):
        (tmp_path / f"{number}.json").write_text(json.dumps(document))
    assert plainly(stage.types(f"plan -f {tmp_path}", code=2)) == (
        "ACTION NAMESPACE NAME WHAT\n"
        + "".join(f"create {one} {word} +user\n" for one in sorted([there, f"{word}-new"]))
        + "Plan: 2 to create; 0 are up to date.\n"
    )
    assert stage.types(f"plan -f {tmp_path} -o name", code=2) == f"secret/{word}\n" * 2
    (tmp_path / "3.json").write_text(json.dumps(lost))
    said = stage.types(f"plan -f {tmp_path}", code=1)
    assert "Plan: 2 to create" in said, "the others are planned all the same"
    assert f"Error: {tmp_path}/3.json:1: CopyratorRule lost: the namespace {word}-lost" in said
    (tmp_path / "4.json").write_text(json.dumps({**new, "metadata": {"name": f"{word}-lost"}}))
    said = stage.types(f"plan -f {tmp_path}", code=1)
    assert f"3.json:1: CopyratorRule lost: rule {word}-lost/lost wouldn't be served" in said


def test_plan_of_a_file_says_what_validate_says(stage, word, tmp_path):
    both = rule(stage.home, word, source={"kind": "Secret", "name": "a"})
    file = tmp_path / "rule.json"
    file.write_text(json.dumps({**both, "ruleType": "secret"}))
    validated = stage.types(f"validate {file}", code=1).strip()
    assert stage.types(f"plan -f {file}", code=1) == f"Error: {validated}\n"


def test_a_name_that_cant_be_rendered_isnt_hidden_by_another_rules_copy(stage, word, copied):
    home, there = stage.home, copied[0]
    for name, template in (
        ("late", "{{ source.labels.team }}"),
        ("spaced", "{{ namespace.labels.team }}"),
    ):
        transform = {"name": template}
        stage.apply(copying(home, f"{word}-{name}", there, source=word, transform=transform))
    try:
        for name in ("late", "spaced"):
            stage.wait_failing(RULES.format(home), f"{word}-{name}")
            (failure,) = stage.api.get(f"{RULES.format(home)}/{word}-{name}")["status"]["failures"]
            assert failure["reason"] == "TemplateError", failure
        said = stage.types(f"describe rule {home}/{word}-spaced")
        assert f"  {there}: TemplateError: " in said
        said = stage.types(f"why {there}/other --kind secret")
        assert "can't render its copy there: " in said
        assert "No rule requires it" not in said
        said = stage.types(f"why secret/{there}/{word} --all")
        assert f"rule {home}/{word}-late: can't be rendered: " in said
    finally:
        for name in ("late", "spaced"):
            stage.cluster.kubectl("delete", "copyrator", f"{word}-{name}", "-n", home)


def test_why_on_a_source_says_that_it_is_one(stage, seen):
    word, _ = seen
    source, owner = f"{stage.home}/{word}", f"{stage.home}/{word}"
    said = stage.types(f"why {source} --kind secret")
    assert f"It is the source of the rule {owner} (2 copies).\n" in said
    assert f"rule {owner}: this is its source\n" in said
    found = json.loads(stage.types(f"why {source} --kind secret -o json"))
    assert found["sourceOf"] == [{"rule": owner, "copies": 2}]


def test_a_rule_is_created_where_an_operator_serves_it_or_not_at_all(stage, word, namespace):
    typed = f"create rule {word} --kind ConfigMap --source none --to none"
    assert stage.types(typed) == f"rule {stage.home}/{word} created.\n"
    stage.delete_rule(word)
    said = stage.types(f"{typed} -n default", code=1)
    assert "only those in" in said
    assert f"-n {stage.home}" in plainly(said).replace("\n", " ")
    assert stage.api.get(RULES.format("default"))["items"] == []
    # As for somebody who can't read the operator's settings: it answers by the rule's status.
    there = namespace(f"{word}-there")
    said = stage.types(f"{typed} -n {there} --operator-namespace default", code=1)
    assert f"rule {there}/{word} was created, but only rules in the namespace" in plainly(said)
    stage.delete_rule(word, there)


def advised(said):
    """The commands that an output advises."""
    end = r"(?= (?:explains|lists|prints|shows|retries)|[,;)\n]|$)"
    return re.findall(rf"copyrator ((?:{'|'.join(_COMMANDS)})\b.*?){end}", said)


def test_every_advised_command_works_when_it_is_pasted(stage, seen):
    word, _ = seen
    owner = f"{stage.home}/{word}"
    stage.types(f"suspend rule {owner}")
    outputs = [
        stage.types(f"reconcile rule {owner}", code=1),
        stage.types("get rules nope", code=1),
        stage.types(f"get bundles {stage.apps}/nope", code=1),
        stage.types("doctor", code=None),
        stage.types(f"describe rule {owner}"),
    ]
    found = [command for said in outputs for command in advised(said)]
    assert len(found) >= len(outputs), found
    for command in dict.fromkeys(found):
        result = stage.result(command)
        assert result.exit_code == 0 or command == "doctor", (command, result.output)
    assert f"rule {owner} isn't suspended" in stage.types(f"resume rule {owner}")


@pytest.fixture
def copied_once(stage, word, namespace):
    """A rule `word` with one copy, and the copy's namespace."""
    there = namespace(f"{word}-team")
    stage.apply(secret(stage.home, word, "user"), copying(stage.home, word, f"{word}-*"))
    stage.wait_reason(RULES.format(stage.home), word, "Synced")
    yield there
    stage.delete_rule(word)


def test_why_says_that_the_source_didnt_consent(stage, word, copied_once, namespace):
    elsewhere = namespace(f"{word}-other")
    annotations = {"copyrator.flant.com/allow-to": copied_once}
    stage.api.patch(
        f"/api/v1/namespaces/{stage.home}/secrets/{word}",
        {"metadata": {"annotations": annotations}},
    )
    said = stage.types(f"why {elsewhere}/{word} --kind secret")
    source = f"{stage.home}/{word}"
    assert (
        f": the annotation copyrator.flant.com/allow-to of {source} doesn't name {elsewhere}\n"
    ) in said


def test_why_says_that_the_namespace_is_being_deleted(stage, word, copied_once):
    # A finalizer of somebody else's keeps an object, and so the namespace.
    path = f"/api/v1/namespaces/{copied_once}"
    held = {"metadata": {"name": "held", "finalizers": ["example.com/held"]}}
    stage.api.create(f"{path}/configmaps", held)
    stage.api.delete(path)
    try:
        until(
            lambda: stage.api.get(path)["status"]["phase"] == "Terminating",
            "the namespace is going",
        )
        said = stage.types(f"why {copied_once}/{word} --kind secret")
        assert (
            f"The namespace {copied_once} is being deleted: nothing is created or changed" in said
        )
    finally:
        stage.api.patch(f"{path}/configmaps/held", {"metadata": {"finalizers": None}})


def test_why_tells_whose_a_copy_is_and_when_it_was_written(stage, word, copied_once):
    owner = f"{stage.home}/{word}"
    said = plainly(stage.types(f"why copy {copied_once}/{word}"))
    expected = (
        f"Secret {copied_once}/{word} exists and carries the marks of the rule {owner}.\n"
        f"It is up to date with the rule {owner}.\n"
        "Age: AGE\n"
        "Written: AGE ago\n"
        f" rule {owner} (its owner): requires it, from {owner}\n"
    )
    assert said.startswith(expected)


def test_why_names_who_edited_a_copy(stage, word, copied_once):
    # The rule is paused, so that the edit stays.
    stage.types(f"suspend rule {stage.home}/{word}")
    stage.cluster.kubectl(
        *("patch", "secret", word, "-n", copied_once, "--field-manager=somebody"),
        *("--type=merge", "-p", '{"data": {"user": "eA=="}}'),
    )
    said = plainly(stage.types(f"why copy {copied_once}/{word}"))
    assert "Managers: somebody, AGE ago\n" in said
    assert "writes nothing now (suspend, mode: Plan, or not served)" in said


@pytest.fixture
def planned(stage, tmp_path):
    """What `plan -f` prints about rules."""

    def plan(*rules, code=0):
        file = tmp_path / "rules.yaml"
        file.write_text("\n---\n".join(map(json.dumps, rules)))
        return stage.types(f"plan -f {file}", code=code)

    return plan


def test_a_rule_without_targets_is_named(stage, word, planned):
    stage.apply(secret(stage.home, word, "user"))
    said = planned(copying(stage.home, word, f"{word}-*"))
    assert "No changes: 0 copies are up to date.\n" in said
    assert f"NoTargets: the rule matches no namespace: its targets are {word}-*\n" in said


def test_a_source_that_isnt_there_is_named_and_each_fault_has_its_line(stage, word, planned):
    named = rule(stage.home, word, source={"kind": "Secret", "name": word})
    labels = {"kind": "ConfigMap", "selector": {"matchLabels": {"app": word}}}
    said = planned(named, rule(stage.home, f"{word}-labels", source=labels), code=1)
    first, second = said.splitlines()
    assert first.endswith(f"does nothing now: there is no Secret {word} in {stage.home}")
    assert second.endswith(f"does nothing now: no ConfigMap in {stage.home} matches app={word}")


TYPE = "kubernetes.io/dockerconfigjson"


def pull(namespace: str, name: str, *hosts: str, **labels: str):
    auths = {host: {"username": name, "password": SENTINEL} for host in hosts}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": TYPE,
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "stringData": {".dockerconfigjson": json.dumps({"auths": auths})},
    }


def registries(home: str, word: str, **more):
    selector = {"matchLabels": {"registry": word}}
    text = "{{ ([sources.hub] + sources.private) | merge_dockerconfig | b64encode }}"
    return rule(
        home,
        word,
        sources=[
            {"as": "hub", "kind": "Secret", "name": f"{word}-hub"},
            {"as": "private", "kind": "Secret", "selector": selector, "optional": True},
        ],
        template={
            "apiVersion": "v1",
            "kind": "Secret",
            "type": TYPE,
            "metadata": {"name": word},
            "data": {".dockerconfigjson": text},
        },
        targets={"namespaces": [f"{word}-a", f"{word}-b"]},
        **more,
    )


@pytest.fixture
def composed(stage, word):
    names = [f"{word}-a", f"{word}-b"]
    stage.apply(
        *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names)
    )
    yield names
    stage.cluster.kubectl("delete", "namespace", *names, "--wait=false")


def test_the_commands_say_what_a_copy_is_made_of(stage, word, composed, tmp_path):
    home = stage.home
    file = tmp_path / "rule.yaml"
    wanted = registries(home, word)
    file.write_text(yaml.safe_dump(wanted))
    said = stage.types(f"plan -f {file}", code=1)
    assert f"SourceNotFound: sources.hub: there is no Secret {home}/{word}-hub" in said
    sources = [
        pull(home, f"{word}-hub", "hub.io"),
        pull(home, f"{word}-one", "one.io", registry=word),
        pull(home, f"{word}-two", "hub.io", registry=word),
    ]
    file.write_text(yaml.safe_dump_all([*sources, wanted]))
    said = stage.types(f"plan -f {file}", code=2)
    assert "2 to create" in said
    assert "From hub, private (2)." in said
    assert "hub.io: the credentials of hub" in said
    stage.apply(*sources, wanted)
    stage.wait_reason(RULES.format(home), word, "Synced")
    said = stage.types(f"plan rule {home}/{word}")
    assert "No changes: 2 copies are up to date." in said
    said = stage.types(f"why {word}-a/{word}")
    assert "It is made from hub, private (2)." in said.replace("\n", " ")
    said = stage.types(f"why {home}/{word}-one").replace("\n", " ")
    assert f"{home}/{word} (2 copies)" in said
    said = stage.types(f"why {home}/{word} --kind rule").replace("\n", " ")
    assert "Synced" in said
    assert "Made from:     hub, private (2)" in said
    said = stage.types(f"describe rule {home}/{word}")
    assert "Made from:     hub, private (2)" in said
    assert f"hub: Secret {word}-hub in {home}" in said
    assert "Not used" in said
    assert word in stage.types("get rules -A")
    stage.cluster.kubectl("delete", "secret", "-n", home, f"{word}-hub")
    stage.wait_reason(RULES.format(home), word, "SourceNotFound")
    said = stage.types(f"why {word}-a/{word}").replace("\n", " ")
    assert "SourceNotFound: sources.hub" in said
    assert f"The rule {home}/{word} requires it, but can't render it; see below." in said
    assert "are read first" not in said
    stage.cluster.kubectl("delete", "copyrator", "-n", home, word, "--timeout=120s")
