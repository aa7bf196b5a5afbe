"""What registries send to webhooks, as their documentation or source shows it (see `Source`).

Fields that say nothing of the push are left out where there are many.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

from copyrator.oci.notifications import Push, Sender


@dataclass(frozen=True)
class Source:
    """Where a payload's form is from, and when that was read."""

    address: str
    read: str = "2026-11-26"


DISTRIBUTION = Source("https://distribution.github.io/distribution/about/notifications/")
GITLAB = Source("https://gitlab.com/gitlab-org/gitlab/issues/20378")
GITLAB_PROJECT = Source(
    "https://docs.gitlab.com/17.7/ee/user/project/integrations/webhook_events.html"
)
HARBOR = Source(
    "https://goharbor.io/docs/main/working-with-projects/project-configuration/configure-webhooks/"
)
GITHUB = Source("https://docs.github.com/en/webhooks/webhook-events-and-payloads#package")
GITEA = Source("https://github.com/go-gitea/gitea/blob/main/modules/structs/package.go")
DOCKER_HUB = Source("https://docs.docker.com/docker-hub/repos/manage/webhooks/")
QUAY = Source(
    "https://docs.redhat.com/en/documentation/red_hat_quay/3.6/html/use_red_hat_quay/"
    "repository_notifications"
)
OLD_QUAY = Source("https://gist.github.com/jakedt/7533338")
ACR = Source(
    "https://learn.microsoft.com/en-us/azure/container-registry/container-registry-webhook-reference"
)
EVENT_GRID = Source(
    "https://learn.microsoft.com/en-us/azure/event-grid/event-schema-container-registry"
)
ECR = Source("https://docs.aws.amazon.com/AmazonECR/latest/userguide/ecr-eventbridge.html")
SNS = Source("https://docs.aws.amazon.com/sns/latest/dg/sns-message-and-json-formats.html")
GOOGLE = Source("https://cloud.google.com/artifact-registry/docs/configure-notifications")
ALIBABA = Source("https://www.alibabacloud.com/help/en/acr/user-guide/manage-webhooks")
ARTIFACTORY = Source(
    "https://jfrog.com/help/r/jfrog-platform-administration-documentation/domain-docker"
)
NEXUS = Source("https://help.sonatype.com/en/example-headers-and-payloads.html")
ZOT = Source("https://zotregistry.dev/v2.1.21/articles/events/")


@dataclass(frozen=True)
class Recorded:
    """One payload, and what it means."""

    name: str
    source: Source
    sender: Sender
    payload: Any
    pushes: tuple[Push, ...] = ()
    """Where several are listed, any of them may be the one that the Bundle names."""
    event_type: str | None = None
    """The header Ce-Type."""

    @property
    def body(self) -> bytes:
        return json.dumps(self.payload).encode()

    def __str__(self) -> str:
        return f"{self.sender}: {self.name}"


DIGEST = "sha256:6ec128e26cd5d3e4b0e1a9a8c3d5f7e9b1a3c5d7e9f1a3b5c7d9e1f3a5b7c9d1"
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


def distribution(action: str = "push", **target: Any) -> dict[str, Any]:
    url = f"http://192.168.100.227:5000/v2/x/manifests/{DIGEST}"
    event = {
        "id": "320678d8-ca14-430f-8bb6-4ca139cd83f7",
        "timestamp": "2016-03-09T14:44:26.402973972-08:00",
        "action": action,
        "target": {"mediaType": MANIFEST, "size": 708, "digest": DIGEST, "url": url, **target},
        "request": {"addr": "192.168.64.11:42961", "host": "192.168.100.227:5000", "method": "PUT"},
        "actor": {},
        "source": {"addr": "xtal.local:5000"},
    }
    return {"events": [event]}


