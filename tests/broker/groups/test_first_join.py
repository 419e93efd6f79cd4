"""A new member waits for the others of its group longer than its own session lasts."""

from tests.broker.groups.conversation import DELAY_MS, REBALANCE_MS, SESSION_MS, Conversation


def test_a_new_member_stays_while_it_waits_for_the_others(group: Conversation) -> None:
    (first_id,), generation_id = group.stable()
    second_id = group.new_member_id()
    waiting = group.join(second_id)
    for _ in range(REBALANCE_MS // (SESSION_MS // 2) - 1):
        group.pass_time(SESSION_MS // 2)
        group.heartbeat(first_id, generation_id)
    assert waiting.is_waiting
    again = group.join(first_id)
    group.pass_time(DELAY_MS)
    assert {again.response.error_code, waiting.response.error_code} == {0}
    assert {again.response.generation_id, waiting.response.generation_id} == {generation_id + 1}
    assert {member.member_id for member in again.response.members} == {first_id, second_id}
