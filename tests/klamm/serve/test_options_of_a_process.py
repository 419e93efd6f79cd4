"""Options of `klamm serve` whose effect only a process shows."""

from tests.klamm.serve.processes import FREE, addresses, create, first_line, refused, serving, topics


def test_variables_of_the_environment_count_only_if_asked_for() -> None:
    """A service under test may have variables that begin with KAFKA_ for purposes of its own."""
    with serving(*FREE, more={"KAFKA_NUM_PARTITIONS": "3", "KAFKA_COMPRESSION_TYPE": "none at all"}) as process:
        brokers = addresses(first_line(process))
        assert create(brokers[0], "narrow") == 0
        assert topics(brokers[0]) == {"narrow": 1}
    code, _, stderr = refused("serve", *FREE, "--env", more={"KAFKA_COMPRESSION_TYPE": "none at all"})
    assert (code, "KAFKA_COMPRESSION_TYPE" in stderr) == (2, True)


def test_a_port_that_a_broker_needs_is_refused_to_the_control_interface() -> None:
    code, _, stderr = refused("serve", "--listen", "19092", "--control", "127.0.0.1:19093")
    told = "klamm serve: listeners overlap: PLAINTEXT of broker 2 and the control interface both need port 19093\n"
    assert (code, stderr) == (2, told)
