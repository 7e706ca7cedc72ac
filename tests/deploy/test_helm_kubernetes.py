"""A real API server accepts the chart. Documents of foreign kinds fit the schemas of their APIs (`make test-k8s`)."""

import json
import time

import jsonschema
import pytest
import yaml

from tests.brokers import Unavailable, skip
from tests.deploy.charts import CHART, EXAMPLES, example, rendered
from tests.deploy.cluster import Kubernetes, prebuilt

pytestmark = pytest.mark.long
FOREIGN = ("monitoring.coreos.com", "keda.sh", "gateway.networking.k8s.io")
FOREIGN_KINDS = ("PodMonitor", "ServiceMonitor", "PrometheusRule", "ScaledObject", "HTTPRoute")


@pytest.fixture(scope="module")
def crds():
    """Return the definitions of the foreign kinds, by kind."""
    try:
        folder = prebuilt("crds")
    except Unavailable as error:
        skip(error)
    definitions = [yaml.safe_load(path.read_text()) for path in folder.glob("*.yaml")]
    return {crd["spec"]["names"]["kind"]: crd for crd in definitions}


@pytest.fixture(scope="module")
def kubernetes(crds):
    try:
        server = Kubernetes()
    except Unavailable as error:
        skip(error)
    with server:
        foreign_crds = [crd for kind, crd in crds.items() if kind in FOREIGN_KINDS]
        for crd in foreign_crds:  # the API server guards the names of the group
            crd["metadata"].setdefault("annotations", {})["api-approved.kubernetes.io"] = "unapproved, tests only"
            process = server.kubectl("create", "-f", "-", stdin=json.dumps(crd))
            assert process.returncode == 0, process.stderr
        process = server.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        assert process.returncode == 0, process.stderr
        for name in ("counting", "system"):  # the example `everything` names them, and the chart does not bring them
            process = server.kubectl("create", "priorityclass", name, "--value=1000")
            assert process.returncode == 0, process.stderr
        yield server


def strict(schema):
    """Return the schema without room for other keys."""
    if isinstance(schema, dict):
        result = {key: strict(value) for key, value in schema.items()}
        if isinstance(result.get("pattern"), str):
            result["pattern"] = result["pattern"].replace("^(?i)", "(?i)^")  # Python wants the flag first
        if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
            result.setdefault("additionalProperties", False)
        return result
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


def test_a_wrong_foreign_document_is_refused(crds):
    monitor = next(document for document in rendered("everything") if document["kind"] == "PodMonitor")
    wrong_document = json.loads(json.dumps(monitor))
    wrong_document["spec"]["podMetricsEndpoints"][0]["ports"] = "http"
    with pytest.raises(jsonschema.ValidationError, match="ports"):
        jsonschema.validate(wrong_document, schema_of(crds["PodMonitor"], "v1"))


@pytest.fixture
def namespace(kubernetes):
    """Create a namespace that enforces the restricted standard for pods, and return its name."""
    name = f"t{time.time_ns():x}"
    for kubectl in (
        ("create", "namespace", name),
        ("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted"),
    ):
        process = kubernetes.kubectl(*kubectl)
        assert process.returncode == 0, process.stderr
    return name


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_server_accepts_every_document_and_every_pod(name, kubernetes, namespace):
    for document in rendered(name):
        document["metadata"]["namespace"] = namespace
        command = ("create", "--dry-run=server", "--validate=strict", "-f", "-")
        process = kubernetes.kubectl(*command, stdin=json.dumps(document))
        assert process.returncode == 0, process.stderr
        assert "Warning" not in process.stderr
        template = document.get("spec", {}).get("template")
        if template:  # no controller creates pods here, so the test does
            spec = {"restartPolicy": "Always", **template["spec"]}
            metadata = {"name": "pod", "namespace": namespace, "labels": template["metadata"]["labels"]}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
            process = kubernetes.kubectl(*command, stdin=json.dumps(pod))
            assert process.returncode == 0, process.stderr


def test_the_server_refuses_an_unrestricted_pod(kubernetes, namespace):
    container = {"name": "loose", "image": "hubbub:0.3.0"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "loose"}, "spec": {"containers": [container]}}
    process = kubernetes.kubectl(
        "create", "--namespace", namespace, "--dry-run=server", "-f", "-", stdin=json.dumps(pod)
    )
    assert "violates PodSecurity" in process.stderr


@pytest.mark.parametrize("name", EXAMPLES)
def test_helm_installs_upgrades_and_removes_the_chart(name, kubernetes, namespace):
    place = ("--namespace", namespace, *example(name))
    # No controller runs the job, so helm must not wait for it.
    process = kubernetes.helm("install", "crowd", CHART, *place, "--no-hooks", "--wait=hookOnly")
    assert process.returncode == 0, process.stderr
    deployments = kubernetes.kubectl("get", "deployments", "--namespace", namespace, "-o", "json")
    names = [item["metadata"]["name"] for item in json.loads(deployments.stdout)["items"]]
    (worker,) = [name for name in names if name.endswith("-worker")]
    upgrade = ("upgrade", "crowd", CHART, *place, "--no-hooks", "--set", "worker.maxUnavailable=2")
    process = kubernetes.helm(*upgrade)
    assert process.returncode == 0, process.stderr
    budget = kubernetes.kubectl("get", "pdb", worker, "--namespace", namespace, "-o", "json")
    assert json.loads(budget.stdout)["spec"]["maxUnavailable"] == 2
    process = kubernetes.helm("uninstall", "crowd", "--namespace", namespace, "--no-hooks")
    assert process.returncode == 0, process.stderr
    kinds = "deploy,svc,cm,sa,pdb,hpa,ingress,networkpolicies,podmonitors,prometheusrules,scaledobjects,httproutes"
    selector = ("-l", "app.kubernetes.io/name=hubbub", "-o", "name")
    assert kubernetes.kubectl("get", kinds, "--namespace", namespace, *selector).stdout == ""
