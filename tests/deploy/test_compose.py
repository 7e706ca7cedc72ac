"""deploy/compose.yaml fits its specification, and hubbub accepts each container. No engine runs here."""

import asyncio
import base64
import json
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import jsonschema
import pytest
import yaml

from aggregator.topics.command import ensure
from tests.brokers import Cluster, Unavailable, skip
from tests.deploy.compose import COMPOSE, DEPLOY, SERVICES, file_of, kafka_properties, make_secrets
from tests.deploy.containers import ROOT, Container, help_of, refusal
from tests.slowness import patience

OURS = [name for name, service in SERVICES.items() if service["image"].startswith("hubbub:")]
OURS_IN_YAML = ("deploy/compose.yaml", "deploy/grafana/provisioning", "helm/hubbub/values.yaml", "helm/hubbub/ci")
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
BIN = Path(sys.executable).parent


def check(*command: str) -> None:
    process = subprocess.run(command, capture_output=True, text=True, timeout=patience(60), check=False, cwd=ROOT)
    assert process.returncode == 0, process.stdout + process.stderr


def secrets(folder: Path) -> dict[str, bytes]:
    """Return new secrets."""
    make_secrets(folder)
    return {name: (folder / "deploy" / secret["file"]).read_bytes() for name, secret in COMPOSE["secrets"].items()}


def container(name: str, secret_files: dict[str, bytes]) -> Container:
    service = SERVICES[name]
    files = {}
    for config in service.get("configs", []):
        files[config["target"]] = file_of(COMPOSE["configs"][config["source"]]["file"]).read_bytes()
    for secret in service.get("secrets", []):
        files[f"/run/secrets/{secret}"] = secret_files[secret]
    return Container(name, service["command"], service["environment"], files)


def test_compose_file_fits_the_specification():
    path = distribution("check-jsonschema").locate_file("check_jsonschema/builtin_schemas/vendor/compose-spec.json")
    schema = json.loads(path.read_text())
    jsonschema.Draft202012Validator(schema).validate(COMPOSE)
    wrong_file = {**COMPOSE, "services": {"kafka": {"image": "kafka", "restarts": "always"}}}
    with pytest.raises(jsonschema.ValidationError, match="restarts"):
        jsonschema.Draft202012Validator(schema).validate(wrong_file)


def test_yamllint_accepts_the_yaml_files():
    rules = {"line-length": {"max": 132}, "document-start": "disable", "comments": {"min-spaces-from-content": 1}}
    check(str(BIN / "yamllint"), "--strict", "-d", json.dumps({"extends": "default", "rules": rules}), *OURS_IN_YAML)


def test_compose_file_has_every_service():
    names = "kafka topics worker gateway board sink simulator prometheus alertmanager grafana"
    assert set(SERVICES) == set(names.split())
    assert SERVICES["worker"]["deploy"]["replicas"] == 2
    assert SERVICES["simulator"]["profiles"] == ["demo"]
    assert SERVICES["sink"]["profiles"] == ["sink"]


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_has_a_version_limits_and_a_health_check(name):
    service = SERVICES[name]
    digest = "" if name in OURS else "@sha256:[0-9a-f]{64}"
    assert re.fullmatch(rf"[a-z/]+:v?\d+\.\d+\.\d+{digest}", service["image"])
    assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory", "pids"}
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["read_only"] or name == "kafka"
    if name in OURS:  # the image has the health check; topics exits
        assert "test" not in service.get("healthcheck", {})
    else:
        assert service["healthcheck"]["test"][0] == "CMD"


def test_versions_are_the_ones_under_test():
    pom = (DEPLOY / "kafka" / "pom.xml").read_text()
    version = re.search("<kafka.version>(.*)</kafka.version>", pom)[1]
    assert SERVICES["kafka"]["image"].partition("@")[0] == f"apache/kafka:{version}"
    assert {SERVICES[name]["image"] for name in OURS} == {f"hubbub:{VERSION}"}


