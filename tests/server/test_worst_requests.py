"""The most expensive requests of every served API: each is answered within the limits, or its connection is closed, and
other clients are served afterwards."""

from typing import Any, get_args

import pytest

from klamm.broker.dispatch import APIS
from klamm.controller.client import Client
from klamm.protocol.api import Api, Listener
from klamm.protocol.codec.frames import encode_frame
from klamm.protocol.messages.configs import describe_configs
from klamm.protocol.messages.topics import create_topics
from tests.server.harness import create_topic, open_test_server
from tools.attack.worst_requests import KNOWN_TOPIC, shapes, worst_request

REQUEST_BYTES = 1_500
MOST_PER_BYTE = 100
LARGE_IN_KAFKA = {describe_configs.API}
"""Seven bytes request all configs of a topic."""


@pytest.mark.parametrize("text", ["known", "long"])
@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
async def test_it_is_answered_within_bounds_or_closed(api: Api[Any, Any], text: str) -> None:
    listener = next(one for one in get_args(Listener) if one in api.listeners)
    async with open_test_server(large_in_threads=True) as running:
        good = running.connect_in_memory()
        await good.ask(create_topics.API, 7, create_topic(KNOWN_TOPIC))
        for version in {api.kept_versions[0], api.kept_versions[-1]}:
            for shape in shapes(api, version):
                if shape.text != text:
                    continue
                frame = worst_request(api, version, shape, REQUEST_BYTES)
                peer = running.connect_in_memory(Client(listener, 1 if listener == "broker" else None))
                await peer.send(encode_frame(frame))
                answer = await peer.receive(60)
                if answer is not None and api not in LARGE_IN_KAFKA:
                    assert len(answer) < MOST_PER_BYTE * len(frame) + 10_000, (version, shape)
                await peer.aclose()
                assert await good.is_served()
        assert "bug" not in running.stderr.getvalue()
