"""`werf bundle apply` of a chart that deploys well."""

import re

import pytest
from tests.e2e.standin.conftest import CONFIG_MAP, Charts, Werf, detail, each_version, judged

from copyrator.api.bundle_status import Outcome
from copyrator.bundles.jobs.outcome import printed_digests
from localcluster import Api

REPORTED = {"2.67.0": {"version": 3}, "2.75.3": {"version": 3}, "3.2.0": {"apiVersion": "v3"}}


@detail
@each_version
def test_a_bundle_is_deployed_and_says_what_it_pulled(werf: Werf, charts: Charts) -> None:
    digest = charts.push()

    output = werf.apply()

    assert re.search(rf"^ref: +{re.escape(werf.env['WERF_REPO'])}:1.0.0$", output, re.MULTILINE)
    assert re.search(rf"^digest: +{digest.removeprefix('sha256:')}$", output, re.MULTILINE)
    assert werf.object("demo-cm")["data"] == {"greeting": "hello", "version": "1.0.0"}
    assert werf.report == {
        **REPORTED[werf.version],
        "release": "demo",
        "namespace": werf.namespace,
        "revision": 1,
        "status": "deployed",
        "completedOperations": ["create: ConfigMap/demo-cm"],
    }
    assert printed_digests(output) == (digest, digest), "pulled and exported"
    ending = judged(0, werf.report_file.read_text())
    assert (ending.outcome, ending.revision) == (Outcome.SUCCEEDED, 1)
    assert ending.message == "revision 1, 1 operation"


@detail
def test_the_same_again_is_skipped(werf: Werf, charts: Charts) -> None:
    charts.push()
    werf.apply()

    output = werf.apply()

    assert "cluster resources already as desired" in output
    assert (werf.report["status"], werf.report["revision"]) == ("skipped", 2)
    assert {n for n in werf.names("secrets") if "helm" in n} == {"sh.helm.release.v1.demo.v1"}


@detail
def test_what_others_changed_is_put_right(werf: Werf, charts: Charts) -> None:
    charts.push()
    werf.apply()
    path = f"/api/v1/namespaces/{werf.namespace}/configmaps/demo-cm"
    werf.api.patch(path, {"data": {"greeting": "edited"}})

    werf.apply()

    assert werf.report["status"] == "deployed"
    assert werf.object("demo-cm")["data"]["greeting"] == "hello"


def test_a_newer_bundle_updates_creates_and_deletes(werf: Werf, charts: Charts) -> None:
    charts.push(old=CONFIG_MAP.replace("-cm", "-old"))
    werf.apply()
    charts.push("1.1.0", greeting="bye", new=CONFIG_MAP.replace("-cm", "-new"))

    werf.apply("1.1.0")

    assert werf.object("demo-cm")["data"] == {"greeting": "bye", "version": "1.1.0"}
    assert werf.report["revision"] == 2
    assert werf.names() >= {"demo-cm", "demo-new"}
    assert "demo-old" not in werf.names()


@detail
def test_a_digest_in_the_tag_pins_the_content(werf: Werf, charts: Charts) -> None:
    first = charts.push(greeting="first")
    second = charts.push(greeting="second")
    assert first != second

    output = werf.apply(f"1.0.0@{first}")

    assert first.removeprefix("sha256:") in output
    assert werf.object("demo-cm")["data"]["greeting"] == "first"


@detail
def test_values_files_are_ordered_by_the_names_of_their_variables(
    werf: Werf, charts: Charts
) -> None:
    charts.push()
    files = {}
    for name in ("a", "b"):
        files[name] = werf.directory / f"{name}.yaml"
        files[name].write_text(f"greeting: from-{name}\n")

    werf.apply(WERF_VALUES_OPERATOR_2=str(files["a"]), WERF_VALUES_OPERATOR_10=str(files["b"]))
    assert werf.object("demo-cm")["data"]["greeting"] == "from-a"

    werf.apply()
    assert werf.object("demo-cm")["data"]["greeting"] == "hello", "old values must not stay"


@detail
def test_labels_and_annotations_reach_the_objects(werf: Werf, charts: Charts) -> None:
    charts.push()

    werf.apply(
        WERF_ADD_LABEL_0="app.kubernetes.io/part-of=shop",
        WERF_ADD_ANNOTATION_0="argocd.argoproj.io/note=a=b, c",
    )

    metadata = werf.object("demo-cm")["metadata"]
    assert metadata["labels"]["app.kubernetes.io/part-of"] == "shop"
    assert metadata["annotations"]["argocd.argoproj.io/note"] == "a=b, c"


@detail
def test_a_missing_namespace_is_made(
    werf: Werf, charts: Charts, api: Api, request: pytest.FixtureRequest
) -> None:
    charts.push()
    werf.namespace = f"{werf.namespace}-new"
    werf.env["WERF_NAMESPACE"] = werf.namespace

    request.addfinalizer(lambda: api.delete(f"/api/v1/namespaces/{werf.namespace}"))
    werf.apply()
    assert "demo-cm" in werf.names()


@detail
def test_two_at_once_take_turns(werf: Werf, charts: Charts) -> None:
    charts.push()
    homes = [werf.directory / f"home-{number}" for number in range(2)]
    for home in homes:
        home.mkdir()
    processes = [werf.start("bundle", "apply", WERF_TAG="1.0.0", HOME=str(h)) for h in homes]

    outputs = [process.communicate(timeout=60)[0] for process in processes]

    assert [process.returncode for process in processes] == [0, 0], outputs
    assert sum("already as desired" in output for output in outputs) == 1
