"""The fields of a Bundle's spec that its Jobs are made of: image, variables, pod."""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from typing import Any, Final

from copyrator.api import names, syntax
from copyrator.api.bundle_spec import BundleDefaults, JobSpec
from copyrator.api.fields import Fields, SpecError, check_text, is_scalar, json_type

_IMAGE = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._:/@]*")
_TAG = re.compile(r"[A-Za-z0-9_][-A-Za-z0-9._]{0,127}")
_MAX_TTL: Final = 7 * 24 * 3600


def read_env(spec: Fields) -> tuple[dict[str, str], tuple[str, ...]]:
    """Variables as strings, and the names of those that the operator sets itself.

    The latter are left out rather than refused, so that old manifests keep working; the condition
    reports them.
    """
    fields = spec.sub("env")
    env: dict[str, str] = {}
    ignored: list[str] = []
    for name, value in fields.raw.items():
        check_text(name, fields.path, syntax.env_name)
        if names.is_reserved_env(name):
            ignored.append(name)
        else:
            env[name] = _env_value(value, f"{fields.path}[{name}]")
    return env, tuple(sorted(ignored))


def _env_value(value: Any, path: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if is_scalar(value):
        return repr(value)
    if value is None:
        return ""
    if not isinstance(value, str):
        what = "a number that large; write it in quotes" if type(value) is int else json_type(value)
        raise SpecError(path, f"must be a string, number or boolean, not {what}")
    if "\0" in value:
        raise SpecError(path, "must not contain a NUL character")
    return value


def read_werf_image(werf: Fields, defaults: BundleDefaults) -> str:
    """The image of ``spec.werf``, with a tag or digest."""
    image = werf.text("image", _image)
    version = werf.text("version", _tag)
    if image is not None and ("@" in image or ":" in image.rpartition("/")[2]):
        if version is not None:
            werf.fail("version", "must be removed: spec.werf.image already names a tag or digest")
        return image
    return sys.intern(f"{image or defaults.werf_image}:{version or defaults.werf_version}")


def _image(value: str) -> str | None:
    if len(value) <= 512 and _IMAGE.fullmatch(value) and "://" not in value:
        return None
    return f"{syntax.shown(value)} isn't a valid image; for example registry.werf.io/werf/werf"


def _tag(value: str) -> str | None:
    return None if _TAG.fullmatch(value) else f"{syntax.shown(value)} isn't a valid image tag"


@lru_cache(maxsize=4)
def _plain_job(ttl: int) -> JobSpec:
    """The JobSpec of most Bundles."""
    return JobSpec(ttl_seconds_after_finished=ttl)


def read_job(job: Fields, defaults: BundleDefaults) -> JobSpec:
    """``spec.job``; one record is shared by all Bundles without it."""
    if not job.raw:
        return _plain_job(defaults.jobs_ttl)
    tolerations = tuple(
        Fields(item, f"{job.at('tolerations')}[{i}]").raw
        for i, item in enumerate(job.items("tolerations"))
    )
    return JobSpec(
        ttl_seconds_after_finished=job.number(
            "ttlSecondsAfterFinished", defaults.jobs_ttl, least=0, most=_MAX_TTL
        ),
        resources=job.sub("resources").raw,
        node_selector=job.text_map("nodeSelector", syntax.label_key, syntax.label_value),
        tolerations=tolerations,
        pod_labels=_pod_metadata(job, "podLabels", values_are_labels=True),
        pod_annotations=_pod_metadata(job, "podAnnotations", values_are_labels=False),
        security_context=job.sub("securityContext").raw,
    )


def _pod_metadata(job: Fields, name: str, *, values_are_labels: bool) -> dict[str, str]:
    found = job.text_map(name, syntax.label_key, syntax.label_value if values_are_labels else None)
    for key in found:
        if key.startswith(names.BUNDLE_PREFIX) or key == names.LABEL_MANAGED_BY:
            raise SpecError(f"{job.at(name)}[{key}]", "is set by the operator; remove it")
    return found
