"""Charts as a bundle's layer has them: packed, also in ways that only an attacker packs them."""

import gzip
import io
import tarfile
from collections.abc import Iterable, Mapping

CHART_YAML = "apiVersion: v2\nname: shop\nversion: 1.0.0\n"


def pack(files: Mapping[str, str | bytes], top: str = "shop") -> bytes:
    """A packed chart of these files."""
    return pack_entries((f"{top}/{name}", content) for name, content in files.items())


def chart(*templates: str, **files: str | bytes) -> bytes:
    """A packed chart with these templates and further files."""
    named = {f"templates/{at}.yaml": text for at, text in enumerate(templates)}
    return pack({"Chart.yaml": CHART_YAML, **named, **files})


def pack_entries(entries: Iterable[tuple[str, str | bytes]]) -> bytes:
    """A packed archive of these paths and contents, in this order."""
    infos = []
    for name, content in entries:
        info = tarfile.TarInfo(name)
        raw = content.encode() if isinstance(content, str) else content
        info.size = len(raw)
        infos.append((info, raw))
    return pack_infos(infos)


def pack_infos(
    infos: Iterable[tuple[tarfile.TarInfo, bytes]], form: int = tarfile.PAX_FORMAT
) -> bytes:
    """A packed archive of these headers and contents."""
    found = io.BytesIO()
    with tarfile.open(fileobj=found, mode="w", format=form) as archive:
        for info, raw in infos:
            archive.addfile(info, io.BytesIO(raw))
    return gzip.compress(found.getvalue(), mtime=0)
