"""The alerts as Prometheus reads them: promtool, from Debian's package, feeds them series."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from images.store import Store, run
from localcluster.errors import BuildFailedError
from localcluster.locks import file_lock

ALERTS = Path(__file__).resolve().parents[2] / "charts" / "copyrator" / "files" / "alerts.yaml"
AT = 'namespace="ops"'
POD = f'{AT}, pod="copyrator-0"'

FIRES = {
    "CopyratorNotLeading": {f"copyrator_leader{{{POD}}}": "0x60"},
    "CopyratorWatchStale": {
        f'copyrator_watches{{{POD}, resource="secrets"}}': "1x60",
        f'copyrator_watches_synced{{{POD}, resource="secrets"}}': "0x60",
    },
    "CopyratorCopiesFailing": {f'copyrator_copies{{{POD}, state="failed"}}': "3x60"},
    "CopyratorConflictPersists": {f"copyrator_copies_contested{{{POD}}}": "1x60"},
    "CopyratorLag": {f"copyrator_queue_oldest_seconds{{{POD}}}": "90x60"},
    "CopyratorCertificateExpiring": {
        f'copyrator_certificate_expiry_timestamp_seconds{{{POD}, rule="ops/ca"}}': "1209000x60"
    },
    "CopyratorRemoteDown": {f'copyrator_remote_up{{{POD}, kubeconfig="hub"}}': "1x20 0x40"},
    "CopyratorRolloutStopped": {f'copyrator_rules{{{POD}, reason="RolloutStopped"}}': "1x60"},
    "CopyratorDeployFailed": {f'copyrator_bundles{{{POD}, reason="DeployFailed"}}': "1x60"},
    "CopyratorBundleQuarantined": {f"copyrator_bundles_quarantined{{{POD}}}": "1x60"},
    "CopyratorDeployedDifferently": {
        f'copyrator_bundles_as_approved{{{POD}, as_approved="False"}}': "1x60"
    },
    "CopyratorBundleUntrusted": {f"copyrator_bundles_untrusted{{{POD}}}": "2x60"},
    "CopyratorBundleDrifted": {f'copyrator_bundles_drifted{{{POD}, reason="Drifted"}}': "2x60"},
    "CopyratorDriftRecurring": {
        f'copyrator_bundles_drifted{{{POD}, reason="DriftRecurring"}}': "1x60"
    },
    "CopyratorBundleUnhealthy": {f'copyrator_bundles_health{{{POD}, healthy="False"}}': "1x60"},
    "CopyratorUpdateWaitsLong": {f"copyrator_oldest_wait_seconds{{{POD}}}": "604801x60"},
    "CopyratorPlanFailing": {f'copyrator_updates_pending{{{POD}, reason="PlanUnstable"}}': "1x60"},
    "CopyratorPlanAwaitsApproval": {f"copyrator_oldest_plan_seconds{{{POD}}}": "28801x60"},
    "CopyratorFreezeUnreadable": {
        f'copyrator_freezes{{{POD}, scope="all", reason="FreezeUnreadable"}}': "1x60"
    },
    "CopyratorNotAttested": {f"copyrator_bundles_unattested{{{POD}}}": "1x60"},
    "CopyratorRegistryUnreachable": {
        f'copyrator_bundles{{{POD}, reason="Deployed"}}': "1x60",
        f"copyrator_bundles_poll_failed{{{POD}}}": "0x20 1x40",
    },
    "CopyratorPollLate": {f"copyrator_oldest_poll_seconds{{{POD}}}": "1900x60"},
    "CopyratorNotificationsFailing": {
        f'copyrator_notifications_failing{{{POD}, entry="chat"}}': "1x60"
    },
    "CopyratorNotificationsInvalid": {f"copyrator_notification_faults{{{POD}}}": "1x60"},
    "CopyratorEventLoopHeld": {f"copyrator_event_loop_stall_seconds_count{{{POD}}}": "9x40 10x20"},
}
WELL = {
    f"copyrator_leader{{{POD}}}": "1x60",
    f'copyrator_leader{{{AT}, pod="copyrator-1"}}': "0x60",
    f'copyrator_watches{{{POD}, resource="secrets"}}': "1x60",
    f'copyrator_watches_synced{{{POD}, resource="secrets"}}': "1x60",
    f'copyrator_copies{{{POD}, state="failed"}}': "0x60",
    f'copyrator_copies{{{POD}, state="ready"}}': "9x60",
    f'copyrator_certificate_expiry_timestamp_seconds{{{POD}, rule="ops/well"}}': "1300000x60",
    f'copyrator_remote_up{{{POD}, kubeconfig="hub"}}': "1x40 0x9 1x10",
    f"copyrator_queue_oldest_seconds{{{POD}}}": "2x60",
    f'copyrator_rules{{{POD}, reason="RollingOut"}}': "1x60",
    f'copyrator_bundles{{{POD}, reason="Deployed"}}': "4x60",
    f'copyrator_updates_pending{{{POD}, reason="AwaitingApproval"}}': "1x60",
    f"copyrator_bundles_quarantined{{{POD}}}": "0x60",
    f"copyrator_bundles_poll_failed{{{POD}}}": "0x40 1x9 0x10",
    f"copyrator_bundles_untrusted{{{POD}}}": "0x60",
    f'copyrator_bundles_drifted{{{POD}, reason="Drifted"}}': "0x60",
    f'copyrator_bundles_drifted{{{POD}, reason="DriftRecurring"}}': "0x60",
    f'copyrator_bundles_health{{{POD}, healthy="False"}}': "0x60",
    f'copyrator_bundles_health{{{POD}, healthy="Unknown"}}': "1x60",
    f'copyrator_bundles_as_approved{{{POD}, as_approved="False"}}': "0x60",
    f'copyrator_bundles_as_approved{{{POD}, as_approved="Unknown"}}': "1x60",
    f"copyrator_bundles_unattested{{{POD}}}": "0x40 1x9 0x10",
    f'copyrator_notifications_failing{{{POD}, entry="chat"}}': "0x60",
    f"copyrator_notification_faults{{{POD}}}": "0x60",
    f"copyrator_oldest_poll_seconds{{{POD}}}": "700x60",
    f"copyrator_oldest_plan_seconds{{{POD}}}": "28799x60",
    f"copyrator_oldest_wait_seconds{{{POD}}}": "604799x60",
    f"copyrator_event_loop_stall_seconds_count{{{POD}}}": "9x60",
    f'copyrator_event_loop_stall_seconds_bucket{{{POD}, le="0.25"}}': "9x60",
}


def chosen() -> str:
    """The file with the chart's default values."""
    text = ALERTS.read_text().replace("POLL_LATE_SECONDS", "1800")
    return text.replace("CERTIFICATE_WARNING_SECONDS", "1209600")


