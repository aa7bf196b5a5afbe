"""The second job on screen: a bundle is deployed, follows its registry, and leaves no trace."""

from collections.abc import Callable
from typing import TypeVar

import yaml

from demo.objects import Manifest, condition, describe
from demo.screen import Rows
from demo.stage import APPS, REPOSITORY, Stage
from demo.steps import Chapter, Step
from demo.waiting import NotYet, StepFailed, stays, until

T = TypeVar("T")

NAME = "hello"
PRODUCTION = "hello-production"
SOAK = "5s"
PAUSE = "operator.werf.dev/disable-autoupdate"
PAUSED = 3
"""Seconds: three polls."""


def push_first(stage: Stage) -> None:
    """Push version 1.0.0 before anybody asks for it."""
    _push(stage, "1.0.0")


def deploy(stage: Stage) -> Rows:
    """Create a Bundle as examples/bundles/hello.yaml, and show the Job that deployed it."""
    stage.types(
        f"kubectl -n {APPS} create configmap hello-values \\\n"
        "  --from-literal=values.yaml='greeting: Hello'"
    )
    create_bundle(stage)
    spec = _bundle(stage)["spec"]
    given = {field: spec[field] for field in ("registry", "repo", "insecure", "version", "values")}
    stage.shows(yaml.safe_dump({"spec": given}, sort_keys=False))
    _wait_deployed(stage, "1.0.0")
    (job,) = stage.objects.list("jobs", APPS, f"operator.werf.dev/bundle={NAME}")
    account = job["spec"]["template"]["spec"]["serviceAccountName"]
    status = f"{job['status'].get('succeeded', 0)} of {job['spec']['completions']} done"
    digest = job["metadata"]["annotations"]["operator.werf.dev/digest"]
    row = (job["metadata"]["name"], account, status, digest[:15])
    return Rows(("JOB", "SERVICE ACCOUNT", "PODS", "PINNED TO"), [row])


def create_bundle(stage: Stage) -> None:
    """Create the Bundle of the local registry; its values exist."""
    stage.types(
        f"copyrator create bundle {NAME} -n {APPS} \\\n"
        f"  --from $COPYRATOR_REGISTRY/{REPOSITORY} --insecure \\\n"
        f"  --version '1.0.*' --values hello-values"
    )


def update(stage: Stage) -> Rows:
    """Push 1.0.1 and change nothing else: the Bundle selects 1.0.*."""
    _push(stage, "1.0.1")
    return _wait_deployed(stage, "1.0.1")


def pause(stage: Stage) -> Rows:
    """Annotate the Bundle, push 1.0.2, and see that nothing happens for three polls."""
    stage.types(f"kubectl -n {APPS} annotate bndl {NAME} \\\n  {PAUSE}=true")
    _push(stage, "1.0.2")

    def look() -> None:
        if (shown := _shown(stage)) != "1.0.1":
            msg = f"autoupdate is off, but {shown} is deployed"
            raise StepFailed(msg)

    stays(look, seconds=PAUSED)
    return _wait_deployed(stage, "1.0.1", reason="AutoupdateDisabled")


def resume(stage: Stage) -> Rows:
    """Take the annotation off."""
    stage.types(f"kubectl -n {APPS} annotate bndl {NAME} {PAUSE}-")
    return _wait_deployed(stage, "1.0.2")


def edit_values(stage: Stage) -> Rows:
    """Edit the values ConfigMap."""
    stage.types(
        f"kubectl -n {APPS} patch configmap hello-values \\\n"
        """  --patch 'data: {values.yaml: "greeting: Ahoj"}'"""
    )

    def look() -> None:
        if (greeting := _release(stage).get("greeting")) != "Ahoj":
            raise NotYet(f"the greeting is {greeting!r}")

    until(look, what="the new greeting in the release")
    return _wait_deployed(stage, "1.0.2")


def ask_for_approval(stage: Stage) -> Rows:
    """Set spec.approval, push 1.0.3, and see that it is planned and nothing is deployed."""
    plan = let_wait(stage, "1.0.3")
    if (shown := _shown(stage)) != "1.0.2":
        msg = f"nobody has approved 1.0.3, but {shown} is deployed"
        raise StepFailed(msg)
    counts = ", ".join(f"{number} {kind}" for kind, number in plan["counts"].items())
    return Rows(("PLAN", "TAG", "OPERATIONS"), [(plan["id"], plan["version"], counts)])


def let_wait(stage: Stage, version: str) -> Manifest:
    """Set spec.approval, push a version, and return the plan that waits then."""
    stage.types(_merge("{approval: {mode: Always}}"))
    _push(stage, version)

    def look(bundle: Manifest) -> Manifest | None:
        waits = condition(bundle, "UpdatePending").get("reason") == "AwaitingApproval"
        return bundle["status"]["plan"] if waits else None

    return until_bundle(stage, NAME, look, f"{version} to be planned")


def approve(stage: Stage) -> Rows:
    """Approve the plan with the command line."""
    stage.types(f"copyrator approve bundle -n {APPS} {NAME} --yes")
    _wait_deployed(stage, "1.0.3")
    last = _bundle(stage)["status"]["history"][0]
    row = (last["version"], last["outcome"], last["plan"], last["approvedBy"])
    return Rows(("TAG", "OUTCOME", "PLAN", "APPROVED BY"), [row])


