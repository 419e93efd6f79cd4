"""The compose file and the GitHub workflow of docs/docker.md, read as Docker Compose reads it and by a workflow linter.

Neither needs Docker. Compose reads files by the library compose-go; its own program and actionlint are built here.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from klamm.container import listener_variables, serve_arguments
from klamm.serve.options import decode_serve_options
from tools.toolchain_checks.fetching import fetched
from tools.toolchain_checks.kafka_jars import find_program, kept_folder
from tools.toolchain_checks.program import run_program
from tools.toolchain_checks.report import CheckFailed, Report, expect

_PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "docker.md"
_LINTERS: Final = Path(__file__).with_name("linters")
_TOOLS: Final = ("github.com/rhysd/actionlint/cmd/actionlint", "github.com/compose-spec/compose-go/v2/cmd")
_BUILD_SECONDS: Final = 300.0
_SECONDS: Final = 60.0
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
        requested = [str(linters / "cmd"), "-format", "json", str(_file(folder, "compose.yaml", "services"))]
        _check_services(json.loads(run_program(requested, _SECONDS, folder=folder))["services"])
    with report.check("actionlint finds nothing in the workflow of docs/docker.md"):
        # Without its calls of other linters, which this machine may lack.
        alone = ("-shellcheck=", "-pyflakes=", "-no-color")
        run_program([str(linters / "actionlint"), *alone, str(_file(folder, "test.yml", "jobs"))], _SECONDS)


def _linters() -> Path:
    """The folder of the two programs."""

    def build(folder: Path) -> None:
        go = find_program("go", "golang-go")
        fetched(lambda: run_program([go, "build", "-o", f"{folder}/", *_TOOLS], _BUILD_SECONDS, folder=_LINTERS))

    content = b"".join((_LINTERS / name).read_bytes() for name in ("go.mod", "go.sum"))
    return kept_folder(f"docker-linters-{hashlib.sha256(content).hexdigest()[:12]}", build)


def _file(folder: Path, name: str, key: str) -> Path:
    """Write a file with the only block of the page that has this key on its first level."""
    blocks = [block for block in _BLOCK.findall(_PAGE.read_text()) if re.search(rf"^{key}:", block, re.MULTILINE)]
    if len(blocks) != 1:
        raise CheckFailed(f"{_PAGE.name} has {len(blocks)} blocks with {key}")
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
