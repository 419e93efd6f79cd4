"""Where and with what a run took place: processor, memory, load, and the versions of everything that was measured."""

import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from klamm import __version__

LIBRARIES = ("numpy", "trio", "construct", "structlog", "confluent-kafka")
GO_MODULES = {"github.com/twmb/franz-go": "franz-go", "github.com/twmb/franz-go/pkg/kfake": "kfake", "go": "Go"}
ASK_SECONDS = 60


def today() -> str:
    return datetime.now(UTC).date().isoformat()


def load_average() -> str:
    """The load of the machine over the last minute: a run on a busy machine is less reliable."""
    return f"{os.getloadavg()[0]:.2f}"


def describe_machine(data_parent: Path) -> dict[str, str]:
    return {
        "cpu": _after("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "file system of the data directories": _file_system(data_parent),
    }


def describe_versions(kfake_program: Path, kafka_class_path: str | None) -> dict[str, str]:
    versions = {"Klamm": __version__, "Python": platform.python_version()}
    versions |= {library: version(library) for library in LIBRARIES}
    for line in _ask([str(kfake_program), "-versions"]).splitlines():
        module, _, number = line.partition(" ")
        if module in GO_MODULES:
            versions[GO_MODULES[module]] = number
    if kafka_class_path:
        (clients,) = Path(kafka_class_path).parent.glob("kafka-clients-*.jar")
        versions["Apache Kafka"] = clients.stem.removeprefix("kafka-clients-")
        versions["Java"] = _java_version()
    return versions


def _java_version() -> str:
    for line in _ask(["java", "-XshowSettings:properties", "-version"]).splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "java.version":
            return value.strip()
    return "unknown"


def _ask(command: list[str], environment: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=ASK_SECONDS, env=environment or os.environ
    )
    return done.stdout + done.stderr


def _after(file: str, label: str) -> str | None:
    path = Path(file)
    for line in path.read_text().splitlines() if path.exists() else ():
        name, _, value = line.partition(":")
        if name.strip() == label:
            return value.strip()
    return None


def _file_system(folder: Path) -> str:
    """The type of the file system of `folder`: in RAM nothing has to be synced."""
    mounts = Path("/proc/mounts")
    found = ("", "unknown")
    for line in mounts.read_text().splitlines() if mounts.exists() else ():
        _, place, kind, *_ = line.split()
        inside = folder.resolve() == Path(place) or Path(place) in folder.resolve().parents
        if inside and len(place) >= len(found[0]):
            found = (place, kind)
    return found[1]
