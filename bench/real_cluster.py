"""Three brokers of Apache Kafka 4.3 under one controller, which is Klamm or a controller of Apache Kafka. Each node is
a process, and can be killed and started again on its data.
"""

import signal
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

from bench.kafka_process import CLUSTER_ID, KafkaProcess, format_storage
from bench.processes import ServerFailed, ServerProcess, clean_environment
from tools.toolchain_checks.ports import free_ports

Side = Literal["Klamm", "Kafka"]
BROKERS: Final = (1, 2, 3)
CONTROLLER: Final = 3000
STOP_SECONDS: Final = 60.0
LISTENS: Final = b"controller.quorum.bootstrap.servers="
# At most four JVMs are up together. Each gets what a broker of 4,000 partitions needs.
JVM_OPTIONS: Final = ("-Xmx768m", "-server", "-XX:+UseG1GC", "-Djava.awt.headless=true")


class KafkaNode(KafkaProcess):
    """A broker or a controller of Apache Kafka with its data in `folder`."""

    def __init__(self, name: str, class_path: str, folder: Path, server: str, properties: Mapping[str, object]) -> None:
        self.name = name
        self._server = server
        self._log = folder / "kafka.log"
        path = folder / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        if not (folder / "data").exists():
            format_storage(class_path, CLUSTER_ID, path)
        logging = (f"-Dorg.slf4j.simpleLogger.logFile={self._log}", "-Dorg.slf4j.simpleLogger.defaultLogLevel=info")
        super().__init__(["java", *JVM_OPTIONS, *logging, "-cp", class_path, "kafka.Kafka", str(path)])

    def __enter__(self) -> Self:
        self._log.unlink(missing_ok=True)
        return super().__enter__()


class KlammController(ServerProcess):
    """Klamm as the controller."""

    name = "klamm"

    def __init__(self, bytecode_dir: Path, folder: Path, server: str, *options: str) -> None:
        self._server = server
        command = [sys.executable, "-P", "-m", "klamm", "serve", "--controller-listener", server]
        command += ["--data-dir", str(folder / "data"), "--cluster-id", CLUSTER_ID, *options]
        super().__init__(command, clean_environment(bytecode_dir))

    def _await_ready(self, deadline: float) -> str:
        self._read_until(LISTENS, deadline)
        return self._server


class RealCluster:
    """A controller and three brokers, with their folders in `folder`, which must be empty."""

    def __init__(self, side: Side, class_path: str, bytecode_dir: Path, folder: Path) -> None:
        self.side = side
        self._class_path = class_path
        self._bytecode_dir = bytecode_dir
        self._folder = folder
        self._first_port = free_ports(len(BROKERS) + 1)
        self._stack = ExitStack()
        self.controller: ServerProcess
        self.brokers: dict[int, ServerProcess] = {}

    def __enter__(self) -> Self:
        for node_id in (CONTROLLER, *BROKERS):
            (self._folder / str(node_id)).mkdir()
        try:
            self.start_controller()
            self._start_brokers()
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for broker in self.brokers.values():  # without its controller, a broker would wait to be allowed to stop
            broker.end(signal.SIGKILL, STOP_SECONDS)
        self._stack.close()

    @property
    def controller_address(self) -> tuple[str, int]:
        return "127.0.0.1", self._first_port

    def address_of(self, broker_id: int) -> tuple[str, int]:
        return "127.0.0.1", self._first_port + broker_id

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{self._first_port + broker_id}" for broker_id in BROKERS)

    def start_controller(self, *options: str) -> None:
        """Start the controller on its data. `options` are those of `klamm serve` (default: no simulated broker)."""
        folder, server = self._folder / str(CONTROLLER), f"127.0.0.1:{self._first_port}"
        if self.side == "Klamm":
            given = options or ("--brokers", "0")
            node: ServerProcess = KlammController(self._bytecode_dir, folder, server, *given)
        else:
            listeners = {"process.roles": "controller", "listeners": f"CONTROLLER://{server}"}
            node = self._kafka_node(CONTROLLER, server, listeners)
        self.controller = self._stack.enter_context(node)

    def kill_controller(self) -> None:
        """End the controller with SIGKILL."""
        self.controller.end(signal.SIGKILL, STOP_SECONDS)

    def stop_controller(self) -> None:
        """End the controller as SIGTERM does."""
        self.controller.end(signal.SIGTERM, STOP_SECONDS)

    def stop_broker(self, broker_id: int) -> None:
        """Shut a broker down, with the controller's consent."""
        self.brokers[broker_id].end(signal.SIGTERM, STOP_SECONDS)

    def start_broker(self, broker_id: int) -> None:
        """Start a broker on its data. Returns when it is unfenced."""
        self.brokers[broker_id] = self._stack.enter_context(self._broker(broker_id))

    def _start_brokers(self) -> None:
        """Start all brokers at once."""
        nodes = {broker_id: self._broker(broker_id) for broker_id in BROKERS}
        failed: Exception | None = None
        with ThreadPoolExecutor(len(BROKERS)) as pool:
            for broker_id, starting in {key: pool.submit(node.__enter__) for key, node in nodes.items()}.items():
                try:
                    self.brokers[broker_id] = starting.result()
                except ServerFailed as error:
                    failed = failed or error
                else:
                    self._stack.push(nodes[broker_id])
        if failed is not None:
            raise failed

    def _broker(self, broker_id: int) -> KafkaNode:
        server = f"127.0.0.1:{self._first_port + broker_id}"
        own = {
            "process.roles": "broker",
            "broker.rack": f"r{broker_id}",
            "listeners": f"PLAINTEXT://{server}",
            "advertised.listeners": f"PLAINTEXT://{server}",
            "log.cleaner.dedupe.buffer.size": 4_194_304,
            "auto.create.topics.enable": "false",
        }
        return self._kafka_node(broker_id, server, own)

    def _kafka_node(self, node_id: int, server: str, own: Mapping[str, object]) -> KafkaNode:
        folder = self._folder / str(node_id)
        properties = {
            "node.id": node_id,
            "controller.quorum.voters": f"{CONTROLLER}@127.0.0.1:{self._first_port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": folder / "data",
            **({} if node_id == CONTROLLER else {"inter.broker.listener.name": "PLAINTEXT"}),
            **own,
        }
        name = "Kafka's controller" if node_id == CONTROLLER else f"broker {node_id}"
        return KafkaNode(name, self._class_path, folder, server, properties)
