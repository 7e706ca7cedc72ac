"""A real Kubernetes API server with its etcd. It checks and stores documents, and runs no pods."""

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Self

from aggregator.demo.broker import free_port
from aggregator.demo.keeper import Keeper
from tests.brokers import Unavailable
from tests.deploy import charts
from tests.deploy.containers import ROOT
from tests.slowness import patience

PREBUILT = ROOT / "build" / "kubernetes"
START = 90.0
TOKEN = "tests-only"  # noqa: S105 - the server lives only as long as a test


def prebuilt(kind: str) -> Path:
    """Return a folder of tests/deploy/kubernetes.sh. `make test-k8s` runs the script, as it takes minutes."""
    folders = sorted(PREBUILT.glob(f"{kind}-*"))
    if not folders:
        raise Unavailable(f"no Kubernetes {kind} in build/kubernetes: run `make test-k8s`")
    return folders[-1]


class Kubernetes:
    """A pair of etcd and API server, on free ports of this machine."""

    def __init__(self) -> None:
        self.programs = prebuilt("server")
        self.etcd = Keeper("etcd")
        self.api = Keeper("kubernetes")
        self.port = free_port()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.api.close()
        self.etcd.close()

    def start(self) -> None:
        clients, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        addresses = ("--listen-client-urls", clients, "--advertise-client-urls", clients, "--listen-peer-urls", peers)
        command = (str(self.programs / "etcd"), "--data-dir", "data", *addresses, "--unsafe-no-fsync")
        self.etcd.run(command, self.etcd.folder / "log")
        folder = self.api.folder
        subprocess.run(["openssl", "genrsa", "-out", folder / "sa.key", "2048"], check=True, capture_output=True)
        (folder / "tokens.csv").write_text(f'{TOKEN},admin,1,"system:masters"\n')
        options = {
            "etcd-servers": clients,
            "secure-port": self.port,
            "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1",
            "cert-dir": "certificates",
            "service-account-issuer": "https://kubernetes.invalid",
            "service-account-key-file": "sa.key",
            "service-account-signing-key-file": "sa.key",
            "token-auth-file": "tokens.csv",
            "authorization-mode": "RBAC",
            "service-cluster-ip-range": "10.0.0.0/24",
            "disable-admission-plugins": "ServiceAccount",  # its controller does not run
        }
        command = (str(self.programs / "kube-apiserver"), *(f"--{name}={value}" for name, value in options.items()))
        self.api.run(command, folder / "log")
        self.config = folder / "config.json"
        self.config.write_text(json.dumps(self.access()))
        deadline = time.monotonic() + patience(START)
        while not self.ready():
            if not self.api.running or time.monotonic() > deadline:
                raise RuntimeError(f"the API server did not start: {(folder / 'log').read_text()[-2000:]}")
            time.sleep(0.2)

    def ready(self) -> bool:
        return self.kubectl("get", "--raw", "/readyz").stdout == "ok"

    @property
    def address(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def access(self) -> dict[str, object]:
        """Return the configuration of this server for helm and kubectl."""
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "it", "cluster": {"server": self.address, "insecure-skip-tls-verify": True}}],
            "users": [{"name": "us", "user": {"token": TOKEN}}],
            "contexts": [{"name": "here", "context": {"cluster": "it", "user": "us"}}],
            "current-context": "here",
        }

    def kubectl(self, *arguments: object, stdin: str | None = None) -> subprocess.CompletedProcess:
        command = [charts.tools() / "kubectl", *map(str, arguments)]
        environment = os.environ | {"KUBECONFIG": str(self.config)}
        return subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=patience(120), check=False, env=environment
        )

    def helm(self, *arguments: object) -> subprocess.CompletedProcess:
        return charts.helm(*arguments, KUBECONFIG=str(self.config))
