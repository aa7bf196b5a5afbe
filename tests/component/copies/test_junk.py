"""Rules, sources, copies and namespaces as nobody should make them: a good rule is served on."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.component.copies.conftest import HOME, by_name, make_rule
from tests.component.copies.fake_cluster import path_of
from tests.component.kube.fake_api import until
from tests.junk import LIVING, complaints
from tests.long import LONG

from hostile.generated import OLD_RULE, REMOTE_RULE, RULE, TEMPLATE_RULE
from hostile.mangled import JSON, TEXTS, mangled

pytestmark = pytest.mark.timeout(3600 if LONG else 300)

RULES = (
    mangled(RULE)
    | mangled(REMOTE_RULE)
    | mangled(TEMPLATE_RULE)
    | mangled(OLD_RULE)
    | st.fixed_dictionaries({"spec": JSON})
)

MAPS = st.dictionaries(TEXTS, TEXTS, max_size=4) | st.just({"app": "shop", "tier": "a"})
"""What the API server guarantees of labels and annotations: texts, whatever they say."""
CONTENT = st.fixed_dictionaries(
    {},
    optional={"data": MAPS, "binaryData": MAPS, "type": TEXTS, "immutable": st.booleans()},
)
METADATA = st.fixed_dictionaries({}, optional={"labels": MAPS, "annotations": MAPS})

COPY = {
    "metadata": {
        "labels": {"app.kubernetes.io/managed-by": "copyrator"},
        "annotations": {
            "copyrator.flant.com/rule": f"{HOME}/good",
            "copyrator.flant.com/source": f"{HOME}/source",
            "copyrator.flant.com/content-hash": "AAAA",
        },
    }
}
FORGED = st.builds(
    lambda annotations: {"labels": COPY["metadata"]["labels"], "annotations": annotations},
    st.dictionaries(st.sampled_from(sorted(COPY["metadata"]["annotations"])) | TEXTS, TEXTS),
)

numbers = itertools.count()


@LIVING
@given(
    rules=st.lists(RULES, max_size=3),
    sources=st.lists(st.tuples(METADATA, CONTENT), max_size=2),
    copies=st.lists(FORGED, max_size=2),
    namespace=METADATA,
)
async def test_nothing_bad_delays_a_good_rule(
    cluster, operator, caplog, rules, sources, copies, namespace
):
    number = next(numbers)
    if number == 0:
        cluster.namespace("team-a", team="red")
        cluster.object("configmaps", HOME, "source", data={"key": "first"})
        make_rule(cluster, "good", by_name("source"))
    paths = [f"/api/v1/namespaces/bad-{number}"]
    cluster.write(paths[0], {"metadata": {"name": f"bad-{number}", **namespace}})
    for (metadata, content), plural in itertools.product(sources, ["secrets", "configmaps"]):
        name = f"bad-{next(numbers)}"
        paths.append(path_of(plural, HOME, name))
        cluster.object(plural, HOME, name, metadata=metadata, **content)
    for metadata in copies:
        name = f"bad-{next(numbers)}"
        paths.append(path_of("secrets", "team-a", name))
        cluster.object("secrets", "team-a", name, metadata=metadata)
    for body in rules:
        name = f"bad-{next(numbers)}"
        paths.append(path_of("copyrators", HOME, name))
        cluster.write(paths[-1], {**body, "metadata": {"name": name, "namespace": HOME}})
    cluster.object("configmaps", HOME, "source", data={"key": f"{number}"})

    def follows() -> bool:
        copy = cluster.found("configmaps", "team-a", "source")
        return copy is not None and copy["data"] == {"key": f"{number}"}

    # How soon, on a real control plane: `make bench BENCH=hostile`.
    await until(follows, "the good rule's copy follows")
    for path in paths:
        if path in cluster.objects:
            cluster.drop(path)
    await operator.idle()
    assert complaints(caplog) == []
    assert operator.workers.restarts == 0
