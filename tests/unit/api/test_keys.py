"""Keys in messages and logs."""

from copyrator.api.keys import BundleKey, CopyKey, ObjectName, RuleKey


def test_keys_are_written_with_their_kind() -> None:
    assert str(RuleKey("a", "b")) == "rule/a/b"
    assert str(CopyKey("secrets", "a", "b")) == "secrets/a/b"
    assert str(BundleKey("a", "b")) == "bundle/a/b"


def test_a_name_of_the_cluster_has_no_namespace() -> None:
    assert (str(ObjectName("a", "b")), str(ObjectName("", "b"))) == ("a/b", "b")
