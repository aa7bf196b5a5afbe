"""What `why` says: promotion."""

from tests.unit.cli.view.test_why_bundle import NOW, PROMOTION, read

from copyrator.cli.view.why_bundle import explain_next


def test_many_sources_are_not_all_named():
    many = {"bundles": [{"name": f"b{n}"} for n in range(5)], "soak": "1h"}
    (line,) = explain_next(*read(PROMOTION, promoteFrom=many), NOW)
    assert "its soak of 1h in apps/b0, apps/b1, apps/b2 and 2 more ends" in line