def harbor(kind: str, **fields: Any) -> dict[str, Any]:
    resource = {
        "digest": DIGEST,
        "tag": "latest",
        "resource_url": "hub.harbor.com/test-webhook/debian:latest",
    }
    return {
        "type": kind,
        "occur_at": 1586922308,
        "operator": "admin",
        "event_data": {
            "resources": [resource],
            "repository": {
                "name": "debian",
                "namespace": "test-webhook",
                "repo_full_name": "test-webhook/debian",
            },
        },
        **fields,
    }


HARBOR_CLOUD_EVENT = {
    "specversion": "1.0",
    "id": "4b2f89a6-548d-4c12-9993-a1f5790b97d2",
    "source": "/projects/1/webhook/policies/3",
    "type": "harbor.artifact.pushed",
    "datacontenttype": "application/json",
    "time": "2023-04-03T06:31:16Z",
    "operator": "harbor-jobservice",
    "data": harbor("")["event_data"],
}


def github(action: str = "published", kind: str = "CONTAINER") -> dict[str, Any]:
    return {
        "action": action,
        "package": {
            "id": 1,
            "name": "app",
            "namespace": "Octo",
            "ecosystem": "CONTAINER",
            "package_type": kind,
            "html_url": "https://github.com/Octo/packages/1",
            "owner": {"login": "Octo", "type": "Organization"},
            "package_version": {
                "id": 2,
                "version": DIGEST,
                "package_url": "ghcr.io/octo/app:1.0.0",
                "container_metadata": {"tag": {"name": "1.0.0", "digest": DIGEST}},
            },
            "registry": {"name": "GitHub container registry", "url": "https://ghcr.io"},
        },
        "repository": {"id": 3, "node_id": "R_", "full_name": "Octo/shop"},
        "sender": {"login": "octocat"},
    }


GITHUB_PUSH = {
    "ref": "refs/heads/main",
    "before": "0" * 40,
    "after": "1" * 40,
    "repository": {"id": 3, "node_id": "R_", "full_name": "Octo/shop", "owner": {"login": "Octo"}},
    "pusher": {"name": "octocat"},
    "commits": [],
}


def gitea(action: str = "created", **package: Any) -> dict[str, Any]:
    owner = {"id": 2, "login": "Team", "full_name": "", "username": "Team"}
    return {
        "action": action,
        "repository": None,
        "package": {
            "id": 7,
            "owner": owner,
            "repository": None,
            "creator": owner,
            "type": "container",
            "name": "shop/app",
            "version": "1.0.0",
            "html_url": "https://gitea.example.com/Team/-/packages/container/shop%2Fapp/1.0.0",
            "created_at": "2026-11-26T10:00:00Z",
            **package,
        },
        "organization": {"id": 2, "name": "Team", "username": "Team"},
        "sender": owner,
    }


GITEA_TEST_DELIVERY = {
    "ref": "refs/heads/main",
    "before": "1" * 40,
    "after": "1" * 40,
    "commits": [],
    "repository": {"id": 140, "name": "shop", "full_name": "Team/shop"},
    "pusher": {"login": "Team"},
    "sender": {"login": "Team"},
}


def docker_hub(**pushed: Any) -> dict[str, Any]:
    return {
        "callback_url": "https://registry.hub.docker.com/u/svendowideit/testhook/hook/2141b5bi5i/",
        "push_data": {"pushed_at": 1417566161, "pusher": "trustedbuilder", **pushed},
        "repository": {
            "name": "testhook",
            "namespace": "svendowideit",
            "repo_name": "svendowideit/testhook",
            "repo_url": "https://registry.hub.docker.com/u/svendowideit/testhook/",
        },
    }


def quay(**fields: Any) -> dict[str, Any]:
    return {
        "name": "repository",
        "repository": "dgangaia/test",
        "namespace": "dgangaia",
        "docker_url": "quay.io/dgangaia/test",
        "homepage": "https://quay.io/repository/dgangaia/repository",
        **fields,
    }


