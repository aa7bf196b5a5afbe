"""What an image consists of, as a bill of materials in CycloneDX's format."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Sequence
from datetime import datetime
from email.parser import Parser
from pathlib import PurePosixPath
from uuid import UUID

from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

import copyrator
from images.layout import Layout

_DEBIAN = PurePosixPath("var/lib/dpkg/status.d")


def of(images: Sequence[Layout], digest: str, made: datetime) -> str:
    """The bill of materials of one image, the same text for the same image.

    Args:
        images: one for each architecture.
        digest: that of their index, whose first half is the serial number.
        made: the time that it states.
    """
    subject = Component(
        name="copyrator",
        version=copyrator.__version__,
        type=ComponentType.CONTAINER,
        purl=PackageURL("oci", None, "copyrator", digest),
        bom_ref="image",
    )
    found = {package.to_string(): package for image in images for package in _packages(image)}
    components = [
        Component(
            name=package.name,
            version=package.version,
            type=ComponentType.LIBRARY,
            purl=package,
            bom_ref=name,
        )
        for name, package in sorted(found.items())
    ]
    bom = Bom(
        serial_number=UUID(digest.partition(":")[2][:32]),
        metadata=BomMetaData(component=subject, timestamp=made),
        components=components,
    )
    bom.register_dependency(subject, components)
    return JsonV1Dot6(bom).output_as_string(indent=1)


def _packages(image: Layout) -> Iterator[PackageURL]:
    for digest in image.layers:
        with tarfile.open(image.path(digest)) as layer:
            for member in layer:
                path = PurePosixPath(member.name)
                debian = path.parent == _DEBIAN
                if not member.isfile() or not (debian or path.match("*.dist-info/METADATA")):
                    continue
                file = layer.extractfile(member)
                assert file is not None
                fields = Parser().parsestr(file.read().decode(), headersonly=True)
                if debian:
                    qualifiers = {"arch": fields["Architecture"]}
                    yield PackageURL(
                        "deb", "debian", fields["Package"], fields["Version"], qualifiers
                    )
                else:
                    yield PackageURL("pypi", None, fields["Name"], fields["Version"])