RULES = pytest.mark.skipif(not (DEPLOY / "prometheus" / "prometheus.yml").exists(), reason="there are no rules yet")


@RULES
def test_every_path_exists():
    for config in COMPOSE["configs"].values():
        assert file_of(config["file"]).is_file()
    for name in OURS:
        build = SERVICES[name]["build"]
        assert (DEPLOY / build["context"] / build["dockerfile"]).is_file()
    for service in SERVICES.values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in COMPOSE["volumes"] or (DEPLOY / source).exists(), source


def test_compose_file_contains_no_secret():
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            if re.search("TOKEN|PASSWORD|SECRET", name):
                assert name.endswith("_FILE"), name
                assert value.removeprefix("/run/secrets/") in service["secrets"]


def test_the_recipe_for_a_managed_kafka_fits_the_specification_and_the_commands(tmp_path):
    page = (ROOT / "docs" / "operating.md").read_text()
    recipe = yaml.safe_load(re.search(r"```text\n(x-login.*?)```", page, re.DOTALL)[1])
    path = distribution("check-jsonschema").locate_file("check_jsonschema/builtin_schemas/vendor/compose-spec.json")
    jsonschema.Draft202012Validator(json.loads(path.read_text())).validate(recipe)
    assert set(recipe["services"]) == set(OURS) - {"simulator", "sink"}
    board = Container("board", SERVICES["board"]["command"], recipe["services"]["board"]["environment"])
    assert refusal(board, tmp_path) is None
    broken = {**board.environment, "HUBBUB_KAFKA_OAUTH_TOKEN_COMMAND": "no-such-program"}
    assert "there is no program no-such-program" in refusal(Container("board", board.arguments, broken), tmp_path)


def test_services_without_login_are_on_the_inner_network_only():
    assert COMPOSE["networks"]["inside"]["internal"] is True
    for name, service in SERVICES.items():
        ports = service.get("ports", [])
        assert all(port.startswith("127.0.0.1:") for port in ports)
        # Alertmanager must reach its receivers, but nobody may reach it.
        assert bool(ports) == ("outside" in service["networks"] and name != "alertmanager"), name


def test_only_services_with_a_login_publish_a_port():
    """A web page of any site can read a port of this machine by a name that it points there."""
    published = {name for name, service in SERVICES.items() if service.get("ports")}
    assert published == {"gateway", "board", "grafana"}


@pytest.mark.parametrize("name", OURS)
def test_hubbub_accepts_the_configuration_of_a_container(name, tmp_path):
    (tmp_path / "host").mkdir()
    assert refusal(container(name, secrets(tmp_path / "host")), tmp_path) is None


def test_a_wrong_container_is_refused(tmp_path):
    for arguments, environment in (
        (["topics", "--partitions", "0"], {}),
        (["topics", "--shards", "12"], {}),
        (["topics"], {"HUBBUB_KAFKA": "kafka"}),
        (["topics"], {"HUBBUB_KAFKAS": "kafka:9092"}),
        (["topics"], {"HUBBUB_MAX_FRAME": "much"}),
        (["topics"], {"HUBBUB_KAFKA_SECURITY_PROTOCOL": "SASL_SSL"}),
        (["worker"], {"HUBBUB_QUERIES": "/etc/hubbub/missing.toml"}),
        (["count"], {}),
    ):
        assert refusal(Container("wrong", arguments, environment), tmp_path), arguments


@pytest.mark.parametrize("name", [name for name in OURS if SERVICES[name].get("ports")])
def test_a_published_port_is_the_default_of_its_command(name):
    help_text = help_of(name)
    if not help_text:
        pytest.skip(f"hubbub has no command {name}")
    for port in SERVICES[name]["ports"]:
        _, outside, inside = port.split(":")
        assert outside == inside
        assert re.search(rf"\b{inside}\b", help_text)


def test_the_topics_job_has_no_restart_policy_that_hides_its_exit_code():
    assert SERVICES["topics"]["entrypoint"] == ["hubbub"]
    for name in OURS:
        assert SERVICES[name]["restart"] == "on-failure"
        if name != "topics":
            assert SERVICES[name]["entrypoint"] == ["restart-policy"]
            assert SERVICES[name]["depends_on"] == {"topics": {"condition": "service_completed_successfully"}}


