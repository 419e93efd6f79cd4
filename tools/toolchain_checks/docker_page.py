"""The compose files of docs/docker.md and docs/real-brokers.md, read as Docker Compose reads them, and the GitHub
workflow of docs/docker.md, read by a workflow linter.

Neither needs Docker. Compose reads files by the library compose-go; its own program and actionlint are built here.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from klamm.container import listener_variables, main_address, serve_arguments
from klamm.controller.metadata_log import CONTROLLER_ID
from klamm.serve.options import decode_serve_options
from tools.toolchain_checks.fetching import fetched
from tools.toolchain_checks.kafka_jars import find_program, kept_folder
from tools.toolchain_checks.program import run_program
from tools.toolchain_checks.report import CheckFailed, Report, expect

_DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
_PAGE: Final = _DOCS / "docker.md"
_PAGE_OF_REAL_BROKERS: Final = _DOCS / "real-brokers.md"
_REAL_BROKERS: Final = 3
_LINTERS: Final = Path(__file__).with_name("linters")
_TOOLS: Final = ("github.com/rhysd/actionlint/cmd/actionlint", "github.com/compose-spec/compose-go/v2/cmd")
_BUILD_SECONDS: Final = 600.0
_SECONDS: Final = 240.0
_BLOCK: Final = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def check_docker_page(report: Report, folder: Path) -> None:
    """Check both files of the page."""
    folder.mkdir()
    linters: Path | None = None
    with report.check("actionlint and compose-go are there"):
        linters = _linters()
    if linters is None:
        return
    with report.check("Compose reads the compose file of docs/docker.md, and Klamm the variables in it"):
        _check_services(_services(linters, folder, _PAGE))
    with report.check("Compose reads the compose file of docs/real-brokers.md, and Klamm the variables in it"):
        _check_real_brokers(_services(linters, folder, _PAGE_OF_REAL_BROKERS))
    with report.check("actionlint finds nothing in the workflow of docs/docker.md"):
        # Without its calls of other linters, which this machine may lack.
        alone = ("-shellcheck=", "-pyflakes=", "-no-color")
        run_program([str(linters / "actionlint"), *alone, str(_file(folder, _PAGE, "test.yml", "jobs"))], _SECONDS)


def _linters() -> Path:
    """The folder of the two programs."""

    def build(folder: Path) -> None:
        go = find_program("go", "golang-go")
        fetched(lambda: run_program([go, "build", "-o", f"{folder}/", *_TOOLS], _BUILD_SECONDS, folder=_LINTERS))

    content = b"".join((_LINTERS / name).read_bytes() for name in ("go.mod", "go.sum"))
    return kept_folder(f"docker-linters-{hashlib.sha256(content).hexdigest()[:12]}", build)


def _services(linters: Path, folder: Path, page: Path) -> Mapping[str, Any]:
    """The services of the compose file of a page."""
    requested = [str(linters / "cmd"), "-format", "json", str(_file(folder, page, f"{page.stem}.yaml", "services"))]
    services: Mapping[str, Any] = json.loads(run_program(requested, _SECONDS, folder=folder))["services"]
    return services


def _file(folder: Path, page: Path, name: str, key: str) -> Path:
    """Write a file with the only block of the page that has this key on its first level."""
    blocks = [block for block in _BLOCK.findall(page.read_text()) if re.search(rf"^{key}:", block, re.MULTILINE)]
    if len(blocks) != 1:
        raise CheckFailed(f"{page.name} has {len(blocks)} blocks with {key}")
    path = folder / name
    path.write_text(blocks[0])
    return path


def _check_services(services: Mapping[str, Any]) -> None:
    variables = {name: str(value) for name, value in services["kafka"]["environment"].items()}
    options = decode_serve_options(serve_arguments([], variables, Path("/nonexistent")))
    requested = services["tests"]["environment"]["BOOTSTRAP_SERVERS"]
    reported = listener_variables(variables)["KAFKA_ADVERTISED_LISTENERS"]
    expect(reported == f"PLAINTEXT://{requested}", f"clients are told {reported}, and ask {requested}")
    kept = [volume["target"] for volume in services["kafka"]["volumes"]]
    expect(kept == [str(options.data_dir)], f"the volume is {kept}, the metadata in {options.data_dir}")


def _check_real_brokers(services: Mapping[str, Any]) -> None:
    """Klamm serves real brokers alone, and each broker has an id, a rack and an address of its own."""
    klamm = {name: str(value) for name, value in services["klamm"]["environment"].items()}
    options = decode_serve_options(serve_arguments([], klamm, Path("/no file")))
    expect(options.brokers == 0, f"there are {options.brokers} simulated brokers")
    expect(str(main_address(klamm)) == "0.0.0.0:9093", f"HEALTHCHECK asks {main_address(klamm)}")
    brokers = [found["environment"] for name, found in services.items() if name != "klamm"]
    for name in ("KAFKA_NODE_ID", "KAFKA_BROKER_RACK", "KAFKA_ADVERTISED_LISTENERS"):
        values = {str(one[name]) for one in brokers}
        expect(len(values) == _REAL_BROKERS, f"{name} has the values {values}")
    ids = {str(one["CLUSTER_ID"]) for one in (klamm, *brokers)}
    expect(len(ids) == 1, f"the cluster ids are {ids}")
    voters = {one["KAFKA_CONTROLLER_QUORUM_VOTERS"] for one in brokers}
    expect(voters == {f"{CONTROLLER_ID}@klamm:9093"}, f"the voters are {voters}")
