from copyrator.copies.targets.ownership import Shapes, claimed_fields, is_ours_exactly

BODY = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {
        "name": "x",
        "labels": {"app": "x"},
        "annotations": {"copyrator.flant.com/rule": "a/b"},
    },
    "data": {"key": "dmFsdWU="},
    "type": "Opaque",
}


def test_the_content_becomes_ours_and_others_keep_their_metadata():
    theirs = {
        "manager": "kubectl",
        "operation": "Apply",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:data": {"f:key": {}, "f:old": {}},
            "f:metadata": {"f:labels": {".": {}, "f:app": {}, "f:team": {}}},
        },
    }
    claimed = claimed_fields([theirs], BODY)
    assert claimed[0] == {
        **theirs,
        "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:team": {}}}},
    }
    found = Shapes().read(claimed)
    assert is_ours_exactly({"data": {"key": ""}, "type": "Opaque"}, found.shape)
    assert found.shape.owns_label("app")
    assert found.shape.owns_annotation("copyrator.flant.com/rule")
    assert found.others == {"metadata\nlabels\nteam"}


def test_who_keeps_nothing_is_left_out_and_subresources_stay():
    mine = {"manager": "copyrator", "operation": "Update", "fieldsV1": {"f:data": {"f:old": {}}}}
    gone = {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:data": {"f:key": {}}}}
    status = {"manager": "x", "operation": "Update", "subresource": "status", "fieldsV1": {}}
    claimed = claimed_fields([mine, gone, status], BODY)
    assert [entry["manager"] for entry in claimed] == ["x", "copyrator"]
    assert "f:old" not in claimed[1]["fieldsV1"]["f:data"]


def test_an_object_without_managed_fields_is_claimed_too():
    (claimed,) = claimed_fields(None, BODY)
    assert claimed == {
        "manager": "copyrator",
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:metadata": {
                "f:labels": {".": {}, "f:app": {}},
                "f:annotations": {".": {}, "f:copyrator.flant.com/rule": {}},
            },
            "f:data": {".": {}, "f:key": {}},
            "f:type": {},
        },
    }


def test_others_keep_what_we_dont_write_at_any_depth():
    def theirs(**metadata):
        return {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:metadata": metadata}}

    left = {"f:finalizers": {".": {}, 'v:"x"': {}}}
    found = claimed_fields(
        [
            {"manager": "empty"},
            theirs(**{"f:labels": {".": {}, "f:app": {}}}),
            theirs(**{"f:labels": {"f:app": {}, "f:team": {}}, "f:annotations": {".": {}}, **left}),
            theirs(**{".": {}}),
            theirs(**{"f:labels": {}}),
        ],
        BODY,
    )
    assert found[:-1] == [theirs(**{"f:labels": {"f:team": {}}, **left})]
