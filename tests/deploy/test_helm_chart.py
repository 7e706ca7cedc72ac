"""The real helm renders every example. The documents fit the schemas of Kubernetes, and hubbub accepts them."""

import base64
import http.server
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import threading
from itertools import chain, product

import kubernetes_validate
import pytest
import trustme
import yaml

from tests.deploy.charts import (
    CHART,
    EXAMPLES,
    RELEASE,
    ROOT,
    documents,
    example,
    helm,
    of_kind,
    pods,
    rendered,
    template,
    text,
)
from tests.deploy.containers import Container, help_of, refusal
from tests.slowness import patience

PAUSE_KEY = "autoscaling.keda.sh/paused-replicas"
FOREIGN = {"PodMonitor", "ServiceMonitor", "PrometheusRule", "ScaledObject", "HTTPRoute"}
"""Kinds of Kubernetes operators. test_helm_kubernetes.py checks them against their schemas."""
VERSIONS = ("1.30", "1.37")
HOOKS = "pre-install,pre-upgrade,pre-rollback"


def test_helm_lint_accepts_the_chart():
    for name in EXAMPLES:
        process = helm("lint", "--strict", CHART, *example(name))
        assert process.returncode == 0, process.stdout + process.stderr
        assert "[WARNING]" not in process.stdout


def test_the_examples_show_every_value():
    """Nobody has tried a key that no example sets."""

    def paths(values, above=()):
        for key, value in values.items():
            if isinstance(value, dict) and value:
                yield from paths(value, (*above, key))
            else:
                yield (*above, key)

    example_paths = {
        path for name in EXAMPLES for path in paths(yaml.safe_load((CHART / "ci" / f"{name}.yaml").read_text()))
    }
    schema = json.loads((CHART / "values.schema.json").read_text())

    def schema_paths(node, above=()):
        for key, inner in node["properties"].items():
            if "properties" in inner:
                yield from schema_paths(inner, (*above, key))
            elif key != "global":
                yield (*above, key)

    example_prefixes = {path[:length] for path in example_paths for length in range(1, len(path) + 1)}
    usual = {("gateway", "env"), ("board", "env"), ("kafka", "tokenSecret", "key"), ("keda", "prometheus")}
    # The names of all objects change with it, so a test of its own sets it.
    usual |= {("nameOverride",)}
    usual |= {("kafka", f"{of}Secret", key) for of, key in product(("password", "ca", "cert"), ("key", "cert"))}
    same = {
        "podAnnotations",
        "nodeSelector",
        "tolerations",
        "affinity",
        "resources",
        "disruptionBudget",
        "maxUnavailable",
        "labels",
    }
    same |= {"podLabels", "priorityClassName", "envFrom", "extraVolumes", "extraVolumeMounts", "lifecycle"}
    same |= {"annotations", "topologySpreadConstraints", "initContainers", "extraContainers"}
    same |= {"readinessProbe", "livenessProbe", "scrapeTimeout", "relabelings", "metricRelabelings"}
    remaining_paths = {
        path
        for path in schema_paths(schema)
        if path not in example_prefixes and path not in usual and path[-1] not in same
    }
    assert remaining_paths <= {
        ("gateway", "replicas"),
        ("board", "ingress", "class"),
        ("board", "ingress", "annotations"),
        ("networkPolicy", "boardFrom"),
        ("board", "httpRoute", "annotations"),
        ("board", "httpRoute", "hostnames"),
    }


@pytest.mark.parametrize("name", EXAMPLES)
def test_rendering_twice_is_identical(name):
    """Except for a token that the chart makes, because without a cluster it does not know the present one."""
    texts = (template(*example(name)).stdout, text(name))
    first, second = (re.sub(r"^  token: \w{50,}=*$", "", rendering, flags=re.MULTILINE) for rendering in texts)
    assert first == second


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_document_fits_the_schema_of_kubernetes(name, version):
    native = 0
    for document in rendered(name):
        if document["kind"] not in FOREIGN:
            assert kubernetes_validate.validate(document, version, strict=True) == version
            native += 1
    assert native + sum(document["kind"] in FOREIGN for document in rendered(name)) == len(rendered(name)) > 2


def test_a_wrong_document_does_not_fit_the_schema():
    wrong_document = json.loads(json.dumps(of_kind("minimal", "Deployment")["worker"]))
    # A key that Kubernetes would drop in silence.
    wrong_document["spec"]["replica"] = 2
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong_document, VERSIONS[0], strict=True)
    with pytest.raises(kubernetes_validate.SchemaNotFoundError):
        kubernetes_validate.validate({**wrong_document, "kind": "Workers"}, VERSIONS[0], strict=True)


