"""A Job of the operator's as its watch shows it; tests say with `replace` what became of it."""

from copyrator.bundles.jobs.outcome import JobRecord
from copyrator.bundles.jobs.pod import JobKind

JOB = JobRecord(
    namespace="team",
    name="shop-deploy-1",
    uid="job",
    bundle="shop",
    bundle_uid="uid",
    kind=JobKind.DEPLOY,
    attempt=1,
    created=None,
    finished=None,
)
