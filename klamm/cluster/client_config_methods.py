"""The method `client_config`, which `klamm.ServerProcess` and `klamm.Cluster` have in common."""

from abc import ABC, abstractmethod
from typing import Any, Literal

from klamm.cluster.client_configs import Access, client_config

Library = Literal["confluent-kafka", "kafka-python", "aiokafka", "java", "kafkajs", "franz-go", "klamm"]


class ClientConfigVerbs(ABC):
    """Settings of clients."""

    @abstractmethod
    def _access(self, user: str | None, mechanism: str) -> Access:
        """How this user connects. Raises NoClientConfig."""

    def client_config(self, library: Library, user: str | None = None, *, mechanism: str = "PLAIN") -> dict[str, Any]:
        """The settings with which a client of `library` connects as `user`, one of the option `users`, in the library's
        own words. For aiokafka they have an SSL context; for kafkajs they are JSON with the contents of
        PEM files, for franz-go JSON with names of files. For klamm they are the arguments of `klamm.AdminClient`.

        Args:
            user: None: the first user if the listener needs one.
            mechanism: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
        """
        return client_config(library, self._access(user, mechanism))