def acr(action: str = "push", **target: Any) -> dict[str, Any]:
    return {
        "id": "cb8c3971-9adc-488b-xxxx-43cbb4974ff5",
        "timestamp": "2017-11-17T16:52:01.343145347Z",
        "action": action,
        "target": {
            "mediaType": MANIFEST,
            "digest": DIGEST,
            "repository": "hello-world",
            **target,
        },
        "request": {"host": "myregistry.azurecr.io", "method": "PUT"},
    }


def ecr(kind: str = "ECR Image Action", region: str = "us-west-2", **detail: Any) -> dict[str, Any]:
    return {
        "version": "0",
        "id": "13cde686-328b-6117-af20-0e5566167482",
        "detail-type": kind,
        "source": "aws.ecr",
        "account": "123456789012",
        "time": "2019-11-16T01:54:34Z",
        "region": region,
        "resources": [],
        "detail": {"repository-name": "my-repo", "image-digest": DIGEST, **detail},
    }


PUSHED = {"result": "SUCCESS", "action-type": "PUSH", "image-tag": "latest"}

EVENT_GRID_VALIDATION = [
    {
        "id": "2d1781af-3a4c-4d7c-bd0c-e34b19da4e66",
        "topic": "/subscriptions/x/resourceGroups/x/providers/Microsoft.ContainerRegistry/x",
        "subject": "",
        "data": {"validationCode": "512d38b6", "validationUrl": "https://rp-x.eventgrid.azure.net"},
        "eventType": "Microsoft.EventGrid.SubscriptionValidationEvent",
        "eventTime": "2018-01-25T22:12:19.4556811Z",
        "metadataVersion": "1",
        "dataVersion": "1",
    }
]


def sns(kind: str, message: str) -> dict[str, Any]:
    return {
        "Type": kind,
        "MessageId": "165545c9-2a5c-472c-8df2-7ff2be2b3b1b",
        "Token": "2336412f37",
        "TopicArn": "arn:aws:sns:us-west-2:123456789012:MyTopic",
        "Message": message,
        "SubscribeURL": "https://sns.us-west-2.amazonaws.com/?Action=ConfirmSubscription&Token=233",
        "SigningCertURL": "https://sns.us-west-2.amazonaws.com/SimpleNotificationService-f3.pem",
    }


REPOSITORY = "us-east1-docker.pkg.dev/my-project/my-repo/hello-world"
INSERTED = {
    "action": "INSERT",
    "digest": f"{REPOSITORY}@{DIGEST}",
    "tag": f"{REPOSITORY}:1.1",
}


def pubsub(event: Any) -> dict[str, Any]:
    data = base64.b64encode(json.dumps(event).encode()).decode()
    return {
        "message": {
            "attributes": {},
            "data": data,
            "messageId": "2070443601311540",
            "publishTime": "2021-02-26T19:13:55.749Z",
        },
        "subscription": "projects/my-project/subscriptions/copyrator",
    }


ALIBABA_PUSH = {
    "push_data": {"digest": DIGEST, "pushed_at": "2016-11-29 12:25:46", "tag": "latest"},
    "repository": {
        "name": "repoTest",
        "namespace": "namespace",
        "region": "cn-hangzhou",
        "repo_full_name": "namespace/repoTest",
    },
}


def artifactory(kind: str, domain: str = "docker", **data: Any) -> dict[str, Any]:
    return {
        "domain": domain,
        "event_type": kind,
        "data": {
            "repo_key": "docker-local",
            "event_type": kind,
            "path": "library/ubuntu/latest/list.manifest.json",
            "name": "list.manifest.json",
            "sha256": DIGEST.removeprefix("sha256:"),
            "size": 1206,
            **data,
        },
        "subscription_key": "test",
        "jpd_origin": "https://example.jfrog.io",
        "source": "jfrog/user@example.com",
    }


IMAGE = {
    "image_name": "library/ubuntu",
    "tag": "latest",
    "platforms": [{"architecture": "amd64", "os": "linux"}],
}
IN_ARTIFACTORY = (
    Push("docker-local/library/ubuntu", tag="latest"),
    Push("library/ubuntu", tag="latest"),
)


