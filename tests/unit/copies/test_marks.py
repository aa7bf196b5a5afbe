"""Labels and annotations by which a controller claims, prunes or fills an object are never copied.

A row for each pattern: where its key is documented, and what its owner does with it.
"""

import pytest

from copyrator.api import names
from copyrator.api.rule_spec import MetadataTransform, Transform
from copyrator.copies.seal.sealing import Sealer
from copyrator.copies.targets.content import copied_content, rendered_content
from copyrator.copies.targets.marks import EVERY_MARK, OTHERS

GCP = "https://cloud.google.com/kubernetes-engine/config-sync/docs/reference/labels-and-annotations"
CERT_MANAGER = "https://cert-manager.io/docs/reference/annotations/"
CAINJECTOR = "https://cert-manager.io/docs/concepts/ca-injector/"
CLI_UTILS = "https://github.com/kubernetes-sigs/cli-utils"
ESO = "https://external-secrets.io/latest/guides/ownership-deletion-policy/"
FLUX = "https://fluxcd.io/flux/components/kustomize/kustomizations/"
KYVERNO = "https://kyverno.io/docs/policy-types/cluster-policy/generate/"
OLM = "https://olm.operatorframework.io/docs/"
OLM_CODE = "https://github.com/operator-framework/operator-lifecycle-manager"
LIBRARY_GO = "https://github.com/openshift/library-go/tree/master/pkg/operator/certrotation"
OPENSHIFT_CA = "https://docs.openshift.com/container-platform/latest/security/certificates/"
OPENSHIFT_PKI = "https://docs.openshift.com/container-platform/latest/networking/"
PULL_SECRETS = "https://github.com/openshift/openshift-controller-manager"
RANCHER = "https://github.com/rancher/rancher"
SEALED = "https://github.com/bitnami-labs/sealed-secrets#readme"
WELL_KNOWN = "https://kubernetes.io/docs/reference/labels-annotations-taints/"

