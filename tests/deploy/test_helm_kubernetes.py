"""The chart at a real API server, and its foreign kinds held to the schemas of their typed APIs: `make test-k8s`."""

import json
import time

import jsonschema
import pytest
import yaml

from tests.brokers import Unavailable, missing
from tests.deploy.charts import CHART, EXAMPLES, example, rendered
from tests.deploy.cluster import Kubernetes, built

pytestmark = pytest.mark.long
FOREIGN = ("monitoring.coreos.com", "keda.sh")
FOREIGN_KINDS = ("PodMonitor", "ServiceMonitor", "PrometheusRule", "ScaledObject")


@pytest.fixture(scope="module")
def crds():
    """The definitions of the foreign kinds, by kind."""
    try:
        folder = built("crds")
    except Unavailable as error:
        missing(error)
    found = [yaml.safe_load(path.read_text()) for path in folder.glob("*.yaml")]
    return {crd["spec"]["names"]["kind"]: crd for crd in found}


@pytest.fixture(scope="module")
def kubernetes(crds):
    try:
        server = Kubernetes()
    except Unavailable as error:
        missing(error)
    with server:
        needed = [crd for kind, crd in crds.items() if kind in FOREIGN_KINDS]
        for crd in needed:  # what a generated definition lacks at an API server that guards the group's names
            crd["metadata"].setdefault("annotations", {})["api-approved.kubernetes.io"] = "unapproved, tests only"
            done = server.kubectl("create", "-f", "-", given=json.dumps(crd))
            assert done.returncode == 0, done.stderr
        done = server.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        assert done.returncode == 0, done.stderr
        yield server


def strict(schema):
    """No other keys than those that the schema has."""
    if isinstance(schema, dict):
        closed = {key: strict(value) for key, value in schema.items()}
        if isinstance(closed.get("pattern"), str):
            closed["pattern"] = closed["pattern"].replace("^(?i)", "(?i)^")  # where Python has it
        if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
            closed.setdefault("additionalProperties", False)
        return closed
    return [strict(item) for item in schema] if isinstance(schema, list) else schema


def schema_of(crd, version):
    spec = next(one for one in crd["spec"]["versions"] if one["name"] == version)["schema"]["openAPIV3Schema"]
    whole = strict(spec)
    whole["properties"]["metadata"] = {"type": "object"}
    return whole


@pytest.mark.parametrize("name", EXAMPLES)
def test_foreign_kinds_fit_their_schemas(name, crds):
    for document in rendered(name):
        group, _, version = document["apiVersion"].partition("/")
        if group in FOREIGN:
            jsonschema.validate(document, schema_of(crds[document["kind"]], version))


def test_a_foreign_document_that_does_not_fit_is_found(crds):
    monitor = next(document for document in rendered("everything") if document["kind"] == "PodMonitor")
    wrong = json.loads(json.dumps(monitor))
    wrong["spec"]["podMetricsEndpoints"][0]["ports"] = "http"
    with pytest.raises(jsonschema.ValidationError, match="ports"):
        jsonschema.validate(wrong, schema_of(crds["PodMonitor"], "v1"))


@pytest.fixture
def namespace(kubernetes):
    """A namespace whose pods must keep to the restricted standard."""
    name = f"t{time.time_ns():x}"
    for kubectl in (
        ("create", "namespace", name),
        ("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted"),
    ):
        done = kubernetes.kubectl(*kubectl)
        assert done.returncode == 0, done.stderr
    return name


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_server_takes_every_document_and_every_pod(name, kubernetes, namespace):
    for document in rendered(name):
        document["metadata"]["namespace"] = namespace
        command = ("create", "--dry-run=server", "--validate=strict", "-f", "-")
        done = kubernetes.kubectl(*command, given=json.dumps(document))
        assert done.returncode == 0, done.stderr
        assert "Warning" not in done.stderr
        if template := document.get("spec", {}).get("template"):  # no controller makes pods here: we do
            spec = {"restartPolicy": "Always", **template["spec"]}
            metadata = {"name": "pod", "namespace": namespace, "labels": template["metadata"]["labels"]}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
            done = kubernetes.kubectl(*command, given=json.dumps(pod))
            assert done.returncode == 0, done.stderr


def test_a_pod_that_is_not_restricted_is_refused(kubernetes, namespace):
    container = {"name": "loose", "image": "hubbub:0.1.0"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "loose"}, "spec": {"containers": [container]}}
    done = kubernetes.kubectl("create", "--namespace", namespace, "--dry-run=server", "-f", "-", given=json.dumps(pod))
    assert "violates PodSecurity" in done.stderr


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_is_installed_upgraded_and_removed(name, kubernetes, namespace):
    place = ("--namespace", namespace, *example(name))
    # No controller runs the job, so what waits for it is left out.
    done = kubernetes.helm("install", "crowd", CHART, *place, "--no-hooks", "--wait=hookOnly")
    assert done.returncode == 0, done.stderr
    there = kubernetes.kubectl("get", "deployments", "--namespace", namespace, "-o", "json")
    assert any(item["metadata"]["name"] == "crowd-hubbub-worker" for item in json.loads(there.stdout)["items"])
    upgrade = ("upgrade", "crowd", CHART, *place, "--no-hooks", "--set", "worker.maxUnavailable=2")
    done = kubernetes.helm(*upgrade)
    assert done.returncode == 0, done.stderr
    budget = kubernetes.kubectl("get", "pdb", "crowd-hubbub-worker", "--namespace", namespace, "-o", "json")
    assert json.loads(budget.stdout)["spec"]["maxUnavailable"] == 2
    done = kubernetes.helm("uninstall", "crowd", "--namespace", namespace, "--no-hooks")
    assert done.returncode == 0, done.stderr
    kinds = "deploy,svc,cm,sa,pdb,hpa,ingress,networkpolicies,podmonitors,prometheusrules,scaledobjects"
    labelled = ("-l", "app.kubernetes.io/name=hubbub", "-o", "name")
    assert kubernetes.kubectl("get", kinds, "--namespace", namespace, *labelled).stdout == ""