def nexus(action: str, **what: Any) -> dict[str, Any]:
    return {
        "timestamp": "2016-11-10T23:57:49.664+0000",
        "nodeId": "52905B51-085CCABB-CEBBEAAD-16795588-FC927D93",
        "initiator": "admin/127.0.0.1",
        "repositoryName": "docker-hosted",
        "action": action,
        **what,
    }


COMPONENT = {
    "id": "08909bf0c86cf6c9600aade89e1c5e25",
    "componentId": "ZG9ja2VyLWhvc3RlZDowODkwOWJm",
    "format": "docker",
    "name": "shop/app",
    "group": None,
    "version": "1.0.0",
}
ASSET = {
    "id": "31c950c8eeeab78336308177ae9c441c",
    "assetId": "ZG9ja2VyLWhvc3RlZDozMWM5NTBjOA",
    "format": "docker",
    "name": "/v2/shop/app/manifests/1.0.0",
}
IN_NEXUS = (Push("docker-hosted/shop/app", tag="1.0.0"), Push("shop/app", tag="1.0.0"))

ZOT_IMAGE = {
    "name": "shop/app",
    "reference": "1.0.0",
    "digest": DIGEST,
    "mediaType": "application/vnd.oci.image.manifest.v1+json",
    "manifest": '{"schemaVersion":2}',
    "actor": {"name": "ci"},
    "request": {"addr": "10.0.0.7:41234", "method": "PUT", "useragent": "werf"},
}


def cloud_event(kind: str, data: Any) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": "1",
        "source": "zotregistry.dev",
        "type": kind,
        "datacontenttype": "application/json",
        "time": "2026-11-26T10:00:00Z",
        "data": data,
    }


ECR_HOST = "123456789012.dkr.ecr.us-west-2.amazonaws.com"
GAR_HOST = "us-east1-docker.pkg.dev"
HUB_HOST = "registry-1.docker.io"
IN_ZOT = (Push("shop/app", tag="1.0.0"),)
IN_HARBOR = (Push("test-webhook/debian", "hub.harbor.com", "latest"),)