MARKS = [
    # Of this operator and kopf
    ("copyrator.flant.com/content-hash", "docs/rules.md", "proves that a copy is ours"),
    ("copyrator.flant.com/allow-to", "docs/trust.md", "is for the source"),
    ("operator.werf.dev/deployment", "docs/bundles.md", "is this operator's"),
    ("operator.werf.dev/guard", "docs/operations.md", "makes it a list of what a Job may write"),
    ("kopf.zalando.org/last-handled-configuration", "docs/facts/kopf.md", "data in clear"),
    ("example.com/last-handled-configuration", "docs/facts/kopf.md", "data in clear"),
    ("kopf.dev/kopf-managed", "docs/facts/kopf.md", "claims"),
    ("example.com/kopf-managed", "docs/facts/kopf.md", "claims"),
    # Tools that apply manifests
    ("kubectl.kubernetes.io/last-applied-configuration", WELL_KNOWN, "data in clear"),
    ("applyset.kubernetes.io/part-of", WELL_KNOWN, "kubectl prunes members of its set"),
    ("config.kubernetes.io/owning-inventory", CLI_UTILS, "prunes what isn't in its inventory"),
    ("config.k8s.io/owning-inventory", CLI_UTILS, "the same by the older name"),
    ("cli-utils.sigs.k8s.io/inventory-id", CLI_UTILS, "makes a ConfigMap an inventory"),
    ("internal.kpt.dev/upstream-identifier", "https://kpt.dev/", "kpt merges by it"),
    ("meta.helm.sh/release-name", "https://helm.sh/docs/", "Helm adopts and deletes by it"),
    ("app.kubernetes.io/managed-by", WELL_KNOWN, "Helm, Spinnaker, kOps … own by it"),
    ("app.kubernetes.io/instance", "https://argo-cd.readthedocs.io/", "Argo CD prunes by it"),
    ("argocd.argoproj.io/instance", "https://argo-cd.readthedocs.io/", "Argo CD prunes by it"),
    ("kustomize.toolkit.fluxcd.io/name", FLUX, "Flux prunes by it"),
    ("helm.toolkit.fluxcd.io/name", "https://fluxcd.io/flux/components/helm/", "Flux owns by it"),
    (
        "resourceset.fluxcd.controlplane.io/name",
        "https://fluxoperator.dev/",
        "Flux Operator prunes",
    ),
    ("fluxcd.io/sync-gc-mark", "https://github.com/fluxcd/flux", "Flux 1 prunes by it"),
    ("flux.weave.works/sync-gc-mark", "https://github.com/fluxcd/flux", "the same, older"),
    ("configmanagement.gke.io/managed", GCP, "Config Sync prunes and restores"),
    ("configsync.gke.io/resource-id", GCP, "Config Sync prunes and restores"),
    ("kapp.k14s.io/app", "https://carvel.dev/kapp/docs/", "kapp deletes by its label"),
    ("fleet.cattle.io/bundle-id", "https://fleet.rancher.io/", "Fleet prunes by it"),
    ("objectset.rio.cattle.io/hash", "https://github.com/rancher/wrangler", "k3s, Fleet prune"),
    ("management.cattle.io/project-scoped-secret-copy", RANCHER, "Rancher deletes its copies"),
    ("authz.cluster.cattle.io/rtb-owner-updated", RANCHER, "Rancher deletes RoleBindings"),
    ("lifecycle.cattle.io/create.namespace-auth", RANCHER, "Rancher's state of an object"),
    ("werf.io/show-logs-until", "https://werf.io/docs/", "werf's instructions"),
    ("kluctl.io/discriminator", "https://kluctl.io/docs/", "kluctl prunes by it"),
    ("tanka.dev/environment", "https://tanka.dev/garbage-collection/", "tk prune deletes by it"),
    ("app.timoni.sh/name", "https://timoni.sh/", "Timoni prunes"),
    ("moniker.spinnaker.io/application", "https://spinnaker.io/docs/", "Spinnaker owns by it"),
    ("app.oam.dev/name", "https://kubevela.io/docs/", "KubeVela collects garbage by it"),
    ("kro.run/owned", "https://kro.run/docs/", "kro owns by it"),
    ("projectsveltos.io/reference-name", "https://projectsveltos.github.io/", "deletes by it"),
    ("install.operator.istio.io/owning-resource", "https://istio.io/", "istioctl prunes by it"),
    # Add-ons of a distribution
    ("addonmanager.kubernetes.io/mode", WELL_KNOWN, "the add-on manager prunes and restores"),
    ("kubernetes.io/cluster-service", WELL_KNOWN, "the same by the older name"),
    ("addon.kops.k8s.io/name", "https://kops.sigs.k8s.io/addons/", "kOps prunes by it"),
    ("k0s.k0sproject.io/stack", "https://docs.k0sproject.io/", "k0s prunes by it"),
    (
        "resources.gardener.cloud/garbage-collectable-reference",
        "https://gardener.cloud/docs/gardener/concepts/resource-manager/",
        "deletes a ConfigMap or Secret that no workload names",
    ),
    ("cluster.x-k8s.io/cluster-name", "https://cluster-api.sigs.k8s.io/", "Cluster API owns by it"),
    ("olm.managed", OLM_CODE, "OLM takes what has it for its own"),
    ("olm.operatorframework.io/owner-kind", OLM, "OLM 1 owns by it"),
    ("operators.coreos.com/prometheus.monitoring", OLM, "an Operator adopts components by it"),
    ("operator-sdk/primary-resource", "https://sdk.operatorframework.io/docs/", "owns by it"),
    # Secrets and certificates
    ("reconcile.external-secrets.io/managed", ESO, "may be deleted"),
    ("sealedsecrets.bitnami.com/managed", SEALED, "is overwritten by a SealedSecret of the name"),
    ("secrets-store.csi.k8s.io/managed", "https://secrets-store-csi-driver.sigs.k8s.io/", "fills"),
    (
        "secrets.hashicorp.com/vso-ownerRefUID",
        "https://github.com/hashicorp/vault-secrets-operator",
        "deletes what has no owner",
    ),
    ("operator.1password.io/item-path", "https://developer.1password.com/docs/k8s/", "fills"),
    ("secrets.doppler.com/version", "https://docs.doppler.com/docs/kubernetes-operator", "fills"),
    ("secrets.infisical.com/version", "https://infisical.com/docs/", "fills"),
    ("cert-manager.io/certificate-name", CERT_MANAGER, "is taken for a certificate's Secret"),
    ("cert-manager.io/next-private-key", CERT_MANAGER, "is deleted after an issuance"),
    ("controller.cert-manager.io/fao", CERT_MANAGER, "for the controller's own cache"),
    ("cert-manager.io/inject-ca-from", CAINJECTOR, "is filled with a CA"),
    ("cert-manager.io/allow-direct-injection", CAINJECTOR, "lets its CA be injected elsewhere"),
    ("certmanager.k8s.io/inject-ca-from", CAINJECTOR, "the same by the older name"),
    ("trust.cert-manager.io/bundle", "https://cert-manager.io/docs/trust/", "deletes, fills"),
    ("trust-manager.io/hash", "https://cert-manager.io/docs/trust/", "deletes, fills"),
    ("secretgen.carvel.dev/status", "https://github.com/carvel-dev/secretgen-controller", "fills"),
    # OpenShift
    ("config.openshift.io/inject-trusted-cabundle", OPENSHIFT_PKI, "its data are replaced"),
    ("service.beta.openshift.io/inject-cabundle", OPENSHIFT_CA, "is filled with a CA"),
    ("service.alpha.openshift.io/inject-cabundle", OPENSHIFT_CA, "the same by the older name"),
    ("auth.openshift.io/managed-certificate-type", LIBRARY_GO, "is renewed"),
    ("openshift.io/internal-registry-auth-token.service-account", PULL_SECRETS, "renews, deletes"),
    ("openshift.io/token-secret.value", PULL_SECRETS, "a token in clear"),
    ("hive.openshift.io/managed", "https://github.com/openshift/hive", "deletes, restores"),
    # Copying tools
    ("replicator.v1.mittwald.de/replicate-to", "https://github.com/mittwald", "copies further"),
    ("secret-generator.v1.mittwald.de/autogenerate", "https://github.com/mittwald", "fills"),
    (
        "reflector.v1.k8s.emberstack.com/reflection-allowed",
        "https://github.com/emberstack/kubernetes-reflector",
        "copies further",
    ),
    ("kubed.appscode.com/sync", "https://config-syncer.com/", "copies further"),
    ("config-syncer.kubeops.dev/origin", "https://config-syncer.com/", "deletes"),
    ("clustersecret.io/created-by", "https://github.com/zakkg3/ClusterSecret", "deletes"),
    ("generate.kyverno.io/policy-name", KYVERNO, "is deleted with its policy"),
    ("policy.kyverno.io/synchronize", KYVERNO, "the same by the older name"),
    (
        "hnc.x-k8s.io/inherited-from",
        "https://github.com/kubernetes-sigs/hierarchical-namespaces/tree/master/docs",
        "is deleted where it isn't inherited",
    ),
    ("capsule.clastix.io/managed-by", "https://projectcapsule.dev/docs/", "prunes"),
    ("projectcapsule.dev/managed-by", "https://projectcapsule.dev/docs/", "prunes"),
    ("kruise.io/resourcedistribution-resource-from", "https://openkruise.io/docs/", "overwrites"),
    # Several clusters
    ("vcluster.loft.sh/managed-by", "https://www.vcluster.com/docs", "deletes"),
    ("work.karmada.io/name", "https://karmada.io/docs/", "deletes, restores"),
    ("kubefed.io/managed", "https://github.com/kubernetes-retired/kubefed", "deletes, restores"),
    (
        "apps.open-cluster-management.io/hosting-subscription",
        "https://open-cluster-management.io",
        "prunes",
    ),
    ("offloading.liqo.io/remote-cluster-id", "https://docs.liqo.io/", "deletes, restores"),
    ("multicluster.admiralty.io/parent-uid", "https://admiralty.io/docs/", "deletes"),
    # Operators whose objects are found by labels
    ("crossplane.io/composite", "https://docs.crossplane.io/", "owns by it"),
    ("cnrm.cloud.google.com/deletion-policy", "https://cloud.google.com/config-connector", "owns"),
    ("services.k8s.aws/adopted", "https://aws-controllers-k8s.github.io/community/", "owns"),
    ("eck.k8s.elastic.co/owner-name", "https://github.com/elastic/cloud-on-k8s", "deletes"),
    ("strimzi.io/cluster", "https://strimzi.io/docs/", "deletes what no resource asks for"),
    (
        "metacontroller.k8s.io/last-applied-configuration",
        "https://metacontroller.github.io",
        "data",
    ),
    ("banzaicloud.com/last-applied", "https://github.com/banzaicloud/k8s-objectmatcher", "data"),
    # Programs that delete after a time
    ("janitor/ttl", "https://codeberg.org/hjacobs/kube-janitor", "deletes after it"),
    ("k8s-ttl-controller.twin.sh/ttl", "https://github.com/TwiN/k8s-ttl-controller", "deletes"),
    # Kubernetes itself
    ("control-plane.alpha.kubernetes.io/leader", WELL_KNOWN, "a lock of a leader election"),
    ("deployment.kubernetes.io/revision", WELL_KNOWN, "a Deployment's count"),
    ("endpointslice.kubernetes.io/managed-by", WELL_KNOWN, "is deleted by its controller"),
]

