import pytest

from copyrator.api import names
from copyrator.api.rule_spec import LabelTransform, MetadataTransform, Transform
from copyrator.api.selectors import Globs
from copyrator.copies.targets.content import (
    TransformError,
    copied_annotations,
    copied_labels,
)
from copyrator.copies.targets.marks import is_copy


def test_labels_are_removed_by_globs_and_added():
    transform = Transform(
        labels=LabelTransform(add={"new": "1"}, remove=Globs(("old-*", "gone"))),
        annotations=MetadataTransform(add={"note": "n"}, remove=Globs(("an*",))),
    )
    labels = copied_labels({"old-a": "", "gone": "", "stays": "yes"}, transform)
    assert labels == {"stays": "yes", "new": "1", names.LABEL_MANAGED_BY: names.MANAGED_BY}
    annotations = copied_annotations({"any": "x"}, transform, rule="a/b", origin=None)
    assert annotations == {"note": "n", names.ANN_RULE: "a/b"}


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({}, False),
        ({"labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY}}, False),
        ({"annotations": {names.ANN_RULE: "a/b"}}, False),
        (
            {
                "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY},
                "annotations": {names.ANN_RULE: "a/b"},
            },
            True,
        ),
    ],
)
def test_a_copy_is_known_by_label_and_annotation_together(metadata, expected):
    assert is_copy(metadata) is expected


def test_too_many_labels_for_so_many_patterns_are_refused():
    labels = {f"{'key' * 60}-{number}": "x" for number in range(4_000)}
    patterns = tuple(f"*{number:04}-of-many-patterns-with-some-length" for number in range(1_000))
    remove = MetadataTransform(remove=Globs(patterns))
    with pytest.raises(TransformError, match="too many for so many patterns"):
        copied_labels(labels, Transform(labels=LabelTransform(remove=Globs(patterns))))
    with pytest.raises(TransformError, match="too many for so many patterns"):
        copied_annotations(labels, Transform(annotations=remove), rule="a/b", origin=None)
