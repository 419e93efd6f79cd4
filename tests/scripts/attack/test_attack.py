"""`scripts/attack` for some seconds: the server answers on both listeners, with and without ACLs, and has no bug."""

import pytest

from klamm.protocol.messages.configs import describe_configs
from tools.attack.campaign import attack

SECONDS = 4.0
MOST_BYTES = 100_000
MOST_PER_BYTE = 150
HEADER_BYTES = 10_000
"""An answer to a short request may be longer than the request many times over."""
LARGE_IN_KAFKA = {describe_configs.API}
ACLS = ("--set", "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer")


@pytest.mark.parametrize("options", [(), ACLS], ids=["without ACLs", "with ACLs"])
def test_it_finds_no_bug_and_no_answer_that_is_far_larger_than_its_request(options: tuple[str, ...]) -> None:
    costs = attack(SECONDS, 17, options=options, most_bytes=MOST_BYTES)
    assert costs
    for cost in costs:
        if cost.attempt.api not in LARGE_IN_KAFKA:
            assert cost.bytes_out < MOST_PER_BYTE * cost.bytes_in + HEADER_BYTES, str(cost.attempt)