@pytest.fixture(scope="module")
def promtool(store: Store) -> str:
    if found := shutil.which("promtool"):
        return found
    home = store.root / "promtool"
    program = home / "usr" / "bin" / "promtool"
    with file_lock(store.root / "promtool.lock"):
        if not program.exists():
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir(parents=True)
            try:
                run(["apt-get", "download", "prometheus"], {}, home)
            except BuildFailedError:
                run(["apt-get", "--quiet", "update"], {}, home)
                run(["apt-get", "download", "prometheus"], {}, home)
            (package,) = home.glob("*.deb")
            run(["dpkg-deb", "--extract", str(package), str(home)], {}, home)
            package.unlink()
    return str(program)


@pytest.fixture
def tried(promtool: str, tmp_path: Path):
    """Feeds series to the alerts and returns which fire after 50 minutes."""
    (tmp_path / "alerts.yaml").write_text(chosen())

    def trying(series: dict[str, str]) -> list[str]:
        test = {
            "interval": "1m",
            "input_series": [{"series": one, "values": v} for one, v in series.items()],
            # None is expected, so that the answer lists what there is.
            "alert_rule_test": [
                {"eval_time": "50m", "alertname": name, "exp_alerts": []} for name in FIRES
            ],
        }
        document = {"rule_files": ["alerts.yaml"], "evaluation_interval": "1m", "tests": [test]}
        (tmp_path / "test.yaml").write_text(yaml.safe_dump(document))
        done = subprocess.run(
            [promtool, "test", "rules", "test.yaml"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        said = done.stdout + done.stderr
        assert "alertname" in said or done.returncode == 0, said
        return [name for name in FIRES if f"alertname: {name}," in said]

    return trying


def test_promtool_finds_no_fault(promtool: str, tmp_path: Path):
    rules = tmp_path / "alerts.yaml"
    rules.write_text(chosen())
    done = subprocess.run(
        [promtool, "check", "rules", "--lint=all", "--lint-fatal", str(rules)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"{len(FIRES)} rules found" in done.stdout


def test_none_fires_while_all_is_well(tried):
    assert tried(WELL) == []


@pytest.mark.parametrize("alert", FIRES)
def test_an_alert_fires_alone(tried, alert):
    assert tried(WELL | FIRES[alert]) == [alert]


def test_it_is_told_when_nobody_is_scraped_at_all(tried):
    without = {name: values for name, values in WELL.items() if "leader" not in name}
    assert tried(without) == ["CopyratorNotLeading"]