KEPT = [
    "app",
    "team",
    "olm",
    "olmanaged",
    "app.kubernetes.io/name",
    "app.kubernetes.io/part-of",
    "azure.workload.identity/client-id",
    "cert-manager.io/cluster-issuer",
    "cert-manager.io/issuer",
    "config.openshift.io/other",
    "eks.amazonaws.com/role-arn",
    "example.com/helm.sh",
    "example.com/olm.managed",
    "grafana_dashboard",
    "helm.sh",
    "helm.sh.example.com/chart",
    "iam.gke.io/gcp-service-account",
    "jenkins.io/credentials-type",
    "kubernetes.io/description",
    "mycrossplane.io/composite",
    "openshift.io/description",
    "prometheus.io/scrape",
    "reconcile.fluxcd.io/watch",
    "reloader.stakater.com/match",
    "velero.io/exclude-from-backup",
]

SEALER = Sealer(b"0" * 32)


def configmap(**metadata):
    place = {"namespace": "from", "name": "source"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": place | metadata}


def ours(found):
    return {names.LABEL_MANAGED_BY, names.ANN_RULE, names.ANN_SOURCE} & found.keys()


@pytest.mark.parametrize(("key", "source", "why"), MARKS, ids=[key for key, *_ in MARKS])
def test_a_mark_of_another_owner_is_never_copied(key, source, why):
    assert source, why
    body = configmap(labels={key: "x", "app": "y"}, annotations={key: "x", "note": "y"})
    copy = copied_content(body, Transform(), rule="a/b", sealer=SEALER)
    assert copy.labels == {"app": "y", names.LABEL_MANAGED_BY: names.MANAGED_BY}
    assert copy.annotations.keys() - ours(copy.annotations) == {"note"}


@pytest.mark.parametrize("key", KEPT)
def test_everything_else_is_copied(key):
    body = configmap(labels={key: "x"}, annotations={key: "x"})
    copy = copied_content(body, Transform(), rule="a/b", sealer=SEALER)
    assert copy.labels[key] == copy.annotations[key] == "x"


def test_each_pattern_of_the_list_has_a_row():
    keys = [key for key, *_ in MARKS]
    for owner in OTHERS:
        for pattern in owner.patterns:
            text = pattern.rstrip("*")
            assert any(
                text in key if pattern.endswith("/") else key.startswith(text) for key in keys
            ), pattern


def test_a_rules_author_may_set_the_mark_of_another_owner():
    mark = {"config.openshift.io/inject-trusted-cabundle": "true"}
    add = MetadataTransform(add=mark)
    transform = Transform(labels=add, annotations=add)
    copy = copied_content(configmap(labels=mark), transform, rule="a/b", sealer=SEALER)
    assert mark.items() <= copy.labels.items()
    assert mark.items() <= copy.annotations.items()


def test_a_template_has_the_marks_that_its_author_wrote_but_none_of_the_operators():
    marks = {"service.beta.openshift.io/inject-cabundle": "true", "helm.sh/resource-policy": "keep"}
    never = {
        "copyrator.flant.com/allow-to": "x",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "example.com/last-handled-configuration": "{}",
    }
    body = configmap(labels=marks | never, annotations=marks | never)
    copy = rendered_content(body, Transform(), rule="a/b", sealer=SEALER)
    assert copy.labels == marks | {names.LABEL_MANAGED_BY: names.MANAGED_BY}
    assert copy.annotations == marks | {names.ANN_RULE: "a/b"}


def test_a_lookup_among_many_dots_ends():
    assert not EVERY_MARK.has("." * 253 + "/x")
    assert not EVERY_MARK.has("/x")