def correct_drift(stage: Stage) -> Rows:
    """Set spec.drift, edit an object of the release, and see that it is put right."""
    stage.types(_merge("{drift: {mode: Correct}}"))
    until(lambda: _wait_drifted(stage, "False"), what="the release to be compared")
    stage.types(
        f"kubectl -n {APPS} patch configmap {NAME} --patch 'data: {{greeting: Edited}}'",
        f"kubectl -n {APPS} annotate bndl {NAME} operator.werf.dev/plan-at=now",
    )

    def look() -> Manifest:
        last: Manifest = _bundle(stage)["status"]["history"][0]
        greeting = _release(stage).get("greeting")
        if not last.get("correction") or greeting == "Edited":
            raise NotYet(f"the last attempt is {last}; the greeting is {greeting!r}")
        _wait_drifted(stage, "False")
        return last

    last = until(look, what="what was edited to be put right")
    (found,) = _bundle(stage)["status"]["drift"]["corrected"]
    row = (found, last["version"], last["outcome"], _release(stage)["greeting"])
    return Rows(("DRIFTED", "TAG", "CORRECTION", "IN THE CLUSTER"), [row])


def _wait_drifted(stage: Stage, status: str) -> None:
    found = condition(_bundle(stage), "Drifted")
    if found.get("status") != status:
        raise NotYet(f"Drifted is {found.get('status')}: {found.get('message')}")


def ask_for_signatures(stage: Stage) -> Rows:
    """Set spec.verify, push 1.0.4 unsigned, and see that it is passed over."""
    stage.types(
        f"kubectl -n {APPS} create configmap release-keys --from-file=cosign.pub=<(\n"
        "  hack/run python -m localcluster key)",
        _merge(
            "{approval: null, verify: {anyOf: [\n"
            "  {cosign: {keysFrom: {kind: ConfigMap, name: release-keys}}}]}}"
        ),
    )
    _push(stage, "1.0.4")

    def look(bundle: Manifest) -> str | None:
        rejected = bundle["status"].get("available", {}).get("rejected", ())
        return {one["version"]: str(one["reason"]) for one in rejected}.get("1.0.4")

    reason = until_bundle(stage, NAME, look, "1.0.4 to be passed over")
    if (shown := _shown(stage)) != "1.0.3":
        msg = f"nobody has signed 1.0.4, but {shown} is deployed"
        raise StepFailed(msg)
    return Rows(("PASSED OVER", "WHY", "IN THE CLUSTER"), [("1.0.4", reason, shown)])


def sign_version(stage: Stage) -> Rows:
    """Sign 1.0.4 as cosign does."""
    _sign(stage, "1.0.4")
    _wait_deployed(stage, "1.0.4")
    verified = condition(_bundle(stage), "Verified")
    row = (_shown(stage), verified["message"].partition(": ")[2])
    return Rows(("IN THE CLUSTER", "VERIFIED"), [row])


def freeze(stage: Stage) -> Rows:
    """Freeze the namespace with the command line, push a signed 1.0.5, and thaw it."""
    stage.types(f"copyrator freeze -n {APPS} --reason inventory --until 1h")
    _push(stage, "1.0.5")
    _sign(stage, "1.0.5")

    def look(bundle: Manifest) -> Manifest | None:
        gates = bundle["status"].get("gates", ())
        return next((gate for gate in gates if gate.get("reason") == "Frozen"), None)

    gate = until_bundle(stage, NAME, look, "1.0.5 to wait")
    row = (gate["name"], gate["reason"], gate["until"], _shown(stage))
    stage.types(f"copyrator thaw -n {APPS}")
    _wait_deployed(stage, "1.0.5")
    heads = ("GATE", "REASON", "UNTIL", "MEANWHILE", "THAWED")
    return Rows(heads, [(*row, _shown(stage))])


def promote(stage: Stage) -> Rows:
    """Apply a Bundle that is promoted from the other one; it waits first, and then deploys."""
    stage.types(
        f"""kubectl apply -f - <<<"
  apiVersion: operator.werf.dev/v1
  kind: Bundle
  metadata: {{name: {PRODUCTION}, namespace: {APPS}}}
  spec:
    registry: $COPYRATOR_REGISTRY
    repo: {REPOSITORY}
    insecure: true
    version: 1.0.*
    promoteFrom: {{bundles: [{{name: {NAME}}}], soak: {SOAK}}}"
""".rstrip()
    )

    def look(bundle: Manifest) -> Manifest | None:
        gates = bundle.get("status", {}).get("gates", ())
        return next((gate for gate in gates if gate.get("until")), None)

    gate = until_bundle(stage, PRODUCTION, look, f"{PRODUCTION} to wait")
    bundle = until_bundle(stage, PRODUCTION, deployed, f"{PRODUCTION} to be deployed")
    began = str(bundle["status"]["attempted"]["startedAt"])
    there = bundle["status"]["deployed"]["version"]
    heads = ("WAITED FOR", "SOAK ENDED", "DEPLOY BEGAN", "IN PRODUCTION")
    return Rows(heads, [(gate["reason"], gate["until"], began, there)])


