"""Signatures by cosign 2 and 3 with keys of each kind."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from localcluster.repository import Repository, Stored
from localcluster.signing import private_key, public_key
from signatures.material import CosignPolicy, Workshop
from signatures.registries import WITH, WITHOUT
from signatures.tools import ToolFailedError

PrivateKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey

_SIGN = {
    "cosign2": ("--tlog-upload=false",),
    "cosign3": ("--use-signing-config=false", "--tlog-upload=false"),
}
KINDS = ("p256", "p384", "p521", "ed25519", "rsa2048", "rsa3072", "rsa4096")
WEAK = "rsa1024"
OTHER = "other"


def private_keys() -> dict[str, PrivateKey]:
    """A new key of each kind, a weak one, and another of the first kind."""
    return {
        "p256": ec.generate_private_key(ec.SECP256R1()),
        OTHER: ec.generate_private_key(ec.SECP256R1()),
        "p384": ec.generate_private_key(ec.SECP384R1()),
        "p521": ec.generate_private_key(ec.SECP521R1()),
        "ed25519": ed25519.Ed25519PrivateKey.generate(),
        "rsa2048": rsa.generate_private_key(65537, 2048),
        "rsa3072": rsa.generate_private_key(65537, 3072),
        "rsa4096": rsa.generate_private_key(65537, 4096),
        WEAK: rsa.generate_private_key(65537, 1024),  # noqa: S505 - to see it refused
    }


def make_keys(shop: Workshop) -> dict[str, PrivateKey]:
    """Make the keys, import them into cosign, and make a policy of each."""
    made = private_keys()
    for name, key in made.items():
        write_key(shop, name, key)
        shop.policies[f"key {name}"] = CosignPolicy((name,))
    shop.policies["keys p256, other"] = CosignPolicy(("p256", OTHER))
    return made


def write_key(shop: Workshop, name: str, key: PrivateKey) -> None:
    """Write both halves, and import the key into cosign."""
    shop.keys[name] = public_key(key)
    (shop.directory / f"{name}.pem").write_text(private_key(key), encoding="ascii")
    (shop.directory / f"{name}.pub").write_text(shop.keys[name], encoding="ascii")
    if name != WEAK:  # which cosign refuses to import
        files = ("--key", f"{name}.pem", "--output-key-prefix", f"imported-{name}")
        shop.tools.run("cosign3", "import-key-pair", *files, "--yes")


def sign(
    shop: Workshop, tool: str, key: str, repository: Repository, artifact: Stored, *more: str
) -> None:
    """Sign an artifact and leave the signature in its repository."""
    options = (*_SIGN[tool], "--key", f"imported-{key}.key", "--yes", *more)
    shop.tools.run(tool, "sign", *options, repository.reference(artifact.digest))


def attest(
    shop: Workshop, tool: str, key: str, repository: Repository, artifact: Stored, *, kind: str
) -> None:
    """Attest an artifact: a statement of another predicate type by the same key."""
    predicate = shop.directory / "predicate.json"
    predicate.write_text('{"tests": "passed"}', encoding="utf-8")
    options = (*_SIGN[tool], "--key", f"imported-{key}.key", "--yes", "--type", kind)
    reference = repository.reference(artifact.digest)
    shop.tools.run(tool, "attest", *options, "--predicate", predicate.name, reference)


def make(shop: Workshop) -> None:
    """Signatures that are what they should be: each kind of key, each format, each place."""
    for kind in KINDS:
        _signed(shop, f"cosign2-{kind}", "cosign2", kind, WITHOUT)
        _signed(shop, f"cosign3-{kind}", "cosign3", kind, WITH)
    _signed(shop, "cosign3-fallback-tag", "cosign3", "p256", WITHOUT)
    _signed(shop, "cosign3-payload", "cosign3", "p256", WITHOUT, "--new-bundle-format=false")
    _signed(shop, "cosign2-bundle", "cosign2", "p256", WITH, "--new-bundle-format")
    for tool in _SIGN:
        _two(shop, f"{tool}-two", (tool, "p256"), (tool, OTHER))
    _two(shop, "payload-and-bundle", ("cosign2", OTHER), ("cosign3", "p256"))
    repository, artifact = shop.artifact("unsigned", WITH)
    shop.add("unsigned", "Nobody signed it.", repository, artifact, ["key p256"])


def _signed(shop: Workshop, name: str, tool: str, kind: str, registry: str, *more: str) -> None:
    repository, artifact = shop.artifact(name, registry)
    try:
        sign(shop, tool, kind, repository, artifact, *more)
        text = f"{tool} signed it with a key {kind}."
    except ToolFailedError as error:
        # The rows then say "unsigned"; a later version may be able to.
        text = f"{tool} can't sign with a key {kind}: {str(error).splitlines()[-1][-120:]}"
    others = [OTHER] if kind != OTHER else []
    shop.add(name, text, repository, artifact, [f"key {key}" for key in (kind, *others)])


def _two(shop: Workshop, name: str, *signers: tuple[str, str]) -> None:
    repository, artifact = shop.artifact(name, WITH)
    for tool, key in signers:
        sign(shop, tool, key, repository, artifact)
    text = f"Two signatures: {' and '.join(f'{tool} with {key}' for tool, key in signers)}."
    policies = ["key p256", "key other", "key p384", "keys p256, other"]
    shop.add(name, text, repository, artifact, policies)
