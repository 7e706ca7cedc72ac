"""The table of the stand-ins for images. The paths in a container are those of its image.

Every container sees the file system of this machine, read-only, under the files of its image. A tmpfs of compose.yaml
hides a checkout that lies below it, so the folders of this machine's programs are mounted above it.

Files of compose.yaml
(configurations, rules, secrets, volumes) are mounted where compose.yaml says. Its limits on processors, memory and
processes hold with runc only.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.brokers import CLASSES, JAVA, jars, skip
from tests.deploy.compose import DEPLOY, ROOT
from tests.deploy.observers import tool

BIN = Path(sys.executable).parent
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


BUILT = "HUBBUB_STACK_IMAGE"
"""The variable with the folder that the first stage of the Dockerfile has built (dockerfile.py)."""


class Missing(Exception):
    """An error about an image that this machine has no packages for."""


@dataclass(frozen=True)
class Image:
    """The files, the user and the defaults of an image. A file is a text with its mode, or a path to link to."""

    user: int
    entrypoint: list[str]
    files: dict[str, str | Path]
    command: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": PATH})
    folder: str = "/"
    folders: dict[str, Path] = field(default_factory=dict)
    """Folders of this machine at paths of the image."""
    healthcheck: dict[str, object] | None = None

    def write(self, layer: Path) -> None:
        """Write the files of the image to a folder."""
        for name, content in self.files.items():
            path = layer / name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, Path):
                path.symlink_to(content)
            else:
                path.write_text(content)
                path.chmod(0o755)


def machine_folders() -> list[Path]:
    """Return the folders of this machine with the programs that containers run: the checkout and its Python."""
    paths = {path.resolve() for path in (ROOT, Path(sys.prefix), Path(sys.base_prefix))}
    return [path for path in sorted(paths) if not any(other in path.parents for other in paths)]


def image(name: str) -> Image:
    """Return the stand-in for an image of compose.yaml, for example `hubbub:0.1.0`."""
    kinds = {"hubbub": hubbub, "apache/kafka": kafka, "prom/prometheus": prometheus, "prom/alertmanager": alertmanager}
    kind = name.partition("@")[0].partition(":")[0]
    if kind not in kinds:
        raise Missing(f"no package has the image {kind}")
    return kinds[kind]()


def hubbub() -> Image:
    """Return the last stage of deploy/Dockerfile.

    Its programs are those that the first stage has built, or those of this virtual environment.
    """
    last_stage = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ").split("\nFROM ")[-1]
    variables = dict(pair.split("=", 1) for pair in re.search(r"^ENV (.*)$", last_stage, re.MULTILINE)[1].split())
    variables["PATH"] = variables["PATH"].replace("$PATH", PATH)
    check = re.search(r"^HEALTHCHECK (.*) CMD \[(.*)\]$", last_stage, re.MULTILINE)
    options = dict(option.lstrip("-").split("=") for option in check[1].split())
    image_folder = os.environ.get(BUILT)
    programs = {
        "/opt/hubbub/bin/hubbub": BIN / "hubbub",
        "/opt/hubbub/bin/python3": BIN / "python3",
        "/opt/hubbub/bin/hubbub-health": (DEPLOY / "health.py").read_text(),
        "/opt/hubbub/bin/restart-policy": (DEPLOY / "restart-policy.sh").read_text(),
    }
    return Image(
        user=int(re.search(r"^USER (\d+):", last_stage, re.MULTILINE)[1]),
        entrypoint=shlex.split(re.search(r"^ENTRYPOINT \[(.*)\]$", last_stage, re.MULTILINE)[1]),
        files={} if image_folder else programs,
        folders={"/opt/hubbub": Path(image_folder, "opt", "hubbub")} if image_folder else {},
        environment=variables,
        folder=re.search(r"^WORKDIR (.*)$", last_stage, re.MULTILINE)[1],
        healthcheck={"test": ["CMD", *shlex.split(check[2])], **{k.replace("-", "_"): v for k, v in options.items()}},
    )


TOOLS = {
    "acls": "org.apache.kafka.tools.AclCommand",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "configs": "kafka.admin.ConfigCommand",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "topics": "org.apache.kafka.tools.TopicCommand",
}
START = """\
#!/bin/sh
# The start script of the image: it makes the settings from the environment, formats the storage once, and starts.
set -e
env | grep ^KAFKA_ | grep -v ^KAFKA_HEAP_OPTS | while IFS= read -r line; do
    name=${{line%%=*}} name=${{name#KAFKA_}}
    printf '%s=%s\\n' "$(printf %s "$name" | tr A-Z_ a-z.)" "${{line#*=}}"
done > /tmp/server.properties
set -- --ignore-formatted --cluster-id "$CLUSTER_ID" --config /tmp/server.properties
{java} -cp '{jars}/*' kafka.tools.StorageTool format "$@"
exec {java} $KAFKA_HEAP_OPTS -cp '{jars}/*' kafka.Kafka /tmp/server.properties
"""


def kafka() -> Image:
    """Return Apache Kafka of Maven's jars, in the version of compose.yaml, with the image's scripts."""
    libs = jars()
    java = shlex.join([*JAVA[:1], *JAVA[2:], f"-XX:SharedArchiveFile={libs / CLASSES}"]).replace(
        "tmpdir=.", "tmpdir=/tmp"
    )
    scripts = {
        f"/opt/kafka/bin/kafka-{name}.sh": f"#!/bin/sh\nexec {java} -Xmx128m -cp '{libs}/*' {main} \"$@\"\n"
        for name, main in TOOLS.items()
    }
    start = {"/etc/kafka/docker/run": START.format(java=java, jars=libs)}
    return Image(1000, ["/etc/kafka/docker/run"], start | scripts)


def prometheus() -> Image:
    program = {"/usr/bin/prometheus": Path(tool("prometheus"))}
    return Image(65534, ["/bin/prometheus"], program)


def alertmanager() -> Image:
    program = {"/usr/bin/alertmanager": Path(tool("prometheus-alertmanager"))}
    return Image(65534, ["/bin/alertmanager"], program)


def clock() -> Path:
    """Compile the library that gives a program another clock, and return its path."""
    compiler = shutil.which("cc")
    library = ROOT / "build" / "clock.so"
    if compiler is None:
        skip(RuntimeError("no C compiler, which the drill of a clock needs"))
    source = Path(__file__).with_name("clock.c")
    subprocess.run((compiler, "-O2", "-shared", "-fPIC", "-o", library, source), check=True)
    return library