def remove(stage: Stage) -> str:
    """Delete both Bundles."""
    both = (NAME, PRODUCTION)
    stage.types(f"kubectl -n {APPS} delete bndl {' '.join(both)}")

    def look() -> None:
        left = [
            f"{kind} {name}"
            for name in both
            for kind in ("bundles", "configmaps")
            if stage.objects.get(kind, name, APPS)
        ]
        left += [one["metadata"]["name"] for name in both for one in _history(stage, name)]
        if left:
            raise NotYet(f"still exist: {', '.join(left)}")

    until(look, what="the Bundles and their releases to be deleted")
    return "No Bundle, no object of a release, no release Secret is left."


def _push(stage: Stage, version: str) -> None:
    stage.types(
        "hack/run python -m localcluster push examples/charts/hello \\\n"
        f"  $COPYRATOR_REGISTRY/{REPOSITORY}:{version}"
    )


def _sign(stage: Stage, version: str) -> None:
    stage.types(f"hack/run python -m localcluster sign $COPYRATOR_REGISTRY/{REPOSITORY}:{version}")


def _merge(spec: str) -> str:
    """The command that merges a part into the Bundle's spec."""
    return f"kubectl -n {APPS} patch bndl {NAME} --type=merge --patch '\n  spec: {spec}'"


def until_bundle(stage: Stage, name: str, look: Callable[[Manifest], T | None], what: str) -> T:
    """Wait until there is something to see of a Bundle; what was seen."""

    def seen() -> T:
        bundle = stage.objects.get("bundles", name, APPS) or {}
        if (found := look(bundle)) is None:
            raise NotYet(f"the Bundle reports {describe(bundle)}")
        return found

    return until(seen, what=what)


def deployed(bundle: Manifest) -> Manifest | None:
    """The Bundle, if it is Ready because it is deployed."""
    return bundle if condition(bundle, "Ready").get("reason") == "Deployed" else None


def _bundle(stage: Stage) -> Manifest:
    return stage.objects.get("bundles", NAME, APPS) or {}


def _release(stage: Stage) -> dict[str, str]:
    found = stage.objects.get("configmaps", NAME, APPS) or {}
    data: dict[str, str] = found.get("data", {})
    return data


def _shown(stage: Stage) -> str:
    """The version that the deployed objects themselves show."""
    return _release(stage).get("version", "nothing")


def _history(stage: Stage, name: str) -> list[Manifest]:
    return stage.objects.list("secrets", APPS, f"owner=helm,name={name}")


def _wait_deployed(stage: Stage, version: str, reason: str = "Deployed") -> Rows:
    """Wait until the release shows `version` and the Bundle is Ready for that reason."""

    def look() -> Manifest:
        bundle = _bundle(stage)
        ready = condition(bundle, "Ready")
        if _shown(stage) != version or ready.get("reason") != reason:
            raise NotYet(
                f"the release shows {_shown(stage)}; the Bundle reports {describe(bundle)}"
            )
        if bundle["metadata"]["generation"] != bundle["status"].get("observedGeneration"):
            raise NotYet("the status describes an older spec")
        return bundle

    bundle = until(look, what=f"version {version} to be deployed")
    target = bundle["status"].get("deploy", {})
    release = _release(stage)
    return Rows(
        ("BUNDLE", "READY", "TAG", "DIGEST", "IN THE CLUSTER"),
        [
            (
                f"{APPS}/{NAME}",
                condition(bundle, "Ready").get("reason", ""),
                str(target.get("version", "")),
                str(target.get("digest", ""))[:15],
                f"{release.get('greeting', '')} {release.get('version', '')}",
            )
        ],
    )


CHAPTER = Chapter(
    "Bundles: what is pushed is deployed",
    (
        Step("Bundle 1.0.0 is pushed to the registry", push_first),
        Step("A Bundle selects 1.0.*, and a Job deploys 1.0.0", deploy),
        Step("1.0.1 is pushed and deployed in place of 1.0.0", update),
        Step(
            f"Autoupdate is paused: 1.0.2 is pushed, not deployed for {PAUSED} s",
            pause,
        ),
        Step("Autoupdate is resumed: 1.0.2 is deployed", resume),
        Step("The values ConfigMap is edited and deployed", edit_values),
        Step("spec.approval is set: 1.0.3 is pushed and planned, not deployed", ask_for_approval),
        Step("The plan is approved with copyrator approve: 1.0.3 is deployed", approve),
        Step("spec.drift is set: an edited object is found and put right", correct_drift),
        Step("spec.verify names a key: 1.0.4 is pushed unsigned, not deployed", ask_for_signatures),
        Step("1.0.4 is signed with that key and deployed", sign_version),
        Step("copyrator freeze: 1.0.5 waits until copyrator thaw", freeze),
        Step(
            f"spec.promoteFrom: another Bundle takes 1.0.5 after a soak of {SOAK}",
            promote,
        ),
        Step("Both Bundles are deleted and their releases uninstalled", remove),
    ),
)
