"""`werf bundle apply` of a chart that deploys well."""

from tests.e2e.standin.conftest import Charts, Werf, detail


@detail
def test_the_same_again_is_skipped(werf: Werf, charts: Charts) -> None:
    charts.push()
    werf.apply()

    output = werf.apply()

    assert "cluster resources already as desired" in output
    assert (werf.report["status"], werf.report["revision"]) == ("skipped", 2)
    assert {n for n in werf.names("secrets") if "helm" in n} == {"sh.helm.release.v1.demo.v1"}


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
def test_two_at_once_take_turns(werf: Werf, charts: Charts) -> None:
    charts.push()
    homes = [werf.directory / f"home-{number}" for number in range(2)]
    for home in homes:
        home.mkdir()
    processes = [werf.start("bundle", "apply", WERF_TAG="1.0.0", HOME=str(h)) for h in homes]

    outputs = [process.communicate(timeout=60)[0] for process in processes]

    assert [process.returncode for process in processes] == [0, 0], outputs
    assert sum("already as desired" in output for output in outputs) == 1