RECORDED = (
    Recorded("push", DISTRIBUTION, Sender.DISTRIBUTION,
             distribution(repository="hello-world", tag="latest"),
             (Push("hello-world", tag="latest"),)),
    Recorded("push of a blob, or by digest", DISTRIBUTION, Sender.DISTRIBUTION,
             distribution(repository="hello-world")),
    Recorded("pull", DISTRIBUTION, Sender.DISTRIBUTION,
             distribution("pull", repository="hello-world", tag="latest")),
    Recorded("mount", DISTRIBUTION, Sender.DISTRIBUTION,
             distribution("mount", repository="hello-world", fromRepository="other")),
    Recorded("delete", DISTRIBUTION, Sender.DISTRIBUTION,
             distribution("delete", repository="hello-world", tag="latest")),
    Recorded("GitLab's registry: push", GITLAB, Sender.DISTRIBUTION,
             distribution(repository="group/project/app", tag="1.0.0"),
             (Push("group/project/app", tag="1.0.0"),)),
    Recorded("GitLab's registry: delete", GITLAB, Sender.DISTRIBUTION,
             distribution("delete", repository="group/project/app", tag="1.0.0")),

    Recorded("PUSH_ARTIFACT", HARBOR, Sender.HARBOR, harbor("PUSH_ARTIFACT"), IN_HARBOR),
    Recorded("pushImage of 1.x", HARBOR, Sender.HARBOR, harbor("pushImage"), IN_HARBOR),
    Recorded("harbor.artifact.pushed", HARBOR, Sender.HARBOR, HARBOR_CLOUD_EVENT, IN_HARBOR),
    Recorded("PULL_ARTIFACT", HARBOR, Sender.HARBOR, harbor("PULL_ARTIFACT")),
    Recorded("DELETE_ARTIFACT", HARBOR, Sender.HARBOR, harbor("DELETE_ARTIFACT")),
    Recorded("SCANNING_COMPLETED", HARBOR, Sender.HARBOR, harbor("SCANNING_COMPLETED")),
    Recorded("harbor.artifact.deleted", HARBOR, Sender.HARBOR,
             {**HARBOR_CLOUD_EVENT, "type": "harbor.artifact.deleted"}),

    Recorded("package published", GITHUB, Sender.GITHUB, github(),
             (Push("octo/app", "ghcr.io", "1.0.0"),)),
    Recorded("package updated", GITHUB, Sender.GITHUB, github("updated"),
             (Push("octo/app", "ghcr.io", "1.0.0"),)),
    Recorded("package of npm", GITHUB, Sender.GITHUB, github(kind="npm")),
    Recorded("ping", GITHUB, Sender.GITHUB,
             {"zen": "Keep it logically awesome.", "hook_id": 1, "hook": {"type": "Organization"}}),
    Recorded("push of Git", GITHUB, Sender.GITHUB, GITHUB_PUSH),

    Recorded("package created", GITEA, Sender.GITEA, gitea(),
             (Push("team/shop/app", tag="1.0.0"),)),
    Recorded("package created by digest", GITEA, Sender.GITEA, gitea(version=DIGEST),
             (Push("team/shop/app"),)),
    Recorded("package deleted", GITEA, Sender.GITEA, gitea("deleted")),
    Recorded("package of Helm", GITEA, Sender.GITEA, gitea(type="helm")),
    Recorded("test delivery, push of Git", GITEA, Sender.GITEA, GITEA_TEST_DELIVERY),

    Recorded("push", DOCKER_HUB, Sender.DOCKER_HUB, docker_hub(tag="latest"),
             (Push("svendowideit/testhook", HUB_HOST, "latest"),)),
    Recorded("push of an automated build", DOCKER_HUB, Sender.DOCKER_HUB,
             docker_hub(images=["imagehash1"]), (Push("svendowideit/testhook", HUB_HOST),)),

    Recorded("push", QUAY, Sender.QUAY, quay(updated_tags=["latest", "1.0.0"]),
             (Push("dgangaia/test", "quay.io", "latest"),
              Push("dgangaia/test", "quay.io", "1.0.0"))),
    Recorded("push of 2013", OLD_QUAY, Sender.QUAY, quay(updated_tags={"latest": "b750fe79"}),
             (Push("dgangaia/test", "quay.io", "latest"),)),
    Recorded("build queued", QUAY, Sender.QUAY,
             quay(build_id="296ec063", docker_tags=["master", "latest"], repo="test")),
    Recorded("vulnerability found", QUAY, Sender.QUAY,
             quay(tags=["latest"], vulnerability={"id": "CVE-1234-5678", "priority": "Critical"})),

    Recorded("push", ACR, Sender.ACR, acr(tag="v1"),
             (Push("hello-world", "myregistry.azurecr.io", "v1"),)),
    Recorded("push by digest", ACR, Sender.ACR, acr(),
             (Push("hello-world", "myregistry.azurecr.io"),)),
    Recorded("delete", ACR, Sender.ACR, acr("delete")),
    Recorded("chart_push of Helm 2", ACR, Sender.ACR,
             acr("chart_push", repository="repo", tag="wordpress-5.4.0.tgz", name="wordpress")),
    Recorded("ping", ACR, Sender.ACR,
             {"id": "cb8c3971", "timestamp": "2017-11-17T16:52:01Z", "action": "ping"}),

    Recorded("push", ECR, Sender.ECR, ecr(**PUSHED), (Push("my-repo", ECR_HOST, "latest"),)),
    Recorded("push by digest", ECR, Sender.ECR, ecr(**{**PUSHED, "image-tag": ""}),
             (Push("my-repo", ECR_HOST),)),
    Recorded("replication", ECR, Sender.ECR,
             ecr("ECR Replication Action", **{**PUSHED, "action-type": "REPLICATE"},
                 **{"source-account": "123456789012", "source-region": "us-east-1"}),
             (Push("my-repo", ECR_HOST, "latest"),)),
    Recorded("referrer, such as a signature", ECR, Sender.ECR,
             ecr("ECR Referrer Action", **{**PUSHED, "image-tag": ""}),
             (Push("my-repo", ECR_HOST),)),
    Recorded("pull through cache", ECR, Sender.ECR,
             ecr("ECR Pull Through Cache Action",
                 **{"rule-version": "1", "sync-status": "SUCCESS", "image-tag": "3.17.2",
                    "ecr-repository-prefix": "docker-hub", "repository-name": "docker-hub/alpine",
                    "upstream-registry-url": "public.ecr.aws"}),
             (Push("docker-hub/alpine", ECR_HOST, "3.17.2"),)),
    Recorded("delete", ECR, Sender.ECR, ecr(**{**PUSHED, "action-type": "DELETE"})),
    Recorded("failed push", ECR, Sender.ECR, ecr(**{**PUSHED, "result": "FAILURE"})),
    Recorded("scan", ECR, Sender.ECR,
             ecr("ECR Image Scan", **{"scan-status": "COMPLETE", "image-tags": ["latest"]})),

    Recorded("INSERT of a tag", GOOGLE, Sender.GOOGLE, pubsub(INSERTED),
             (Push("my-project/my-repo/hello-world", GAR_HOST, "1.1"),)),
    Recorded("INSERT by digest", GOOGLE, Sender.GOOGLE,
             pubsub({"action": "INSERT", "digest": INSERTED["digest"]}),
             (Push("my-project/my-repo/hello-world", GAR_HOST),)),
    Recorded("INSERT without the wrapper", GOOGLE, Sender.GOOGLE, INSERTED,
             (Push("my-project/my-repo/hello-world", GAR_HOST, "1.1"),)),
    Recorded("INSERT in gcr.io", GOOGLE, Sender.GOOGLE,
             pubsub({"action": "INSERT", "digest": f"gcr.io/my-project/hello-world@{DIGEST}",
                     "tag": "gcr.io/my-project/hello-world:1.1"}),
             (Push("my-project/hello-world", "gcr.io", "1.1"),)),
    Recorded("DELETE", GOOGLE, Sender.GOOGLE, pubsub({**INSERTED, "action": "DELETE"})),
    Recorded("DELETE without the wrapper", GOOGLE, Sender.GOOGLE,
             {**INSERTED, "action": "DELETE"}),
    Recorded("message without data", GOOGLE, Sender.GOOGLE,
             {"message": {"attributes": {"k": "v"}}, "subscription": "projects/p/subscriptions/s"}),

    Recorded("push", ALIBABA, Sender.ALIBABA, ALIBABA_PUSH,
             (Push("namespace/repotest", tag="latest"),)),

    Recorded("docker pushed", ARTIFACTORY, Sender.ARTIFACTORY, artifactory("pushed", **IMAGE),
             IN_ARTIFACTORY),
    Recorded("docker pushed, path with folders", ARTIFACTORY, Sender.ARTIFACTORY,
             artifactory("pushed", **{**IMAGE, "image_name": "ubuntu"}), IN_ARTIFACTORY),
    Recorded("docker pushed by digest", ARTIFACTORY, Sender.ARTIFACTORY,
             artifactory("pushed", **IMAGE, path="library/ubuntu/sha256__6ec1/manifest.json"),
             (Push("docker-local/library/ubuntu"), Push("library/ubuntu"))),
    Recorded("docker promoted", ARTIFACTORY, Sender.ARTIFACTORY, artifactory("promoted", **IMAGE),
             IN_ARTIFACTORY),
    Recorded("artifact deployed, a manifest", ARTIFACTORY, Sender.ARTIFACTORY,
             artifactory("deployed", "artifact"), IN_ARTIFACTORY),
    Recorded("artifact deployed, another file", ARTIFACTORY, Sender.ARTIFACTORY,
             artifactory("deployed", "artifact", path="org/lib/1.0/lib.jar")),
    Recorded("docker deleted", ARTIFACTORY, Sender.ARTIFACTORY, artifactory("deleted", **IMAGE)),

    Recorded("component created", NEXUS, Sender.NEXUS, nexus("CREATED", component=COMPONENT),
             IN_NEXUS),
    Recorded("asset updated", NEXUS, Sender.NEXUS, nexus("UPDATED", asset=ASSET), IN_NEXUS),
    Recorded("asset updated, name without slash", NEXUS, Sender.NEXUS,
             nexus("UPDATED", asset={**ASSET, "name": "v2/shop/app/manifests/1.0.0"}), IN_NEXUS),
    Recorded("asset created, a blob", NEXUS, Sender.NEXUS,
             nexus("CREATED", asset={**ASSET, "name": f"v2/-/blobs/{DIGEST}"})),
    Recorded("component deleted", NEXUS, Sender.NEXUS, nexus("DELETED", component=COMPONENT)),
    Recorded("component of npm", NEXUS, Sender.NEXUS,
             nexus("CREATED", component={**COMPONENT, "format": "npm"})),
    Recorded("audit", NEXUS, Sender.NEXUS,
             {"nodeId": "7FFA7361", "initiator": "admin/127.0.0.1",
              "audit": {"domain": "security.user", "type": "created"}}),

    Recorded("image updated, binary", ZOT, Sender.ZOT, ZOT_IMAGE, IN_ZOT,
             "zotregistry.image.updated"),
    Recorded("image updated, structured", ZOT, Sender.ZOT,
             cloud_event("zotregistry.image.updated", ZOT_IMAGE), IN_ZOT),
    Recorded("image updated, batch", ZOT, Sender.ZOT,
             [cloud_event("zotregistry.image.updated", ZOT_IMAGE),
              cloud_event("zotregistry.image.updated", {**ZOT_IMAGE, "name": "other"})],
             (*IN_ZOT, Push("other", tag="1.0.0"))),
    Recorded("image updated, own prefix", ZOT, Sender.ZOT, ZOT_IMAGE, IN_ZOT,
             "com.example.registry.image.updated"),
    Recorded("image updated by digest", ZOT, Sender.ZOT, {**ZOT_IMAGE, "reference": DIGEST},
             (Push("shop/app"),), "zotregistry.image.updated"),
    Recorded("image deleted", ZOT, Sender.ZOT, ZOT_IMAGE, (), "zotregistry.image.deleted"),
    Recorded("image lint failed", ZOT, Sender.ZOT, ZOT_IMAGE, (), "zotregistry.image.lint_failed"),
    Recorded("image scanned", ZOT, Sender.ZOT, ZOT_IMAGE, (), "zotregistry.image.scanned"),
    Recorded("repository created", ZOT, Sender.ZOT, {"name": "shop/app"}, (),
             "zotregistry.repository.created"),
)  # fmt: skip
"""Each sender's events: pushes, and others, which have no effect."""

REFUSED = (
    Recorded("GitLab project: push of Git", GITLAB_PROJECT, Sender.GENERIC,
             {"object_kind": "push", "event_name": "push", "ref": "refs/heads/master",
              "project": {"path_with_namespace": "mike/diaspora"},
              "repository": {"name": "Diaspora", "homepage": "http://example.com/mike/diaspora"}}),
    Recorded("SNS: subscription", SNS, Sender.GENERIC,
             sns("SubscriptionConfirmation", "You have chosen to subscribe to the topic")),
    Recorded("SNS: notification", SNS, Sender.GENERIC,
             sns("Notification", json.dumps(ecr(**PUSHED)))),
    Recorded("Event Grid: validation", EVENT_GRID, Sender.GENERIC, EVENT_GRID_VALIDATION),
)  # fmt: skip
"""What is refused, and says what to use instead."""
