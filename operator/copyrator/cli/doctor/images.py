"""Whether the images that the operator's pods run are signed by somebody whom the user trusts."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from copyrator.api.text import count
from copyrator.bundles.evidence.signers import Asked
from copyrator.cli.bundles.registry import in_options
from copyrator.cli.bundles.verify import lines, verified
from copyrator.cli.core.faults import Fault
from copyrator.cli.core.installation import Installation, pod_selector
from copyrator.cli.core.objects import listed
from copyrator.cli.doctor.check import Check
from copyrator.kube.resources import PODS
from copyrator.oci.errors import RegistryError

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient

IMAGES: Final = "Image"


async def check_images(
    client: KubeClient, installation: Installation, asked: Asked, options: Mapping[str, Any]
) -> AsyncIterator[Check]:
    """A finding for each image that runs, by the digest that the kubelet pulled.

    Args:
        client: of the user.
        installation: whose pods are meant.
        asked: who may have signed.
        options: of the registry, as `registry_options` read them.
    """
    if installation.manifest is None:
        return
    selector = pod_selector(installation.manifest)
    pods = await listed(client, PODS, installation.namespace, selector=selector)
    running = Counter(
        container["imageID"].rpartition("://")[2]
        for pod in pods
        for container in (pod.get("status") or {}).get("containerStatuses") or ()
        if container.get("imageID")
    )
    for image, number in running.items():
        of = f"{image} of {count(number, 'pod')}"
        try:
            found = await verified(image, asked, options)
        except Fault as error:
            yield Check(IMAGES, None, str(error))
        except RegistryError as error:
            yield Check(IMAGES, False, f"{of} can't be verified: {in_options(error.message)}")
        else:
            said = " ".join(line.strip() for line in list(lines(found))[1:])
            yield Check(IMAGES, found.judged.is_trusted, f"{of}: {said}")