def test_some_example_renders_each_kind():
    kinds = {document["kind"] for document in chain.from_iterable(rendered(name) for name in EXAMPLES)}
    ours = (
        "ConfigMap Deployment HorizontalPodAutoscaler Ingress Job NetworkPolicy Pod PodDisruptionBudget Secret Service"
    )
    assert kinds >= {*ours.split(), "ServiceAccount", "PodMonitor", "ServiceMonitor", "ScaledObject"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_names_are_unique(name):
    names = [(document["kind"], document["metadata"]["name"]) for document in rendered(name)]
    assert len(names) == len(set(names))


WITH_PASSWORD = "kafka.protocol=SASL_SSL,kafka.mechanism=PLAIN,kafka.username=a,kafka.passwordSecret.name=a"  # noqa: S105 - values
WITH_TOKEN = "kafka.protocol=SASL_SSL,kafka.mechanism=OAUTHBEARER"  # noqa: S105 - values


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("kafka.servers=kafka", "/kafka/servers"),
        ("kafka.server=kafka:9092", "'server'"),
        ("kafka.protocol=TLS", "/kafka/protocol"),
        ("worker.replicas=many", "/worker/replicas"),
        ("worker.replicas=-1", "/worker/replicas"),
        ("topics.partitions=0", "/topics/partitions"),
        ("workers.replicas=2", "'workers'"),
        ("log.level=loud", "/log/level"),
        ("worker.retire[0]=a b", "/worker/retire/0"),
        ("board.retention=long", "/board/retention"),
        ("gateway.enabled=true", "gateway.tokens.secret: name the secret"),
        ("board.ingress.enabled=true,board.ingress.host=a.example,board.open=true", "board.open: a board with"),
        ("board.token.secret=a,board.open=true", "board.open: an open board"),
        ("board.ingress.enabled=true,board.token.secret=a", "board.ingress.host: set"),
        ("board.httpRoute.enabled=true,board.open=true", "board.open: a board with"),
        ("board.httpRoute.enabled=true,board.token.secret=a", "board.httpRoute.parentRefs: name the Gateway"),
        ("image.digest=latest", "/image/digest"),
        ("fullnameOverride=Crowd", "/fullnameOverride"),
        ("monitoring.rules.runbooks=runbooks", "/monitoring/rules/runbooks"),
        ("monitoring.rules.enabled=true,board.enabled=false", "monitoring.rules.runbooks: set"),
        ("kafka.protocol=SASL_SSL", "kafka.mechanism: set"),
        ("kafka.protocol=SASL_SSL,kafka.mechanism=PLAIN", "kafka.username: set"),
        ("kafka.protocol=SASL_SSL,kafka.mechanism=PLAIN,kafka.username=a", "kafka.passwordSecret.name: name"),
        ("kafka.protocol=SASL_SSL,kafka.mechanism=OAUTHBEARER", "kafka.tokenSecret.name: name"),
        ("kafka.username=a", "no effect without SASL: set kafka.protocol"),
        ("kafka.tokenCommand=a", "no effect without SASL: set kafka.protocol"),
        (f"{WITH_PASSWORD},kafka.tokenCommand=a", "kafka.tokenCommand has no effect with this mechanism"),
        (f"{WITH_TOKEN},kafka.tokenCommand=a,kafka.tokenSecret.name=a", "tokenCommand and tokenSecret are both set"),
        ("kafka.caSecret.name=a", "no effect without TLS: set kafka.protocol"),
        ("monitoring.podMonitor.enabled=true,monitoring.serviceMonitor.enabled=true", "enable one"),
        ("keda.enabled=true,keda.max=13", "13 workers share 12 partitions"),
        ("worker.replicas=13", "worker.replicas: 13 workers share 12 partitions"),
        ("queries.file=hello", "queries.file: the text defines no query"),
        ("board.memory=1GiB", "needs 1411 MiB, which is above board.resources.limits.memory (768Mi)"),
        ("board.resources.limits.memory=413M", "board.memory: a board that keeps 256MiB needs 413 MiB"),
        ("board.resources.limits.memory=400000000", "board.memory: a board that keeps 256MiB needs 413 MiB"),
        ("keda.enabled=true,keda.min=5,keda.max=4", "max is below min"),
        ("networkPolicy=null", "networkPolicy.enabled: set it to true or false"),
        ("networkPolicy.enabled=null", "networkPolicy.enabled: set it to true or false"),
        ("sink.enabled=true", "sink.to: set the address"),
        ("sink.enabled=true,sink.to=ftp://a", "/sink/to"),
        ("sink.enabled=true,sink.to=s3://a,sink.claim=b", "sink.claim: a volume is for a folder"),
        (
            "gateway.enabled=true,gateway.tokens.secret=a,gateway.autoscaling.enabled=true,gateway.autoscaling.max=1",
            "max is below min",
        ),
    ],
)
def test_bad_values_are_refused_with_a_message(values, message):
    process = template("--set", values)
    assert process.returncode != 0
    assert message in process.stderr.replace("'/", "/").replace("at /", "/"), process.stderr


def test_a_token_of_a_command_needs_no_secret():
    variable = {"name": "HUBBUB_KAFKA_OAUTH_TOKEN_COMMAND", "value": "python /opt/iam/print_token.py"}
    process = template("--set", f"{WITH_TOKEN},kafka.tokenCommand={variable['value']}")
    each = [item for item in yaml.safe_load_all(process.stdout) if item and item["kind"] in ("Deployment", "Job")]
    specs = [item["spec"]["template"]["spec"] for item in each]
    assert len(specs) >= 3
    assert all(variable in container["env"] for container in chain.from_iterable(spec["containers"] for spec in specs))
    assert "OAUTH_TOKEN_FILE" not in process.stdout


def test_schema_and_table_match_the_comments(tmp_path):
    shutil.copytree(CHART.parent, tmp_path / "helm", symlinks=True)
    subprocess.run([sys.executable, tmp_path / "helm" / "values.py"], check=True, timeout=patience(60))
    for file in ("values.schema.json", "README.md"):
        assert (tmp_path / "helm" / "hubbub" / file).read_text() == (CHART / file).read_text(), "run `make chart`"
    values = tmp_path / "helm" / "hubbub" / "values.yaml"
    # A value without a comment has no line in the table, so nobody would know of it.
    values.write_text(values.read_text() + "unsaid: 1\n")
    process = subprocess.run(
        [sys.executable, tmp_path / "helm" / "values.py"], capture_output=True, text=True, check=False
    )
    assert "unsaid has no comment" in process.stderr


