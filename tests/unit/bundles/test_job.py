"""Jobs as golden files; `UPDATE_GOLDEN=1 pytest …/test_job.py` writes them anew."""

from pathlib import Path

import pytest
from tests.replacing import replace
from tests.unit.bundles.job_samples import (
    DIGEST,
    ELSEWHERE,
    KUBECONFIG,
    ORDER,
    SPEC,
    UNINSTALL,
    check_golden,
    order,
)

from copyrator.api import names
from copyrator.api.bundle_spec import JobSpec, SecretKey
from copyrator.api.object_refs import ValuesKind
from copyrator.bundles.jobs.identity import ValuesFiles
from copyrator.bundles.jobs.job import (
    AUTO_ROLLBACK,
    DeployOrder,
    build_deploy_job,
    build_uninstall_job,
)
from copyrator.bundles.jobs.pod import Login, proxies_with_password, variables_for_jobs

GOLDEN = Path(__file__).parent / "golden"


CONFIG = ValuesFiles(ValuesKind.CONFIG_MAP, "shop-values", ("a.yaml", "b.yaml"))
SECRET = ValuesFiles(ValuesKind.SECRET, "shop-secrets", ("secret.yaml",))

DEPLOYS = {
    "plain": order(),
    "password": order(auth="creds", login=Login.PASSWORD, insecure=True),
    "proxies": order(
        auth="creds",
        login=Login.PASSWORD,
        proxies={"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "$(KUBERNETES_SERVICE_HOST)"},
        env={"NO_PROXY": "example.com"},
    ),
    "docker-config": order(auth="creds", login=Login.DOCKER_CONFIG, ca_secret="ca"),
    "selected-login": order(auth="creds", login=Login.SELECTED),
    "values": order(values=(CONFIG, SECRET), values_hash="v", secret_key=SecretKey("keys", "k")),
    "metadata": order(
        labels={"app.kubernetes.io/part-of": "shop"},
        annotations={"argocd.argoproj.io/note": "costs $(HOME) $5"},
    ),
    "everything": order(
        env={"WERF_SET_A": "a=1", "WERF_TIMEOUT": "9", "WERF_LOG_PRETTY": "1"},
        service_account="deployer",
        timeout=600.0,
        auto_rollback=True,
        releases_history_max=3,
        skip_tls_verify=True,
        werf_image="mirror.example.com/werf@sha256:abc",
        request="requestedAt=now",
        job=JobSpec(
            resources={"requests": {"cpu": "100m"}},
            node_selector={"pool": "deploys"},
            tolerations=({"key": "deploys", "operator": "Exists"},),
            pod_labels={"team": "shop"},
            pod_annotations={"sidecar.istio.io/inject": "false"},
            security_context={"runAsUser": 1234},
        ),
    ),
}


@pytest.mark.parametrize("name", DEPLOYS)
def test_deploy_job_is_the_golden_one(name: str) -> None:
    check_golden(GOLDEN, f"deploy-{name}", build_deploy_job(DEPLOYS[name]))


def test_uninstall_job_is_the_golden_one() -> None:
    check_golden(GOLDEN, "uninstall", build_uninstall_job(UNINSTALL))


def test_uninstall_job_in_another_cluster_is_the_golden_one() -> None:
    spec = order(**ELSEWHERE).spec

    check_golden(
        GOLDEN,
        "uninstall-kubeconfig",
        build_uninstall_job(replace(UNINSTALL, spec=spec, kubeconfig=KUBECONFIG)),
    )


def env_of(order: DeployOrder) -> dict[str, str]:
    pod = build_deploy_job(order)["spec"]["template"]["spec"]
    return {var["name"]: var["value"] for var in pod["containers"][0]["env"]}


def test_the_login_trusts_the_registrys_ca_as_well() -> None:
    found = build_deploy_job(order(auth="creds", login=Login.PASSWORD, ca_secret="ca"))
    spec = found["spec"]["template"]["spec"]

    mount = {"name": "ca", "mountPath": "/run/copyrator/ca", "readOnly": True}
    for container in (*spec["initContainers"], *spec["containers"]):
        assert mount in container["volumeMounts"]
        assert {"name": "SSL_CERT_FILE", "value": "/run/copyrator/ca/ca.crt"} in container["env"]


@pytest.mark.parametrize(("timeout", "deadline"), [(0.5, 301), (0.0, 300), (600.0, 900)])
def test_a_job_may_take_a_little_longer_than_werf(timeout: float, deadline: int) -> None:
    found = build_deploy_job(order(timeout=timeout))
    env = found["spec"]["template"]["spec"]["containers"][0]["env"]

    assert found["spec"]["activeDeadlineSeconds"] == deadline
    assert {"name": "WERF_TIMEOUT", "value": str(max(1, round(timeout + 0.1)))} in env


def test_env_of_the_spec_cannot_replace_what_the_operator_sets() -> None:
    ours = env_of(order())

    theirs = env_of(order(env=dict.fromkeys(ours, "evil")))

    losing = {"WERF_LOG_COLOR_MODE", "WERF_LOG_PRETTY", "WERF_TIMEOUT"}  # only defaults of ours
    assert {name for name, value in theirs.items() if value == "evil"} == losing


def test_values_are_named_so_that_a_sort_as_text_keeps_their_order() -> None:
    many = ValuesFiles(ValuesKind.CONFIG_MAP, "many", tuple(f"{i:04}.yaml" for i in range(1200)))

    found = {k: v for k, v in env_of(order(values=(many, CONFIG))).items() if "VALUES" in k}

    paths = [found[name] for name in sorted(found)]
    assert paths == [f"/run/copyrator/values/000/{i:04}.yaml" for i in range(1200)] + [
        "/run/copyrator/values/001/a.yaml",
        "/run/copyrator/values/001/b.yaml",
    ]


OF_SHELLS = (
    *("WERF_SET_a.b", "A-B", "é", "1A", ""),
    *(
        "_",
        "BASH",
        "BASH_ENV",
        "BASH_XTRACEFD",
        "BASHOPTS",
        "COMP_WORDBREAKS",
        "EPOCHSECONDS",
        "IFS",
    ),
    *("LINENO", "OLDPWD", "OPTIND", "PATH", "POSIXLY_CORRECT", "PPID", "PS4", "PWD", "RANDOM"),
    *("SHELLOPTS", "SHLVL", "SRANDOM"),
)


@pytest.mark.parametrize(
    ("name", "by_shell"),
    [
        *(
            (name, True)
            for name in ("WERF_SET_A", "_a1", "BASHFUL", "PATHS", "PWD_A", "said", "verb")
        ),
        *((name, False) for name in OF_SHELLS),
    ],
)
def test_no_shell_is_between_werf_and_variables_that_a_shell_changes(
    name: str, by_shell: bool
) -> None:
    made = build_deploy_job(order(env={name: "x"}, auto_rollback=True))
    command = made["spec"]["template"]["spec"]["containers"][0]["command"]

    assert (command[0] == "sh") is by_shell
    assert by_shell or command == ["werf", "bundle", "apply", AUTO_ROLLBACK]


def test_an_uninstall_has_none_of_the_variables_that_a_shell_changes() -> None:
    """Some end a shell, such as an OPTIND that is no number; PATH may be how werf is found."""
    spec = replace(SPEC, env=dict.fromkeys((*OF_SHELLS, "PATH", "A"), "x"))
    job = build_uninstall_job(replace(UNINSTALL, spec=spec))
    env = job["spec"]["template"]["spec"]["containers"][0]["env"]

    assert {one["name"] for one in env if one["value"] == "x"} == {"PATH", "A"}


@pytest.mark.parametrize(
    "changes",
    [
        {"uid": "uid-2"},
        {"digest": DIGEST[:-1] + "0"},
        {"generation": 4},
        {"attempt": 8},
        {"values_hash": "other"},
        {"request": "forceUpdate"},
    ],
)
def test_another_attempt_has_another_name(changes: dict[str, object]) -> None:
    assert order(**changes).job != ORDER.job


def test_the_same_attempt_has_the_same_name_whatever_else_changes() -> None:
    assert order(login=Login.PASSWORD, auth="creds", values=(CONFIG,)).job == ORDER.job


@pytest.mark.parametrize("name", ["a", "x" * 53, "a.b.c", "y" * 39 + "-" + "z" * 13])
def test_names_fit_a_label_and_a_host_name(name: str) -> None:
    for manifest in (
        build_deploy_job(order(name=name)),
        build_uninstall_job(replace(UNINSTALL, spec=replace(SPEC, name=name))),
    ):
        made = manifest["metadata"]["name"]
        assert len(made) <= 63
        assert "." not in made
        assert "--" not in made
        assert manifest["metadata"]["labels"][names.LABEL_BUNDLE] == name
        stem = name.replace(".", "-")
        assert made.startswith(stem if len(stem) <= 40 else stem[:39])


@pytest.mark.parametrize("name", [*DEPLOYS, "uninstall"])
def test_pods_pass_the_restricted_profile(name: str) -> None:
    made = build_deploy_job(DEPLOYS[name]) if name in DEPLOYS else build_uninstall_job(UNINSTALL)
    pod = made["spec"]["template"]["spec"]

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        security = container["securityContext"]
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert security["readOnlyRootFilesystem"] is True
    assert {"emptyDir", "configMap", "secret"} >= {
        key for volume in pod["volumes"] for key in volume if key != "name"
    }


# --- Which of the operator's proxies Jobs get to know


API = "$(KUBERNETES_SERVICE_HOST)"
PLAIN = "http://proxy:3128"
WITH_PASSWORD = "http://user:word@proxy:3128"


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
        ({"https": WITH_PASSWORD}, {}),
        ({"https": WITH_PASSWORD, "http": PLAIN}, {"HTTP_PROXY": PLAIN, "NO_PROXY": API}),
        ({"ftp": PLAIN}, {}),
    ],
)
def test_names_what_werf_needs_and_no_password(
    proxies: dict[str, str], variables: dict[str, str]
) -> None:
    assert variables_for_jobs(proxies) == variables


def test_knows_which_ones_hold_a_password() -> None:
    assert proxies_with_password({"https": WITH_PASSWORD, "http": PLAIN}) == ["HTTPS_PROXY"]
    assert proxies_with_password({"http": WITH_PASSWORD}) == ["HTTP_PROXY"]
