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
        """The settings of a client of `library`, in the library's own form. The client connects as `user`, who is one
        of the option `users`. For aiokafka, the settings have an SSL context. For kafkajs, they are JSON with the
        contents of PEM files. For franz-go, they are JSON with the names of PEM files. For klamm, they are the
        arguments of `klamm.AdminClient`.

        Args:
            user: the user. None: the first user, if the listener needs one.
            mechanism: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
        """
        return client_config(library, self._access(user, mechanism))