@RULES
def test_prometheus_shows_the_board_its_token():
    jobs = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    files = {job["job_name"]: job["authorization"]["credentials_file"] for job in jobs if "authorization" in job}
    assert files == {"hubbub-board": SERVICES["board"]["environment"]["HUBBUB_TOKEN_FILE"]}
    assert set(SERVICES["board"]["secrets"]) <= set(SERVICES["prometheus"]["secrets"])


@RULES
def test_the_expected_numbers_of_processes_are_those_of_compose():
    groups = yaml.safe_load((DEPLOY / "prometheus" / "expected.yaml").read_text())["groups"]
    numbers = {rule["labels"]["job"]: rule["expr"].split(" and ")[0] for rule in groups[0]["rules"][1:]}
    replicas = {name: SERVICES[name]["deploy"].get("replicas", 1) for name in ("worker", "gateway", "board")}
    assert numbers == {f"hubbub-{name}": f"vector({number})" for name, number in replicas.items()}
    assert {rule["labels"]["release"] for rule in groups[0]["rules"]} == {COMPOSE["name"]}


def test_a_process_has_time_to_stop():
    """The pages about operation say 30 s."""
    assert {SERVICES[name]["stop_grace_period"] for name in OURS} == {"30s"}


@RULES
def test_prometheus_scrapes_the_services_of_compose():
    jobs = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    scraped_ports = {
        name: source["port"] for job in jobs for source in job["dns_sd_configs"] for name in source["names"]
    }
    assert set(scraped_ports) == {"worker", "gateway", "board", "sink", "simulator"}
    for name, port in scraped_ports.items():
        own = SERVICES[name]["environment"].get("HUBBUB_HEALTH_PORT")
        assert bool(own) == (name in ("gateway", "board", "sink")), name
        if own:
            assert int(own) == port
            assert not any(service.endswith(f":{own}") for service in SERVICES[name].get("ports", []))
        elif help_text := help_of(SERVICES[name]["command"][0]):
            assert re.search(rf"\b{port}\b", help_text)


def test_grafana_reads_the_prometheus_of_compose():
    source = yaml.safe_load((DEPLOY / "grafana/provisioning/datasources/prometheus.yaml").read_text())["datasources"][0]
    assert source["url"] == "http://prometheus:9090"
    provider = yaml.safe_load((DEPLOY / "grafana/provisioning/dashboards/hubbub.yaml").read_text())["providers"][0]
    assert f"./grafana:{provider['options']['path']}:ro" in SERVICES["grafana"]["volumes"]


def test_git_ignores_the_secrets(tmp_path):
    shutil.copy(ROOT / ".gitignore", tmp_path)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    for secret in COMPOSE["secrets"].values():
        path = Path("deploy") / secret["file"]
        subprocess.run(["git", "check-ignore", "-q", str(path)], cwd=tmp_path, check=True)


class FromCompose(Cluster):
    """A broker with the settings that the Kafka image makes from its environment, and addresses of this machine."""

    def properties(self, number, node, voters):
        text = kafka_properties(SERVICES["kafka"]["environment"])
        text = text.replace("kafka:9092", node.bootstrap).replace("localhost:9093", f"127.0.0.1:{node.controller}")
        text = text.replace("//:9092", f"//{node.bootstrap}").replace("//:9093", f"//127.0.0.1:{node.controller}")
        return text.replace("/var/lib/kafka/data", "data")


def test_kafka_starts_with_these_settings():
    assert len(base64.urlsafe_b64decode(SERVICES["kafka"]["environment"]["CLUSTER_ID"] + "==")) == 16
    try:
        cluster = FromCompose()
    except Unavailable as error:
        skip(error)
    with cluster:
        lines = asyncio.run(ensure(cluster.kafka(), 12))
    assert all(line.startswith("created hubbub.") for line in lines)
