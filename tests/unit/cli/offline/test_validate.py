"""Rules and Bundles in files, without a cluster: the line, the field, what to do."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from copyrator.cli import cli

ROOT = Path(__file__).resolve().parents[4]
RULE = "apiVersion: flant.com/v1\nkind: CopyratorRule\nmetadata:\n  name: r\n"
BUNDLE = "apiVersion: operator.werf.dev/v1\nkind: Bundle\nmetadata:\n  name: b\n"
SOURCE = RULE + "spec:\n  source:\n    kind: Secret\n    name: x\n"
GOOD = RULE + "spec:\n  targets: {namespaces: ['*']}\n  source: {name: x,\n    kind: Secret}\n"
TEMPLATE = (
    RULE + "spec:\n  targets: {namespaces: ['*']}\n  template:\n    apiVersion: v1\n"
    "    kind: ConfigMap\n    metadata:\n"
)
COMPOSED = (
    RULE + "spec:\n  targets: {namespaces: ['*']}\n  sources: [{as: hub, kind: Secret, name: h}]\n"
    "  template:\n    apiVersion: v1\n    kind: ConfigMap\n    metadata: {name: x}\n"
)
SIGNED = BUNDLE + "spec:\n  registry: x\n  repo: a\n  verify:\n    anyOf:\n"


POLICY = (
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: copyrator-signature-policy\n"
    "data:\n  policy.yaml: |\n    entries:\n    - repositories: ['registry.example.com/*']\n"
    "      anyOf:\n      - notation:\n"
    "          caFrom: {kind: ConfigMap, name: ca}\n          subjects: ['*']\n"
)


def validate(text: str, *options: str):
    return CliRunner().invoke(cli, ["validate", "-f", "-", *options], input=text)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("    entries:", "    default: No\n    entries:", "default: must be one of Allow, Deny"),
        ("caFrom", "ca", "entries[0].anyOf[0].notation.caFrom: is required"),
        ("'*'", "CN=x", "entries[0].anyOf[0].notation.subjects: subject 'CN=x' has no C, ST, O"),
        ("entries:", "entries: [", "isn't valid YAML in line"),
        ("policy.yaml", "policy", "is missing from its data"),
    ],
)
def test_the_signature_policy_is_validated(old: str, new: str, said: str) -> None:
    done = validate(POLICY)
    assert (done.exit_code, done.output) == (
        0,
        "Valid: 0 rules, 0 Bundles, the signature policy.\n",
    )
    done = validate(POLICY.replace(old, new, 1))
    assert done.exit_code == 1
    name = r"ConfigMap copyrator-signature-policy: data.policy\.yaml: "
    assert f"{name}{said}" in done.output, done.output


NAMED = TEMPLATE + '      name: "{{ NAME }}"\n'
SHOP = BUNDLE + "spec:\n  registry: x\n  repo: a\n"
WRONG = [
    (GOOD + "  onConflict: Skipp\n", 9, "spec.onConflict: 'Skipp' isn't one of Skip, Adopt, "),
    (GOOD + "  target: {}\n", 9, "spec.target: is an unknown field; did you mean targets?"),
    (SOURCE + "  targets:\n    namespaces: [A_b]\n", 10, "spec.targets.namespaces[0]: 'A_b' may"),
    (SOURCE + "  targets: {namespaces: ['^a.*$']}\n", 9, "spec.targets.namespaces[0]: '^a.*$' may"),
    (GOOD + "ruleType: secret\n", 5, "spec: can't be combined with"),
    (RULE, 1, "spec: is required"),
    (GOOD.replace("flant.com/v1", "flant.com/v2"), 1, "apiVersion: must"),
    (GOOD.replace("kind: Secret", "kind: secrets"), 8, "spec.source.kind: secrets isn't a kind; d"),
    (
        GOOD + '  transform: {name: "{{ sorce.name }}"}\n',
        9,
        "spec.transform.name: unknown variable",
    ),
    (NAMED.replace("NAME }}", "namespace.name"), 11, "spec.template.metadata.name: isn't valid J"),
    (NAMED.replace("NAME", "namespace.label.x"), 11, "spec.template.metadata.name: unknown field"),
    (NAMED.replace("NAME", "source.name"), 11, "spec.template.metadata.name: unknown variable so"),
    (
        COMPOSED + '    data: {x: "{{ sources.hubb | b64encode }}"}\n',
        *(12, "spec.template.data.x: unknown field sources.hubb; did you mean hub?"),
    ),
    (
        COMPOSED.replace("name: x", 'name: "{{ sources.hub.metadata.name }}"'),
        *(11, "spec.template.metadata.name: unknown variable sources"),
    ),
    (COMPOSED.replace("Secret", "secrets"), 7, "spec.sources[0].kind: secrets isn't a kind; did"),
    (
        SHOP.replace("registry: x", "registry: http://x"),
        6,
        "spec.registry: must be host[:port] wit",
    ),
    (SHOP + "  version: '>=1 <'\n", 8, "spec.version:"),
    (SHOP.replace("repo", "repository"), 7, "spec.repository: is an unknown field; did you mean r"),
    (SIGNED + "    - cosign:\n        issuer: https://x\n", 10, "spec.verify.anyOf[0].cosign.subj"),
    (
        SHOP
        + "  approval: {mode: Always}\n  env:\n    WERF_ENV: dev\n    WERF_VALUES_1: http://x\n",
        *(11, "spec.env.WERF_VALUES_1: doesn't reach the Jobs of a gated Bundle."),
    ),
]


@pytest.mark.parametrize(("text", "line", "said"), WRONG, ids=[said[:40] for *_, said in WRONG])
def test_what_is_wrong_is_named_with_its_line_and_field(text, line, said):
    result = validate(text)
    assert result.exit_code == 1
    named = "Bundle b" if "Bundle" in text else "CopyratorRule r"
    assert result.output.startswith(f"stdin:{line}: {named}: {said}"), result.output


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (RULE.replace("Rule", ""), "Copyrator r: kind: flant.com has no kind Copyrator; did you "),
        (
            BUNDLE.replace("Bundle", "Bundles"),
            "Bundles b: kind: operator.werf.dev has no kind Bund",
        ),
    ],
)
def test_a_kind_that_is_none_of_ours_is_named(text, said):
    assert validate(text).output.startswith(f"stdin:2: {said}")


@pytest.mark.parametrize(
    ("targets", "unknown"),
    [
        ("", None),
        ("  targets:\n", None),
        ("  targets: {}\n", None),
        ("  target: {namespaces: [team-a]}\n", "spec.target"),
        ("  targets: {namespace: [team-a]}\n", "spec.targets.namespace"),
        ("  targets: {exclude: [team-a]}\n", None),
        ("  targets: {selector: {matchLable: {a: b}}}\n", "spec.targets.selector.matchLable"),
    ],
    ids=lambda value: str(value).strip(),
)
def test_a_mistake_in_targets_is_not_every_namespace(targets, unknown):
    done = validate(SOURCE + targets)
    assert done.exit_code == 1
    if unknown:
        assert f"{unknown}: is an unknown field; did you mean" in done.stdout
    else:
        cures = 'set namespaces (["*"] for all), or selector with at least one label'
        assert f"spec.targets: must say which namespaces get a copy: {cures}" in done.stdout


def test_all_problems_of_all_documents_are_named_at_once():
    result = validate(GOOD + "  limit: 0\n  onConflict: No\n---\n" + BUNDLE + "spec: {}\n")
    assert [line.split(":")[1] for line in result.output.splitlines()] == ["9", "10", "16", "16"]


def test_each_fault_is_said_in_the_order_of_the_fields_and_null_is_no_value():
    text = BUNDLE + (
        "spec:\n  repo: null\n  version: 1\n  releasesHistoryMax: 2.0\n  caSecret: null\n"
        "  tagFilter: ''\n  health: [Watch]\n  deletionPolicy: Keep\n"
        "  windows: [{days: [Sun, null, Sonntag], from: '25:00'}]\n"
        "  job:\n    resources: {requests: {cpu: 1.5}}\n"
        "    nodeSelector: {b: 1, a: true}\n    podLabel: {}\n  sort: null\n"
        "metdata: {}\nstatus: []\n"
    )
    said = [
        line.split(" b: ")[1].partition("; known")[0] for line in validate(text).output.splitlines()
    ]
    assert said == [
        "spec.version: must be a string, not 1",
        "spec.releasesHistoryMax: must be an integer, not 2.0",
        "spec.tagFilter: must not be empty",
        "spec.health: must be a string, not ['Watch']",
        "spec.deletionPolicy: 'Keep' isn't one of Uninstall, Orphan",
        "spec.windows[0].days[2]: 'Sonntag' isn't one of Mon, Tue, Wed, Thu, Fri, Sat, Sun",
        "spec.windows[0].from: '25:00' doesn't match ^([01][0-9]|2[0-3]):[0-5][0-9]$",
        "spec.job.resources.requests.cpu: must be a number or a string",
        "spec.job.nodeSelector.b: must be a string, not 1",
        "spec.job.nodeSelector.a: must be a string, not True",
        "spec.job.podLabel: is an unknown field; did you mean podLabels?",
        "spec.sort: is an unknown field",
        "spec: registry is required",
        "spec: repo is required",
        "metdata: is an unknown field; did you mean metadata?",
        "status: must be an object, not []",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: b: c\n", "stdin:1: isn't YAML"),
        ("- a\n", "stdin:1: isn't a map"),
        ("a: 1\na: 2\n", "the key a occurs twice"),
    ],
)
def test_what_is_no_manifest_is_said_in_one_line(text, said):
    result = validate(text)
    assert (result.exit_code, said in result.output) == (1, True), result.output
    assert "Traceback" not in result.output


def test_json_names_file_line_and_field():
    result = validate(GOOD + "  limit: 0\n", "-o", "json")
    assert '"line": 9' in result.output
    assert '"field": "spec.limit"' in result.output
    assert result.exit_code == 1


def test_other_kinds_are_passed_over():
    result = validate("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: 7\n")
    assert (result.exit_code, result.output) == (
        0, "No CopyratorRule or Bundle found.\n"
    )  # fmt: skip


def test_every_example_is_valid():
    result = CliRunner().invoke(cli, ["validate", "-f", str(ROOT / "examples")])
    assert (result.exit_code, result.stdout.split(":")[0]) == (0, "Valid"), result.output


def test_names_that_a_template_sets_itself_are_known():
    text = RULE + (
        "spec:\n  targets: {namespaces: ['*']}\n  template:\n    apiVersion: v1\n"
        "    kind: ConfigMap\n    metadata: {name: a}\n"
        "    data:\n"
        '      a: "{% set x = namespace.labels %}{% for n in range(2) %}{{ x.y }}{{ n }}'
        '{% endfor %}"\n'
    )
    assert validate(text).stdout == "Valid: 1 rule, 0 Bundles.\n"


def templated(api_version: str, kind: str, **content: object) -> str:
    body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, **content}
    spec = {"template": body, "targets": {"namespaces": ["team-*"]}}
    return RULE + yaml.safe_dump({"spec": spec}, sort_keys=False)


def service(**port: object) -> str:
    return templated("v1", "Service", spec={"ports": [port]})


def account(value: object) -> str:
    return templated("v1", "ServiceAccount", automountServiceAccountToken=value)


PORT = "spec.template.spec.ports[0].port: must be an integer"
TOKEN = "spec.template.automountServiceAccountToken: must be a boolean"
LABEL = "spec.template.spec.selector.app: must be a string"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (service(port="9090"), f"{PORT}, not '9090'; remove the quotes"),
        (service(port="http"), f"{PORT}, not 'http'"),
        (service(port=True), f"{PORT}, not True"),
        (service(port={"a": 1}), f"{PORT}, not a map"),
        (
            service(port="{{ namespace.labels.port }}"),
            f"{PORT}, and the expression makes a string; add | number",
        ),
        (service(port="{{ namespace.labels['port'] | lower }}"), f"{PORT}, and the expression"),
        (service(port="{{ '80' }}"), f"{PORT}, and the expression makes a string"),
        (
            service(port="{{ namespace.labels.port | default('80') }}"),
            f"{PORT}, and the expression makes a string",
        ),
        (
            service(port="80{{ namespace.labels.port }}"),
            f'{PORT}; make all of it one expression: "{{{{ … | number }}}}"',
        ),
        (account("true"), f"{TOKEN}, not 'true'; remove the quotes"),
        (account("{{ namespace.labels.on }}"), f"{TOKEN}, and the expression makes a string; add"),
        (
            templated("v1", "Service", spec={"selector": {"app": 5}}),
            f"{LABEL}, not 5; put it in quotes",
        ),
        (templated("v1", "Service", spec={"selector": {"app": True}}), f"{LABEL}, not True"),
        (templated("v1", "Service", spec=[1]), "spec.template.spec: must be a map, not a list"),
        (templated("v1", "Service", spec="x"), "spec.template.spec: must be a map, not 'x'"),
        (
            templated("v1", "Service", spec={"ports": {"port": 1}}),
            "spec.template.spec.ports: must be a list, not a map",
        ),
    ],
)
def test_values_of_a_wrong_type_in_a_template_are_named(text, said):
    result = validate(text)
    assert result.exit_code == 1
    assert said in result.output


@pytest.mark.parametrize(
    "text",
    [
        service(port=9090, targetPort="http"),
        service(port="{{ namespace.labels.port | number }}", targetPort="{{ namespace.name }}"),
        service(port="{{ namespace.labels.port | int + 1 }}"),
        service(port="{{ 80 if namespace.labels.a == 'b' else 81 }}"),
        account(True),
        account("{{ namespace.labels.on == 'true' }}"),
        templated("v1", "ResourceQuota", spec={"hard": {"pods": 5, "cpu": "0.5", "x": 0.5}}),
        templated("v1", "ConfigMap", data={"a": "{{ 5 }}", "b": "a{{ true }}"}, immutable=None),
        templated("example.com/v1", "Thing", spec={"port": "80", "list": "x"}),
    ],
)
def test_values_of_a_right_or_unknown_type_are_valid(text):
    result = validate(text)
    assert result.exit_code == 0, result.output
    assert not result.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            templated("networking.k8s.io/v1", "NetworkPolicy", spec={"ingres": []}),
            (
                "spec.template.spec.ingres: the API server drops a field of this name; did you "
                "mean ingress?"
            ),
        ),
        (service(prt=1), "spec.template.spec.ports[0].prt: the API server drops"),
        (templated("v1", "ConfigMap", dat={}), "spec.template.dat: the API server drops"),
    ],
)
def test_unknown_fields_in_a_template_are_warned_of(text, said):
    """Not more: a newer version of Kubernetes may have them."""
    result = validate(text)
    assert result.exit_code == 0
    assert "Valid: 1 rule" in result.stdout
    assert said in result.stderr


@pytest.mark.parametrize(
    ("targets", "reached"),
    [
        ('  targets: {namespaces: ["*"]}\n', "kube-node-lease, kube-public, kube-system"),
        ('  targets: {namespaces: ["*-system"]}\n', "kube-system"),
        (
            '  targets: {namespaces: ["*"], exclude: [kube-system]}\n',
            "kube-node-lease, kube-public",
        ),
        ('  targets: {namespaces: ["*"], exclude: ["kube-*"]}\n', ""),
        ('  targets: {namespaces: ["team-*"]}\n', ""),
        ('  targets: {namespaces: ["*", kube-system]}\n', ""),
        ("  targets: {selector: {matchLabels: {team: a}}}\n", ""),
    ],
)
def test_kubernetes_own_namespaces_are_not_reached_unasked(targets, reached):
    done = validate(SOURCE + targets)
    assert done.exit_code == 0
    assert "Valid: 1 rule" in done.stdout
    warning = f"Warning: stdin:9: CopyratorRule r: the targets include {reached};"
    assert (warning in done.stderr) == bool(reached), done.stderr
    assert bool(done.stderr) == bool(reached)
