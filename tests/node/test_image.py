"""What the operator's image consists of, and what it must not."""

import base64
import json
import re
import tarfile

import pytest
from tests.clouds.amazon import HOST as ECR
from tests.clouds.amazon import Amazon, Role
from tests.clouds.azure import NOBODY, READER, AzureRegistry, Entra
from tests.clouds.google import NODE, Google
from tests.clouds.guards import OwnTokens
from tests.clouds.stage import Answer, Stage
from tests.e2e import referrers_registry
from tests.node.conftest import FIGURES
from tests.unit.signatures.making import ARTIFACT
from tests.unit.signatures.making_keyless import ISSUER, SUBJECT, Sigstore

import copyrator
import images.store
from copyrator.signatures import keyless
from images import layout, product
from images.layout import Layout
from images.store import Store
from images.trim import LAUNCHERS, LIBRARY, UNUSED_PACKAGES
from localcluster.progress import Progress

UNCHECKED_HASH = b"\x01\0\0\0"
"""The flags in a .pyc that holds its source's hash."""
LIMIT = 150e6
"""Unpacked bytes over the base."""


@pytest.fixture(scope="module")
def image(store: Store) -> Layout:
    return product.operator(store)


@pytest.fixture(scope="module")
def paths(image: Layout) -> set[str]:
    return {path for layer in image.layers for path, _ in image.files(layer)}


def test_it_stays_small(image):
    total = sum(layout.contents(image).values())
    FIGURES.append(f"image: {layout.report(image).splitlines()[0].partition(', of')[0]}")
    assert 10e6 < total < LIMIT


def test_no_tool_to_build_or_install_with_is_inside(paths):
    unwanted = re.compile(r"bin/(pip|gcc|cc|ld|make|uv)[\d.-]*$|/(pip|setuptools|ensurepip)/")
    assert [path for path in paths if unwanted.search(path)] == []


def test_packages_that_nothing_imports_are_left_out(paths):
    names = {path.removeprefix(f"{LIBRARY}/").partition("/")[0] for path in paths}
    unused = tuple(name.lower() for name in UNUSED_PACKAGES)
    assert [name for name in names if name.lower().replace("_", "-").startswith(unused)] == []


def test_nothing_of_the_clone_is_inside_but_the_package(paths):
    home = f"{LIBRARY}/copyrator/"
    own = {path.removeprefix(home) for path in paths if path.startswith(home)}
    source = product.ROOT / "operator" / "copyrator"
    there = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
    assert {path for path in own if "__pycache__" not in path} <= there
    assert not [path for path in paths if re.match(r"src/|usr/lib/copyrator/(tests|hack)/", path)]
    assert LAUNCHERS.keys() <= paths


def test_every_module_is_compiled_because_nobody_can_write_there(paths):
    sources = {path for path in paths if path.startswith(f"{LIBRARY}/copyrator/")}
    modules = {path for path in sources if path.endswith(".py")}
    compiled = {path for path in sources if path.endswith(".pyc")}
    assert len(compiled) == len(modules) > 100


def test_what_is_compiled_has_no_time_and_no_folder_of_the_build_in_it(image):
    """So the same sources make the same layers."""
    seen = 0
    for digest in image.layers:
        with tarfile.open(image.path(digest)) as layer:
            for member in layer:
                if member.name.endswith(".pyc"):
                    content = layer.extractfile(member).read()
                    assert content[4:8] == UNCHECKED_HASH, member.name
                    assert b"/.build-" not in content, member.name
                    seen += 1
    assert seen > 1000


def test_it_says_what_it_is_and_runs_as_nobody(image):
    config = image.config["config"]
    assert config["User"] == "65532:65532"
    assert config["Entrypoint"] == ["/usr/bin/copyrator"]
    prefix = "org.opencontainers.image"
    assert config["Labels"][f"{prefix}.version"] == copyrator.__version__
    assert {f"{prefix}.{name}" for name in ("title", "description", "licenses", "revision")} <= set(
        config["Labels"]
    )


def test_its_key_changes_with_all_that_the_build_may_read():
    allowed = (product.ROOT / ".dockerignore").read_text().splitlines()
    assert [line[1:] for line in allowed if line.startswith("!")] == list(product.SOURCES)
    copied = re.findall(r"^COPY (?!--from)(\S+) ", product.DOCKERFILE.read_text(), re.MULTILINE)
    assert set(copied) == set(product.SOURCES)


@pytest.mark.parametrize("variant", [product.KEYLESS, product.CLOUDS])
def test_a_variant_says_its_size(store, variant):
    image = product.operator(store, variant)
    figure = layout.report(image).splitlines()[0].partition(", of")[0]
    FIGURES.append(f"image {variant}: {figure}")
    assert sum(layout.contents(image).values()) < LIMIT


VERIFIES = """
import base64, datetime, json, sys
from copyrator.signatures import keyless, model
given = [base64.b64decode(one) for one in json.loads(sys.argv[1])]
digest, issuer, subject = (one.decode() for one in given[:3])
root, blob = given[3:]
entry = model.CosignIdentity("who", issuer, subject, root)
signature = model.Signature(model.SignatureFormat.SIGSTORE_BUNDLE, "here", blob)
try:
    keyless.verify(model.Artifact(digest, "", 0), signature, entry, datetime.datetime.now())
    print("verified", "sigstore" in sys.modules)
except model.InvalidSignatureError as error:
    print(error)
"""


