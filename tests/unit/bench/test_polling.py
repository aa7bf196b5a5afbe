"""What the benchmarks of polling read from the registry's log."""

from pathlib import Path

from bench.polling import _heads

ACCESS = (
    '127.0.0.1 - - [22/Nov/2026:07:{}:57 +0000] "{} /v2/big/app/{} HTTP/1.1" {} 0 "" "copyrator/1"'
)


def test_only_heads_of_manifests_that_were_answered_are_polls(tmp_path: Path) -> None:
    log = tmp_path / "registry.log"
    begun = 'time="2026-11-22T07:08:57Z" level=info msg="response completed"'
    lines = [
        begun,
        ACCESS.format("08", "HEAD", "manifests/1.2.3", 200),
        ACCESS.format("08", "GET", "manifests/1.2.3", 200),
        ACCESS.format("08", "HEAD", "blobs/sha256:00", 200),
        ACCESS.format("08", "HEAD", "manifests/1.2.4", 404),
        ACCESS.format("09", "HEAD", "manifests/1.2.3", 200),
    ]
    log.write_text("\n".join([*lines, ""]))

    ((url, times),) = _heads(log, 0).items()

    assert url == "/v2/big/app/manifests/1.2.3"
    assert times[1] - times[0] == 60.0
    assert list(_heads(log, len("\n".join(lines[:5])) + 1).values()) == [times[1:]]