@pytest.mark.parametrize("name", EXAMPLES)
def test_pods_meet_the_restricted_standard(name):
    for component, pod in pods(name).items():
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] is (name == "upgrade" and component in ("topics", "resume"))
        assert spec["enableServiceLinks"] is False
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
        assert all(
            set(volume) - {"name"} <= {"emptyDir", "configMap", "secret", "projected", "persistentVolumeClaim"}
            for volume in spec["volumes"]
        )
        for container in spec["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["readOnlyRootFilesystem"] is True
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert {"requests", "limits"} <= set(container["resources"])


@pytest.fixture(scope="module")
def secrets():
    """Return the content of the example secrets, by the name of the mounted file."""
    authority = trustme.CA()
    certificate = authority.issue_cert("client.example")
    tokens = b'[tokens.phones]\nsha256 = ["' + b"0" * 64 + b'"]\nquota = 0\n'
    return {
        "password": b"secret",
        "token": b"0123456789abcdef",
        "ca.crt": authority.cert_pem.bytes(),
        "tls.crt": b"".join(blob.bytes() for blob in certificate.cert_chain_pems),
        "tls.key": certificate.private_key_pem.bytes(),
        "tokens.toml": tokens,
    }


def mounted_files(name, spec, container, secrets):
    """Return the files of a container, from its volumes."""
    maps = of_kind(name, "ConfigMap")
    files = {}
    for mount in container["volumeMounts"]:
        volume = next(volume for volume in spec["volumes"] if volume["name"] == mount["name"])
        if "configMap" in volume:
            data = maps.get(volume["configMap"]["name"].removeprefix("crowd-hubbub-"), {}).get("data")
            # Without queries of its own, an example mounts a map that the operator makes.
            data = data or {"hubbub.toml": (ROOT / "deploy" / "hubbub.toml").read_text()}
            files |= {f"{mount['mountPath']}/{file}": content.encode() for file, content in data.items()}
        sources = [volume["secret"]] if "secret" in volume else []
        sources += [source["secret"] for source in volume.get("projected", {}).get("sources", [])]
        for item in (item for item in chain.from_iterable(source["items"] for source in sources)):
            files[f"{mount['mountPath']}/{item['path']}"] = secrets[item["path"]]
    return files


def value_of(variable):
    """Return the value of a variable of the environment, which may be a field of the pod."""
    if "value" in variable:
        return variable["value"]
    return {"metadata.name": "hubbub-worker-5d9f7c-x2x4k"}[variable["valueFrom"]["fieldRef"]["fieldPath"]]


def containers():
    """Yield each container of the examples once. Skip containers with equal commands and environments."""
    # Starting a command takes a second, and most examples have equal containers.
    distinct = set()
    for name in EXAMPLES:
        for component, pod in pods(name).items():
            for container in pod["spec"]["containers"]:
                key = json.dumps([container.get(field) for field in ("command", "args", "env")])
                if "command" not in container and key not in distinct:
                    distinct.add(key)
                    yield pytest.param(name, component, container["name"], id=f"{name}-{component}-{container['name']}")


def pytest_generate_tests(metafunc):
    """List the containers only when the tests run, as they may have to download helm."""
    if "container_name" in metafunc.fixturenames:
        metafunc.parametrize(("example_name", "component", "container_name"), list(containers()))


def test_hubbub_accepts_the_configuration_of_a_container(example_name, component, container_name, secrets, tmp_path):
    spec = pods(example_name)[component]["spec"]
    container = next(container for container in spec["containers"] if container["name"] == container_name)
    environment = {variable["name"]: value_of(variable) for variable in container.get("env", [])}
    files = mounted_files(example_name, spec, container, secrets)
    assert refusal(Container(component, container["args"], environment, files), tmp_path) is None


def test_ports_are_the_defaults_of_the_commands():
    ports = {
        (component, port["containerPort"])
        for name in EXAMPLES
        for component, pod in pods(name).items()
        for container in pod["spec"]["containers"]
        for port in container.get("ports", [])
        if port["name"] == "http" and component != "sink"  # it has no port unless it is told one
    }
    assert len(ports) == 3
    for component, port in ports:
        help_text = help_of(component)
        if component != "gateway" or help_text:  # the gateway may not be installed
            assert re.search(rf"\b{port}\b", help_text)


def test_workers_restart_when_the_queries_change():
    def checksum(*values):
        process = template(*example("minimal"), *values)
        worker = next(
            d
            for d in documents(process.stdout)
            if d["kind"] == "Deployment" and d["metadata"]["name"].endswith("worker")
        )
        return worker["spec"]["template"]["metadata"]["annotations"]["checksum/queries"]

    usual = checksum()
    assert checksum() == usual
    assert checksum("--set-string", "queries.file=[queries.a]\ndomain = 4\nepsilon = 1.0\npane = '10s'") != usual
    assert checksum("--set-string", r"queries.more.a\.txt=a") != usual
    assert checksum("--set", "worker.replicas=3") == usual


def test_topics_are_created_first_and_retried_only_if_that_can_help():
    job = of_kind("everything", "Job")["topics"]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == HOOKS
    first_rule = job["spec"]["podFailurePolicy"]["rules"][0]
    assert first_rule == {
        "action": "FailJob",
        "onExitCodes": {"containerName": "topics", "operator": "In", "values": [2, 4]},
    }
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    # The job runs before the other objects of the release exist.
    spec = job["spec"]["template"]["spec"]
    assert "serviceAccountName" not in spec
    hooks = {
        document["metadata"]["name"]
        for document in of_kind("everything", "ConfigMap").values()
        if document["metadata"].get("annotations", {}).get("helm.sh/hook") == HOOKS
    }
    assert {volume["configMap"]["name"] for volume in spec["volumes"] if "configMap" in volume} <= hooks
    assert "--partitions=24" in spec["containers"][0]["args"]
    assert "--replication=3" in spec["containers"][0]["args"]
    assert not of_kind("workers", "Job")


def environment(pod):
    return {variable["name"]: variable.get("value") for variable in pod["spec"]["containers"][0]["env"]}


def test_the_topics_job_raises_the_formats_version_and_says_how_to_stop_the_workers():
    for name, hint in (
        ("minimal", "kubectl --namespace counting scale deployment/crowd-hubbub-worker --replicas=0"),
        ("everything", "scaledobject/crowd-hubbub-worker autoscaling.keda.sh/paused-replicas=0 --overwrite"),
    ):
        job = pods(name)["topics"]
        assert "--raise-formats" in job["spec"]["containers"][0]["args"]
        assert hint in environment(job)["HUBBUB_STOP_HINT"]
        assert "HUBBUB_STOP_WORKERS" not in environment(job)
        assert not of_kind(name, "Role")


def test_the_topics_job_stops_the_workers_by_an_account_that_may_only_scale_them():
    stop = "python /opt/upgrade/workers.py counting crowd-hubbub-worker --keda stop"
    job = pods("upgrade")["topics"]["spec"]
    assert environment({"spec": job})["HUBBUB_STOP_WORKERS"] == stop
    assert job["serviceAccountName"] == "crowd-hubbub-upgrade"
    role = of_kind("upgrade", "Role")["upgrade"]
    assert {(rule["resources"][0], *rule["resourceNames"], *rule["verbs"]) for rule in role["rules"]} == {
        ("deployments/scale", "crowd-hubbub-worker", "patch"),
        ("scaledobjects", "crowd-hubbub-worker", "patch"),
    }
    mounts = [mount["mountPath"] for mount in job["containers"][0]["volumeMounts"]]
    assert "/opt/upgrade" in mounts
    for kind in ("ServiceAccount", "Role", "RoleBinding", "ConfigMap"):
        annotations = of_kind("upgrade", kind)["upgrade"]["metadata"]["annotations"]
        assert annotations["helm.sh/hook"] == f"{HOOKS},post-upgrade,post-rollback"
        assert annotations["helm.sh/hook-weight"] == "-2"
    resume = of_kind("upgrade", "Job")["resume"]
    assert resume["metadata"]["annotations"]["helm.sh/hook"] == "post-upgrade,post-rollback"
    command = pods("upgrade")["resume"]["spec"]["containers"][0]["command"]
    assert command == stop.replace("--keda stop", "--keda resume").split()


class Api(http.server.BaseHTTPRequestHandler):
    """An API that notes each request, and answers 404 for what does not exist and 403 for what is forbidden."""

    def do_PATCH(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, self.headers["Authorization"], body))
        is_absent = "/deployments/gone/" in self.path
        is_secret = "/deployments/mine/" in self.path
        self.send_response(404 if is_absent else 403 if is_secret else 200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


@pytest.fixture
def api(tmp_path):
    """A server with TLS, and the environment of a pod that has its token and certificate."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    (tmp_path / "token").write_text("a-token\n")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Api)
    server.requests = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    address = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(server.server_port)}
    server.environment = {**os.environ, **address, "SERVICE_ACCOUNT": str(tmp_path)}
    with server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def stop_script(api, *arguments):
    script = CHART / "files" / "upgrade" / "workers.py"
    command = [sys.executable, script, "here", *arguments]
    return subprocess.run(
        command, env=api.environment, capture_output=True, text=True, check=False, timeout=patience(60)
    )


def test_the_script_pauses_keda_then_scales_to_0_and_resumes_keda(api):
    scale = "/apis/apps/v1/namespaces/here/deployments/there/scale"
    keda = "/apis/keda.sh/v1alpha1/namespaces/here/scaledobjects/there"
    assert stop_script(api, "there", "stop").returncode == 0
    assert api.requests == [(scale, "Bearer a-token", {"spec": {"replicas": 0}})]
    api.requests.clear()
    assert stop_script(api, "there", "--keda", "stop").returncode == 0
    assert stop_script(api, "there", "--keda", "resume").returncode == 0
    assert [path for path, *_ in api.requests] == [keda, scale, keda]
    pauses = [body["metadata"]["annotations"] for path, _, body in api.requests if path == keda]
    assert pauses == [{PAUSE_KEY: "0"}, {PAUSE_KEY: None}]


def test_the_script_accepts_missing_workers_and_reports_a_refusal(api):
    assert stop_script(api, "gone", "stop").returncode == 0
    refusal = stop_script(api, "mine", "stop")
    assert refusal.returncode == 1
    assert "/deployments/mine/scale: 403" in refusal.stderr


def test_one_worker_stops_at_a_time_and_autoscalers_set_the_replicas():
    worker = of_kind("minimal", "Deployment")["worker"]["spec"]
    assert worker["replicas"] == 2
    assert worker["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    assert of_kind("upgrade", "Deployment")["worker"]["spec"]["strategy"] == {"type": "Recreate"}
    deployments = of_kind("everything", "Deployment")
    assert "replicas" not in deployments["worker"]["spec"]
    assert "replicas" not in deployments["gateway"]["spec"]
    assert of_kind("everything", "ScaledObject")["worker"]["spec"]["scaleTargetRef"]["name"] == "crowd-hubbub-worker"
    assert (
        of_kind("everything", "HorizontalPodAutoscaler")["gateway"]["spec"]["scaleTargetRef"]["name"]
        == "crowd-hubbub-gateway"
    )


def deployment_of_worker(*options):
    process = template(*options)
    assert process.returncode == 0, process.stderr
    matches = [item for item in documents(process.stdout) if item["kind"] == "Deployment"]
    return next(item for item in matches if item["metadata"]["name"].endswith("-worker"))


def test_a_change_of_the_query_file_restarts_one_after_another():
    text = '[queries.page]\ndomain = 4\nepsilon = 1.0\npane = "%ss"\n'
    first, second = (deployment_of_worker("--set", f"queries.file={text % seconds}")["spec"] for seconds in (5, 10))
    # Kubernetes replaces the pods if their template differs, and one at a time, each after its successor is ready.
    assert first["template"]["metadata"]["annotations"] != second["template"]["metadata"]["annotations"]
    assert first["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    assert first["minReadySeconds"] > 0
    assert "readinessProbe" in first["template"]["spec"]["containers"][0]


def test_a_board_may_have_a_limit_in_any_form_that_is_large_enough():
    for limit in ("1Gi", "0.5Gi", "434M", "434000000", "1e9"):
        process = template("--set", f"board.resources.limits.memory={limit}")
        assert process.returncode == 0, process.stderr
    assert template("--set", "board.resources.limits=null,board.memory=1GiB").returncode == 0


def test_a_budget_lets_waiting_pods_go_and_can_be_switched_off():
    budgets = of_kind("everything", "PodDisruptionBudget")
    assert budgets.keys() == {"worker", "gateway"}
    assert {budget["spec"]["unhealthyPodEvictionPolicy"] for budget in budgets.values()} == {"AlwaysAllow"}
    process = template("--set", "worker.disruptionBudget=false")
    assert process.returncode == 0
    assert "PodDisruptionBudget" not in process.stdout


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_selector_selects_the_pods_of_one_command(name):
    labels = {component: pod["metadata"]["labels"] for component, pod in pods(name).items()}

    def components(selector):
        return {component for component, pairs in labels.items() if selector.items() <= pairs.items()}

    for document in rendered(name):
        spec = document.get("spec", {})
        kind = document["kind"]
        selector = spec.get("podSelector") or spec.get("selector")
        if selector and kind != "Pod":
            suffix = document["metadata"]["name"].removesuffix("-health").rsplit("-", 1)[-1]
            assert components(selector.get("matchLabels", selector)) == {suffix}, kind


PUBLIC = ("gateway", "board")


@pytest.mark.parametrize("name", EXAMPLES)
def test_health_of_commands_that_strangers_reach_has_a_port_of_its_own(name):
    """Probes, monitors and rules use it. The services and ingresses for strangers do not have it."""
    for component, deployment in of_kind(name, "Deployment").items():
        [container] = deployment["spec"]["template"]["spec"]["containers"]
        numbers = {port["name"]: port["containerPort"] for port in container["ports"]}
        environment = {variable["name"]: variable.get("value") for variable in container["env"]}
        own = "health" if component in PUBLIC else "http"
        assert set(numbers) == {"http", own}
        assert environment.get("HUBBUB_HEALTH_PORT") == (str(numbers["health"]) if component in PUBLIC else None)
        for probe in ("readinessProbe", "livenessProbe"):
            if probe in container:
                assert container[probe]["httpGet"]["port"] == own
                assert container[probe]["httpGet"].get("scheme", "HTTP") == "HTTP"
        services = of_kind(name, "Service")
        if component in PUBLIC:
            assert services[component]["spec"]["ports"] == [
                {"name": "http", "port": numbers["http"], "targetPort": "http"}
            ]
            assert services[f"{component}-health"]["spec"].get("type", "ClusterIP") == "ClusterIP"
            assert services[f"{component}-health"]["spec"]["ports"] == [
                {"name": "health", "port": numbers["health"], "targetPort": "health"}
            ]
        for kind, key in (("PodMonitor", "podMetricsEndpoints"), ("ServiceMonitor", "endpoints")):
            for endpoint in of_kind(name, kind).get(component, {"spec": {key: []}})["spec"][key]:
                assert endpoint["port"] == own
                assert "scheme" not in endpoint
    ingresses = of_kind(name, "Ingress").values()
    backends = [path["backend"] for ingress in ingresses for path in ingress["spec"]["rules"][0]["http"]["paths"]]
    assert all(backend["service"]["port"] == {"name": "http"} for backend in backends)


def test_only_the_peers_of_metrics_reach_health_and_only_clients_reach_the_other_port():
    policies = of_kind("everything", "NetworkPolicy")
    assert "ingress" not in policies.pop("topics")["spec"]  # nobody reaches the job
    for component, policy in policies.items():
        by_port = {rule["ports"][0]["port"]: rule.get("from") for rule in policy["spec"]["ingress"]}
        monitoring = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
        ingress = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}]
        if component == "worker":
            assert by_port == {"http": monitoring}
        else:
            assert by_port == {"health": monitoring, "http": ingress if component == "gateway" else None}


def test_the_test_of_a_release_asks_the_services_of_health():
    ready = pods("everything")["test"]["spec"]["containers"][1]
    ports = {name: service["spec"]["ports"][0]["port"] for name, service in of_kind("everything", "Service").items()}
    assert ready["args"] == [
        f"http://crowd-hubbub-{name}:{ports[name]}/readyz" for name in ("board-health", "gateway-health")
    ]


def test_limits_of_connections_are_passed_on():
    environment = {
        component: {variable["name"]: variable.get("value") for variable in pod["spec"]["containers"][0]["env"]}
        for component, pod in pods("everything").items()
    }
    assert environment["gateway"]["HUBBUB_GATEWAY_CONNECTIONS_EACH"] == "200"
    assert environment["board"]["HUBBUB_BOARD_CONNECTIONS_EACH"] == "100"
    assert environment["board"]["HUBBUB_BOARD_TRUSTED_PROXIES"] == "10.0.0.0/8"
    assert not {name for pod in pods("minimal").values() for name in str(pod).split("'") if name.endswith("_EACH")}


def test_an_ingress_serves_reports_and_the_board_but_no_gateway_metrics():
    gateway, board = (of_kind("everything", "Ingress")[name]["spec"] for name in ("gateway", "board"))
    assert [path["path"] for path in gateway["rules"][0]["http"]["paths"]] == ["/v1"]
    assert [path["path"] for path in board["rules"][0]["http"]["paths"]] == ["/"]
    assert gateway["tls"] == [{"hosts": ["reports.example"], "secretName": "reports-tls"}]


def test_network_policies_name_the_ports_of_kafka():
    policies = of_kind("everything", "NetworkPolicy")
    assert set(policies) == {"worker", "gateway", "board", "topics"}
    for policy in policies.values():
        ports = [port["port"] for port in chain.from_iterable(rule["ports"] for rule in policy["spec"]["egress"])]
        assert ports == [53, 53, 9093, 9092, 9094]
    assert len(policies["worker"]["spec"]["ingress"]) == 1


def relabelings(component):
    """Return the labels of a monitor. The operator adds `namespace`."""
    return [
        {"targetLabel": "job", "replacement": f"hubbub-{component}"},
        {"targetLabel": "release", "replacement": RELEASE},
    ]


def test_monitors_and_rules_use_the_same_job_names():
    for name, monitor in of_kind("everything", "PodMonitor").items():
        endpoint = monitor["spec"]["podMetricsEndpoints"][0]
        assert endpoint["relabelings"] == [*relabelings(name), {"targetLabel": "cluster", "replacement": "east"}]
        assert (endpoint["interval"], endpoint["scrapeTimeout"]) == ("10s", "5s")
        [sample_rule] = endpoint["metricRelabelings"]
        assert sample_rule["action"] == "drop"


def test_monitors_of_services_find_the_port_of_each_command():
    monitors = of_kind("token", "ServiceMonitor")
    services = of_kind("token", "Service")
    assert set(monitors) == {"worker", "board"}
    for name, monitor in monitors.items():
        endpoint = monitor["spec"]["endpoints"][0]
        assert endpoint["relabelings"] == relabelings(name)
        service = services["board-health" if name == "board" else name]
        labels = service["metadata"]["labels"]
        assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
        assert [port["name"] for port in service["spec"]["ports"]] == [endpoint["port"]]
        selector = service["spec"]["selector"]
        assert selector.items() <= pods("token")[name]["metadata"]["labels"].items()


def test_rules_and_dashboards_are_copies_of_deploy():
    rules = of_kind("everything", "PrometheusRule")
    dashboards = of_kind("everything", "ConfigMap")
    base = "https://docs.example/runbooks"
    for path in (ROOT / "deploy" / "prometheus").glob("*.rules.yaml"):
        text = path.read_text().replace("{{ $externalLabels.runbooks }}", base)
        assert rules[path.name.removesuffix(".rules.yaml")]["spec"] == yaml.safe_load(text)
    for path in (ROOT / "deploy" / "grafana").glob("*.json"):
        text = path.read_text().replace("http://127.0.0.1:8803/runbooks", base)
        assert base in text
        assert json.loads(dashboards[f"dashboard-{path.stem}"]["data"][path.name]) == json.loads(text)


def values_of(*settings):
    """Return the documents of the shortest configuration with some settings."""
    process = template(*example("minimal"), *(part for setting in settings for part in ("--set", setting)))
    assert process.returncode == 0, process.stderr
    return documents(process.stdout)


@pytest.mark.parametrize(
    ("settings", "base"),
    [
        ((), "http://crowd-hubbub-board.counting.svc:8803/runbooks"),
        (
            ("board.ingress.enabled=true", "board.ingress.host=a.example", "board.token.secret=a"),
            "http://a.example/runbooks",
        ),
        (("monitoring.rules.runbooks=https://wiki.example/hubbub",), "https://wiki.example/hubbub"),
    ],
)
def test_runbooks_have_a_real_address(settings, base):
    rules = [d for d in values_of("monitoring.rules.enabled=true", *settings) if d["kind"] == "PrometheusRule"]
    urls = re.findall(r"'runbook_url': '([^']*)'", str(rules))
    assert f"{base}/HubbubNoWorker.md" in urls
    assert all(re.fullmatch(re.escape(base) + r"/Hubbub\w+\.md", url) for url in urls)


def test_monitors_show_the_token_to_the_board_only():
    for example_name, kind, key in (
        ("everything", "PodMonitor", "podMetricsEndpoints"),
        ("secured", "PodMonitor", "podMetricsEndpoints"),
    ):
        secret = {"everything": {"name": "board", "key": "token"}, "secured": {"name": "board", "key": "password"}}
        for component, monitor in of_kind(example_name, kind).items():
            [endpoint] = monitor["spec"][key]
            expected = {"credentials": secret[example_name]} if component == "board" else None
            assert endpoint.get("authorization") == expected
    for monitor in of_kind("token", "ServiceMonitor").values():  # this board has no token
        assert "authorization" not in monitor["spec"]["endpoints"][0]


def test_the_expected_numbers_are_those_of_the_values():
    def numbers(documents):
        [rule] = [d for d in documents if d["kind"] == "PrometheusRule" and d["metadata"]["name"].endswith("-expected")]
        rules = rule["spec"]["groups"][0]["rules"]
        assert all(rule["labels"]["namespace"] == "counting" for rule in rules)
        assert all(rule["labels"]["release"] == "crowd" for rule in rules)
        began, *remaining_rules = rules
        assert began["record"] == "hubbub:watch:began"
        assert began["expr"] == "vector(1)"
        assert {item["record"] for item in remaining_rules} == {"hubbub:processes:configured"}
        later_offset = ' and on () hubbub:watch:began{namespace="counting", release="crowd"} offset 5m'
        assert all(item["expr"].endswith(later_offset) for item in remaining_rules)
        return {item["labels"]["job"]: item["expr"].removesuffix(later_offset) for item in remaining_rules}

    least = {"hubbub-worker": "vector(2)", "hubbub-gateway": "vector(3)", "hubbub-board": "vector(2)"}
    assert numbers(rendered("everything")) == least  # the least numbers of the autoscalers
    monitor = "monitoring.podMonitor.enabled=true"
    assert numbers(values_of(monitor, "worker.replicas=5", "board.enabled=false")) == {"hubbub-worker": "vector(5)"}


def test_peers_of_the_gateway_and_the_board_hold_without_peers_of_metrics():
    policy = {"gateway.enabled": "true", "gateway.tokens.secret": "a"}
    for name in ("gateway", "board"):
        policy[f"networkPolicy.{name}From[0].podSelector.matchLabels.app"] = name
    documents = values_of(*map("=".join, policy.items()))
    policies = {d["metadata"]["name"]: d["spec"] for d in documents if d["kind"] == "NetworkPolicy"}
    for name in ("gateway", "board"):
        peers = {rule["ports"][0]["port"]: rule.get("from") for rule in policies[f"crowd-hubbub-{name}"]["ingress"]}
        assert peers == {"health": [{"podSelector": {}}], "http": [{"podSelector": {"matchLabels": {"app": name}}}]}


def policies_of(*settings):
    documents = values_of("gateway.enabled=true", "gateway.tokens.secret=a", *settings)
    policies = [document for document in documents if document["kind"] == "NetworkPolicy"]
    return {policy["metadata"]["name"].rpartition("-")[2]: policy["spec"] for policy in policies}


NEIGHBOURS = [{"podSelector": {}}]
ROUTE = ("board.httpRoute.enabled=true", "board.httpRoute.parentRefs[0].name=a")


@pytest.mark.parametrize(
    ("settings", "board", "health"),
    [
        ((), NEIGHBOURS, NEIGHBOURS),
        (("board.ingress.enabled=true", "board.ingress.host=a.example"), None, NEIGHBOURS),
        (ROUTE, None, NEIGHBOURS),
        (("monitoring.podMonitor.enabled=true",), NEIGHBOURS, None),
        (("monitoring.serviceMonitor.enabled=true",), NEIGHBOURS, None),
    ],
)
def test_without_peers_the_board_and_health_are_for_the_namespace_unless_something_outside_needs_them(
    settings, board, health
):
    policies = policies_of(*settings)
    peers = {
        component: {rule["ports"][0]["port"]: rule.get("from") for rule in policy["ingress"]}
        for component, policy in policies.items()
        if component != "topics"
    }
    assert peers == {
        "worker": {"http": health},
        "gateway": {"health": health, "http": None},
        "board": {"health": health, "http": board},
    }
    assert all([rule["ports"][0]["port"] for rule in policy["egress"]] == [53, 9092] for policy in policies.values())


def test_a_command_for_tokens_may_ask_any_server():
    assert all(policy["spec"]["egress"] == [{}] for policy in of_kind("workers", "NetworkPolicy").values())


def test_the_opposites_of_the_defaults_are_said_in_words():
    kinds = [document["kind"] for document in values_of("networkPolicy.enabled=false", "board.open=true")]
    assert not {"NetworkPolicy", "Secret"} & set(kinds)


def test_the_chart_makes_a_token_for_the_board_and_mounts_it():
    [secret] = [document for document in values_of() if document["kind"] == "Secret"]
    assert len(base64.b64decode(secret["data"]["token"])) == 43
    volumes = pods("minimal")["board"]["spec"]["volumes"]
    assert secret["metadata"]["name"] in [volume["secret"]["secretName"] for volume in volumes if "secret" in volume]
    monitor = values_of("monitoring.podMonitor.enabled=true")
    assert {"name": secret["metadata"]["name"], "key": "token"} in [
        endpoint["authorization"]["credentials"]
        for document in monitor
        if document["kind"] == "PodMonitor"
        for endpoint in document["spec"]["podMetricsEndpoints"]
        if "authorization" in endpoint
    ]


def sink_of(name):
    """Return the Deployment of the sink in an example, its container, and the values of its variables."""
    deployment = of_kind(name, "Deployment")["sink"]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    return deployment, container, {variable["name"]: variable.get("value") for variable in container["env"]}


@pytest.mark.parametrize("name", ["sink", "folder"])
def test_there_is_one_sink_and_it_ends_before_the_next_one_starts(name):
    deployment, container, environment = sink_of(name)
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    assert "livenessProbe" not in container
    assert environment["HUBBUB_PORT"] == str(container["ports"][0]["containerPort"])
    places = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert environment["HUBBUB_SINK_SPOOL"] in places
    [expected] = [document for document in rendered(name) if document["kind"] == "PrometheusRule"]
    numbers = expected["spec"]["groups"][0]["rules"]
    assert [rule["expr"][:9] for rule in numbers if rule["labels"].get("job") == "hubbub-sink"] == ["vector(1)"]


def test_a_sink_reaches_its_store_with_the_variables_of_a_secret():
    _, container, environment = sink_of("sink")
    assert container["envFrom"] == [{"secretRef": {"name": "store-login"}}]
    assert environment["HUBBUB_SINK_TO"] == "s3://estimates/crowd"
    assert environment["HUBBUB_SINK_QUERY"] == "homepage,crashes"
    assert environment["HUBBUB_SINK_KEEP"] == "400d"
    policies = of_kind("sink", "NetworkPolicy")
    rules = policies.pop("sink")["spec"]["egress"]
    store = {"ports": [{"protocol": "TCP", "port": 9000}], "to": [{"podSelector": {"matchLabels": {"app": "store"}}}]}
    assert rules[-1] == store
    assert all(store not in policy["spec"]["egress"] for policy in policies.values())


def test_a_sink_of_a_folder_mounts_the_claim_and_reaches_no_store():
    deployment, container, environment = sink_of("folder")
    volumes = {volume["name"]: volume for volume in deployment["spec"]["template"]["spec"]["volumes"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert volumes["estimates"]["persistentVolumeClaim"] == {"claimName": "estimates"}
    assert environment["HUBBUB_SINK_TO"].startswith(f"{mounts['estimates']}/")
    ports = [rule["ports"][0]["port"] for rule in of_kind("folder", "NetworkPolicy")["sink"]["spec"]["egress"]]
    assert 443 not in ports


def test_the_policy_of_the_topics_job_exists_before_the_job():
    policy = of_kind("everything", "NetworkPolicy")["topics"]
    job = of_kind("everything", "Job")["topics"]
    notes = policy["metadata"]["annotations"]
    assert notes["helm.sh/hook"] == job["metadata"]["annotations"]["helm.sh/hook"] == HOOKS
    assert int(notes["helm.sh/hook-weight"]) < int(job["metadata"]["annotations"].get("helm.sh/hook-weight", 0))
    labels = job["spec"]["template"]["metadata"]["labels"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()


def test_a_parent_chart_can_switch_hubbub_off(tmp_path):
    parent = tmp_path / "parent"
    (parent / "charts").mkdir(parents=True)
    shutil.copytree(CHART, parent / "charts" / "hubbub")
    dependency = {"name": "hubbub", "version": "*", "condition": "hubbub.enabled"}
    chart = {"apiVersion": "v2", "name": "parent", "version": "1.0.0", "dependencies": [dependency]}
    (parent / "Chart.yaml").write_text(yaml.safe_dump(chart))
    for value, kinds in (("true", True), ("false", False)):
        process = template("--set", f"hubbub.enabled={value}", chart=parent)
        assert process.returncode == 0, process.stderr
        assert bool(documents(process.stdout)) == kinds
    assert values_of("enabled=false") == ()


def test_no_pod_has_a_fixed_user_and_its_secrets_are_readable_anyway():
    """A platform such as OpenShift chooses the user of a pod."""
    for pod in pods("secured").values():
        assert not re.search(r"runAsUser|runAsGroup|fsGroup", str(pod))
        for volume in pod["spec"]["volumes"]:
            source = volume.get("secret") or volume.get("projected")
            if source:
                assert source["defaultMode"] == 0o444
    pod = next(iter(pods("everything").values()))
    assert pod["spec"]["securityContext"]["fsGroup"] == 10001


def test_values_reach_the_pods():
    everything = pods("everything")
    for pod in everything.values():
        [*images] = [container["image"] for container in pod["spec"]["containers"]]
        assert all(re.fullmatch(r"registry.example/hubbub:0.3.0@sha256:[0-9a-f]{64}", image) for image in images)
    worker = everything["worker"]
    job = everything["topics"]
    assert worker["metadata"]["labels"]["example.com/cost"] == "counting"
    assert worker["spec"]["priorityClassName"] == "counting"
    container = worker["spec"]["containers"][0]
    assert container["envFrom"] == [{"secretRef": {"name": "proxies", "optional": True}}]
    assert container["lifecycle"] == {"preStop": {"sleep": {"seconds": 1}}}
    assert {"name": "authorities", "configMap": {"name": "authorities"}} in worker["spec"]["volumes"]
    assert container["volumeMounts"][-1]["mountPath"] == "/etc/ssl/certs"
    assert job["metadata"]["labels"]["example.com/team"] == "crowd"
    assert job["spec"]["containers"][0]["envFrom"] == [{"configMapRef": {"name": "proxies"}}]
    assert {d["metadata"]["name"].rpartition("-")[0] for d in rendered("workers") if d["kind"] == "Deployment"} == {
        "counting"
    }


def test_common_labels_and_annotations_are_on_all_objects():
    for document in rendered("everything"):
        metadata = document["metadata"]
        assert metadata["labels"]["example.com/owner"] == "statistics", document["kind"]
        assert metadata["annotations"]["example.com/contact"] == "statistics@example.com", document["kind"]
    for deployment in of_kind("everything", "Deployment").values():
        pod = deployment["spec"]["template"]
        assert pod["metadata"]["labels"]["example.com/owner"] == "statistics"
        assert "example.com/contact" not in (pod["metadata"].get("annotations") or {})
    # The annotations of an object stay, those of hooks above all.
    deployments = of_kind("everything", "Deployment")
    assert deployments["worker"]["metadata"]["annotations"]["reloader.stakater.com/auto"] == "true"
    assert of_kind("everything", "Job")["topics"]["metadata"]["annotations"]["helm.sh/hook"] == HOOKS


def test_a_common_label_replaces_none_of_the_chart():
    process = template("--set", r"commonLabels.app\.kubernetes\.io/component=x,commonLabels.team=y")
    worker = next(item for item in yaml.safe_load_all(process.stdout) if item and item["kind"] == "Deployment")
    labels = worker["spec"]["template"]["metadata"]["labels"]
    assert worker["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert labels["team"] == "y"
    assert "x" not in labels.values()


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ("nameOverride=crowds", "crowd-crowds-worker"),
        ("nameOverride=crow", "crowd-worker"),
        ("fullnameOverride=a,nameOverride=crowds", "a-worker"),
        ("log.level=info", "crowd-hubbub-worker"),
    ],
)
def test_a_name_of_the_chart_is_part_of_the_names(settings, name):
    items = [item for item in yaml.safe_load_all(template("--set", settings).stdout) if item]
    assert name in {item["metadata"]["name"] for item in items}
    own_name = (
        "crow" if settings == "nameOverride=crow" else "crowds" if "nameOverride=crowds" in settings else "hubbub"
    )
    assert {item["metadata"]["labels"]["app.kubernetes.io/name"] for item in items} == {own_name}


def test_a_registry_of_a_parent_chart_precedes_the_repository():
    process = template("--set", "global.imageRegistry=registry.example:5000/team,global.storageClass=fast")
    assert "image: registry.example:5000/team/hubbub:" in process.stdout
    assert "image: hubbub:" not in process.stdout


def test_containers_probes_and_spread_of_the_values_reach_the_pods():
    everything = pods("everything")
    spec = everything["worker"]["spec"]
    assert [row["topologyKey"] for row in spec["topologySpreadConstraints"]] == ["example.com/rack"]
    readiness = spec["containers"][0]["readinessProbe"]
    assert readiness == {
        "httpGet": {"path": "/readyz", "port": "http"},
        "periodSeconds": 10,
        "timeoutSeconds": 3,
        "failureThreshold": 5,
    }
    assert "livenessProbe" not in spec["containers"][0], "the watchdog of a worker ends it"
    gateway = everything["gateway"]["spec"]
    assert gateway["containers"][0]["livenessProbe"]["initialDelaySeconds"] == 60
    assert gateway["containers"][0]["livenessProbe"]["failureThreshold"] == 6
    assert [row["topologyKey"] for row in gateway["topologySpreadConstraints"]] == [
        "topology.kubernetes.io/zone",
        "kubernetes.io/hostname",
    ]


@pytest.mark.parametrize("component", ["worker", "gateway", "board"])
def test_a_pod_may_have_more_containers(component):
    first, beside = ({"name": name, "image": f"registry.example/{name}:1"} for name in ("wait", "proxy"))
    lists = json.dumps({"initContainers": [first], "extraContainers": [beside]})
    process = template("--set", "gateway.enabled=true,gateway.tokens.secret=s", "--set-json", f"{component}={lists}")
    specs = {
        item["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"]: item["spec"]["template"]["spec"]
        for item in yaml.safe_load_all(process.stdout)
        if item and item["kind"] == "Deployment"
    }
    spec = specs.pop(component)
    assert spec["initContainers"] == [first]
    assert [container["name"] for container in spec["containers"]] == [component, "proxy"]
    assert spec["containers"][1] == beside
    assert all("initContainers" not in other and len(other["containers"]) == 1 for other in specs.values())


def test_the_request_of_a_probe_is_fixed():
    process = template("--set", "worker.readinessProbe.httpGet.path=/,worker.readinessProbe.periodSeconds=7")
    deployments = [item for item in yaml.safe_load_all(process.stdout) if item and item["kind"] == "Deployment"]
    probes = [deployment["spec"]["template"]["spec"]["containers"][0]["readinessProbe"] for deployment in deployments]
    assert {probe["httpGet"]["path"] for probe in probes} == {"/readyz"}
    assert 7 in [probe["periodSeconds"] for probe in probes]


def test_routes_serve_reports_and_the_board():
    gateway, board = (of_kind("everything", "HTTPRoute")[name]["spec"] for name in ("gateway", "board"))
    assert gateway["parentRefs"] == [{"name": "outside", "namespace": "ingress"}]
    assert gateway["hostnames"] == ["reports.example"]
    services = of_kind("everything", "Service")
    for name, route, path in (("gateway", gateway, "/v1"), ("board", board, "/")):
        [rule] = route["rules"]
        assert rule["matches"] == [{"path": {"type": "PathPrefix", "value": path}}]
        [service] = rule["backendRefs"]
        assert service == {"name": f"crowd-hubbub-{name}", "port": services[name]["spec"]["ports"][0]["port"]}


def test_a_pod_that_strangers_reach_pauses_before_it_stops():
    """Proxies learn meanwhile that it leaves (test_gateway_roll.py). The pause is a part of the grace period."""
    for name in ("gateway", "board"):
        spec = pods("secured")[name]["spec"]
        pause = spec["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
        assert 5 <= pause <= spec["terminationGracePeriodSeconds"] - 20


def test_a_package_contains_only_the_files_of_the_chart(tmp_path):
    process = helm("package", CHART, "-d", tmp_path)
    assert process.returncode == 0, process.stderr
    package = next(tmp_path.glob("hubbub-*.tgz"))
    files = subprocess.run(["tar", "tzf", package], capture_output=True, text=True, check=True).stdout.split()
    copies = r"(upgrade/workers\.py|prometheus/\w+\.rules\.yaml|grafana/[\w-]+\.json)"
    pattern = (
        r"hubbub/(Chart.yaml|values.yaml|values.schema.json|README.md|\.helmignore|templates/.*|files/" + copies + ")"
    )
    assert [file for file in files if not re.fullmatch(pattern, file)] == []
    repeated_documents = template(*example("everything"), chart=package)
    assert documents(repeated_documents.stdout) == rendered("everything")


def test_notes_name_the_board_and_warn_about_tls():
    process = helm("install", "crowd", CHART, "--dry-run=client", "--namespace", "counting")
    assert process.returncode == 0, process.stderr
    notes = process.stdout.split("NOTES:")[1]
    assert "port-forward service/crowd-hubbub-board 8803" in notes
    assert "without TLS" in notes


def test_notes_remind_of_the_networks_of_an_ingress():
    board = "board.ingress.enabled=true,board.ingress.host=a.example,board.token.secret=a"
    for proxies, count in (("", 1), (",board.trustedProxies={10.0.0.0/8}", 0)):
        process = helm("install", "crowd", CHART, "--dry-run=client", "--set", board + proxies)
        assert process.returncode == 0, process.stderr
        assert process.stdout.split("NOTES:")[1].count("board.trustedProxies") == count


def test_chart_and_project_have_the_same_version():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    version = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[1]
    assert chart["version"] == chart["appVersion"] == version