def ran(store: Store, image: Layout, *command: str, options: tuple[str, ...] = ()) -> str:
    """What a command prints in a container of the image; it fails where its exit code isn't 0."""
    container = store.buildah("from", store.image(image))
    try:
        return store.buildah("run", *options, container, "--", *command)
    finally:
        store.buildah("rm", container)


def test_keyless_signatures_are_verified_by_the_variant_and_the_plain_image_names_it(store, image):
    signer = Sigstore()
    parts = [ARTIFACT.digest.encode(), ISSUER.encode(), re.escape(SUBJECT).encode()]
    parts += [signer.trusted_root(), json.dumps(signer.bundle()).encode()]
    signed = json.dumps([base64.b64encode(one).decode() for one in parts])

    def verified(chosen: Layout) -> str:
        return ran(store, chosen, "/usr/bin/python3", "-c", VERIFIES, signed)

    assert verified(product.operator(store, product.KEYLESS)) == "verified True"
    assert verified(image) == keyless.MISSING


@pytest.fixture
def stage(tmp_path):
    """Clouds' servers, which processes find that have its folder and environment."""
    with referrers_registry.running() as registry, Stage.running(tmp_path / "s", registry) as stage:
        yield stage


def identities(stage, folder):
    """The variables of one's own identity of each cloud, which may read all; its registry."""
    tokens = OwnTokens()
    secret = stage.issue("secret")
    Amazon(stage, tokens).admit_key("AKIAEXAMPLE", secret, "session", Role((), {ECR: ("*",)}))
    keys = {"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": secret}
    yield "aws", ECR, {**keys, "AWS_SESSION_TOKEN": "session"}
    google = Google(stage, tokens, readers={NODE: ("*",)}, users={NODE: set()})
    there = Answer(200, "", {"Metadata-Flavor": "Google"})
    stage.serve("169.254.169.254", lambda asked: there, scheme="http")
    yield "gcp", google.registry.host, {}
    entra = Entra(stage, tokens)
    entra.let("11111111-0000-0000-0000-000000000000", NOBODY, "system:serviceaccount:a:b")
    azure = AzureRegistry(stage, entra, "shop.azurecr.io", {NOBODY: READER})
    stage.serve("login.microsoftonline.com", entra)
    stage.serve(azure.host, azure, stage.pass_on)
    file = folder / "token"
    file.write_text(tokens.issue("a", "b", "api://AzureADTokenExchange"))
    named = {"AZURE_TENANT_ID": "11111111-0000-0000-0000-000000000000", "AZURE_CLIENT_ID": NOBODY}
    yield "azure", azure.host, {**named, "AZURE_FEDERATED_TOKEN_FILE": str(file)}


def test_the_variant_for_clouds_logs_in_with_what_is_left_of_the_libraries(
    store, image, stage, tmp_path
):
    digest = stage.push(product.ROOT / "examples" / "charts" / "hello", "team/app", "1.0.0")
    clouds = product.operator(store, product.CLOUDS)
    known = {**stage.environment, "REQUESTS_CA_BUNDLE": str(stage.ca)}
    known["PYTHONPATH"] = f"{known['PYTHONPATH']}:/{LIBRARY}"
    for provider, host, variables in identities(stage, tmp_path):
        settings = [f"--env={name}={value}" for name, value in {**known, **variables}.items()]
        # Others may not read pytest's folders.
        options = ("--user=0", f"--volume={tmp_path}:{tmp_path}", *settings)
        asked = ("copyrator", "resolve", f"{host}/team/app", "1.*", "--provider", provider)
        found = json.loads(ran(store, clouds, *asked, "-o", "json", options=options))
        assert found["digest"] == digest
        assert found["identity"].startswith(f"your own identity of {provider}")
    assert not {"azure", "botocore", "google"} & layout.contents(image).keys()


def test_layers_that_pile_up_are_forgotten_and_images_stay(tmp_path, monkeypatch):
    store = Store(tmp_path, Progress.on_stderr())
    (tmp_path / "Dockerfile").write_text("FROM scratch\nCOPY Dockerfile /\nLABEL a=b\n")

    def build(layout):
        store.bud(tmp_path, tmp_path / "Dockerfile", (), layout)

    def layers():
        return len(store.buildah("images", "--all", "--quiet").splitlines())

    store.get("tiny", "a" * 16, build)
    assert layers() > 1, "they save time"
    monkeypatch.setattr(images.store, "MOST_LAYERS", 1)
    tiny = store.get("tiny", "b" * 16, build)
    assert layers() == 0
    assert {path for layer in tiny.layers for path, _ in tiny.files(layer)} == {"Dockerfile"}
    assert store.image(tiny), "and can be built upon again"


def test_dependencies_are_checked_against_the_lock():
    text = product.DOCKERFILE.read_text()
    (install,) = re.findall(r"pip install (.*?)&&", text, re.DOTALL)
    for option in ("--require-hashes", "--only-binary :all:", '-r "requirements${VARIANT}.lock"'):
        assert option in install
