"""converse and spend: what is counted in a conversation, and what is over."""

from typing import Any

from reach.backend.bounds import CONV_KEPT, CONV_MS, MAX_CONV_FIELDS, MOST_SPENT
from reach.backend.spent import Spent, Uncounted
from reach.backend.steps import Over, Turn
from tests.contract.drive import Drive
from tests.contract.places import KEYS

CONV = "conv 1"
KEY = KEYS.conversation(CONV)
COUNTED = Over()


async def say(drive: Drive, msg_id: str, *, pairs: int = 0, same: int = 0, **what: Any) -> Over:
    (over,) = await drive.backend.converse([Turn(conversation=CONV, msg_id=msg_id, **what)], pairs, same)
    return over


async def chain(drive: Drive, depths: list[int], **what: Any) -> list[str]:
    """What is over for messages so deep, one after another."""
    return [(await say(drive, f"m{n}-{depth}", depth=depth, **what)).what for n, depth in enumerate(depths)]


# ---------------------------------------------------------------- budgets


async def test_hops_are_the_messages_after_the_first(drive: Drive) -> None:
    assert [await say(drive, f"m{n}", max_hops=2) for n in range(4)] == [COUNTED] * 3 + [Over("hops", 3, 2)]
    assert await say(drive, "m3", max_hops=3) == COUNTED, "what was over was not counted"
    assert await say(drive, "m4") == COUNTED, "it carries no budget"


async def test_a_message_that_comes_from_deep_has_as_many_before_it(drive: Drive) -> None:
    """Those were sent without a budget and nobody has counted them."""
    assert await say(drive, "m1", depth=3, max_hops=2) == Over("hops", 3, 2)
    assert await say(drive, "m1", depth=3, max_hops=3) == COUNTED
    assert await say(drive, "m2", depth=1, max_hops=3) == Over("hops", 4, 3)


async def test_a_message_is_counted_once(drive: Drive) -> None:
    """A duplicate, or a router that was dead before it could act on the answer."""
    turn = Turn(conversation=CONV, msg_id="m1", depth=1, pair="a>b", content="x", tokens=60, max_hops=1, max_tokens=100)
    assert await drive.backend.converse([turn, turn], 1, 1) == [COUNTED] * 2
    assert await drive.backend.converse([turn], 1, 1) == [COUNTED]
    assert await say(drive, "m2", tokens=40, max_tokens=100) == COUNTED


async def test_a_new_round_is_one_more(drive: Drive) -> None:
    assert await say(drive, "m1", max_hops=0) == COUNTED
    assert await say(drive, "m1", round=2, max_hops=0) == Over("hops", 1, 0)
    assert await say(drive, "m1", round=2, max_hops=1) == COUNTED
    assert await say(drive, "m1", round=1, max_hops=0) == COUNTED, "counted with its greater round"
    assert await say(drive, "m1", round=2, max_hops=0) == COUNTED


async def test_what_was_spent_is_over_once_it_reaches_the_budget(drive: Drive) -> None:
    assert await say(drive, "m1", max_cost=1_000_000) == COUNTED
    for number in range(3):
        assert await say(drive, f"n{number}", max_cost=1_000_000) == COUNTED
        assert await drive.backend.spend(CONV, f"m{number}:0:1:1", 400_000, 0) is True
    assert await say(drive, "m2", max_cost=1_000_000) == Over("cost", 1_200_000, 1_000_000)
    assert await say(drive, "m2", max_cost=1_200_000) == Over("cost", 1_200_000, 1_200_000)
    assert await say(drive, "m2", max_cost=1_200_001) == COUNTED


async def test_a_budget_of_nothing_lets_pass_what_costs_nothing(drive: Drive) -> None:
    assert await say(drive, "m1", max_cost=0, max_tokens=0) == COUNTED
    assert await say(drive, "m2", max_cost=0, max_tokens=0) == COUNTED
    assert await drive.backend.spend(CONV, "m1:0:1:1", 1, 0)
    assert await say(drive, "m3", max_cost=0) == Over("cost", 1, 0)
    assert await say(drive, "m3", max_tokens=0) == COUNTED
    assert await drive.backend.spend(CONV, "m2:0:1:1", 0, 1)
    assert await say(drive, "m4", max_tokens=0) == Over("tokens", 1, 0)


async def test_tokens_are_what_messages_need_and_what_runs_used_beyond(drive: Drive) -> None:
    assert await say(drive, "m1", tokens=60, max_tokens=100) == COUNTED
    assert await say(drive, "m2", tokens=60, max_tokens=100) == Over("tokens", 120, 100)
    assert await drive.backend.spend(CONV, "m1:0:1:1", 0, 30) is True
    assert await say(drive, "m2", tokens=11, max_tokens=100) == Over("tokens", 101, 100)
    assert await say(drive, "m2", tokens=10, max_tokens=100) == COUNTED
    assert await say(drive, "m3", max_tokens=100) == Over("tokens", 100, 100)


async def test_a_run_is_counted_once(drive: Drive) -> None:
    await say(drive, "m1")
    assert await drive.backend.spend(CONV, "m1:0:1:1", 5, 7) is True
    assert await drive.backend.spend(CONV, "m1:0:1:1", 5, 7) is False
    assert await drive.backend.spend(CONV, "m1:0:1:2", 5, 7) is True
    assert await say(drive, "m2", max_cost=10) == Over("cost", 10, 10)
    assert await say(drive, "m2", max_cost=11, max_tokens=14) == Over("tokens", 14, 14)


async def test_what_a_run_costs_is_counted_where_nobody_has_a_budget(drive: Drive) -> None:
    assert await drive.backend.used_in(CONV) is None
    assert await drive.backend.spend(CONV, "m1:0:1:1", 400_000, 7, Uncounted("m1", needs=50)) is True
    assert await drive.backend.spend(CONV, "m1:0:1:1", 400_000, 7, Uncounted("m1", needs=50)) is False
    assert await drive.backend.used_in(CONV) == Spent(1, 400_000, 57)
    assert await say(drive, "m2", max_cost=400_000) == Over("cost", 400_000, 400_000), (
        "it was spent before the budget came"
    )


async def test_a_message_counts_once_for_all_its_runs_and_once_more_in_a_new_round(drive: Drive) -> None:
    for run, of in (
        ("m1:0:1:1", Uncounted("m1", 1, 50)),
        ("m1:0:1:2", Uncounted("m1", 1, 50)),
        ("m1:1:1:1", Uncounted("m1", 1, 50)),
    ):
        assert await drive.backend.spend(CONV, run, 1, 0, of) is True
    assert await drive.backend.used_in(CONV) == Spent(1, 3, 50)
    assert await drive.backend.spend(CONV, "m1:0:2:1", 1, 0, Uncounted("m1", 2, 50)) is True
    assert await drive.backend.spend(CONV, "m1:0:1:3", 1, 0, Uncounted("m1", 1, 50)) is True, "a late one of the first"
    assert await drive.backend.used_in(CONV) == Spent(2, 5, 100)
    assert await drive.backend.spend(CONV, "m2:0:1:1", 1, 0) is True, "counted when it was sent"
    assert await drive.backend.used_in(CONV) == Spent(2, 6, 100)


async def test_a_message_that_a_path_has_shown_is_not_counted_again(drive: Drive) -> None:
    """The first has no path: its children say that it was there, and its own run says so at its end."""
    await say(drive, "m1.1", depth=1)
    await say(drive, "m1.2", depth=1)
    assert await drive.backend.used_in(CONV) == Spent(3)
    await drive.backend.spend(CONV, "m1:0:1:1", 5, 0, Uncounted("m1"))
    assert await drive.backend.used_in(CONV) == Spent(3, 5)
    await drive.backend.spend(CONV, "m2:0:1:1", 5, 0, Uncounted("m2"))
    assert await drive.backend.used_in(CONV) == Spent(4, 10), "another one without a path"


async def test_what_a_path_shows_is_there_already_where_it_was_counted(drive: Drive) -> None:
    await drive.backend.spend(CONV, "m1:0:1:1", 5, 0, Uncounted("m1"))
    await say(drive, "m1.1", depth=1)
    assert await drive.backend.used_in(CONV) == Spent(2, 5)
    await drive.backend.spend(CONV, "m2:0:1:1", 5, 0, Uncounted("m2"))
    assert await drive.backend.used_in(CONV) == Spent(3, 10)


async def test_the_budget_that_is_told_is_that_of_who_began(drive: Drive) -> None:
    await say(drive, "m1", max_hops=9, max_cost=2_000_000)
    await say(drive, "m2", depth=1, max_hops=3, max_cost=1, max_tokens=1)
    assert await drive.backend.used_in(CONV) == Spent(2, 0, 0, 9, 2_000_000, None)
    await say(drive, "m3", max_tokens=5)
    await say(drive, "m4")
    assert await drive.backend.used_in(CONV) == Spent(4, 0, 0, None, None, 5), "the latest"


async def test_of_handlers_alone_the_first_budget_is_told(drive: Drive) -> None:
    await say(drive, "m2", depth=1, max_hops=7)
    await say(drive, "m3", depth=2, max_hops=3)
    assert await drive.backend.used_in(CONV) == Spent(3, 0, 0, 7)


async def test_counts_end_where_numbers_do(drive: Drive) -> None:
    await say(drive, "m1", tokens=MOST_SPENT)
    for run in ("m1:0:1:1", "m1:0:1:2"):
        assert await drive.backend.spend(CONV, run, MOST_SPENT, MOST_SPENT)
    assert await say(drive, "m2", max_cost=MOST_SPENT) == Over("cost", MOST_SPENT, MOST_SPENT)
    assert await say(drive, "m2", max_tokens=MOST_SPENT) == Over("tokens", MOST_SPENT, MOST_SPENT)
    assert await say(drive, "m2", depth=MOST_SPENT, max_hops=MOST_SPENT) == COUNTED
    assert await say(drive, "m3", max_hops=MOST_SPENT - 1) == Over("hops", MOST_SPENT, MOST_SPENT - 1)


# ---------------------------------------------------------------- loops


async def test_a_pair_is_over_when_it_goes_deeper_too_often_in_a_minute(drive: Drive) -> None:
    there: dict[str, Any] = {"pair": "a>b", "pairs": 3}
    for n, depth in enumerate((1, 3, 5)):
        assert await say(drive, f"m{depth}", content=str(n), depth=depth, **there) == COUNTED
    assert await say(drive, "m7", content="3", depth=7, **there) == Over("pair", 4, 3)
    assert await say(drive, "m8", content="3", depth=8, pair="b>a", pairs=3) == COUNTED, "another pair"
    assert await say(drive, "m7", content="3", depth=7, pair="a>b") == COUNTED, "without a bound"


async def test_at_a_human_pace_it_goes_on(drive: Drive) -> None:
    for depth in range(1, 20):
        assert await say(drive, f"m{depth}", content=str(depth), depth=depth, pair="a>b", pairs=3, same=3) == COUNTED
        await drive.place.pass_time(25_000)


async def test_a_window_that_began_in_the_future_begins_anew(drive: Drive) -> None:
    """A step back of the clock by an hour."""
    await chain(drive, [1, 2], pair="a>b", pairs=2)
    await drive.place.pass_time(-3_600_000)
    assert await say(drive, "m3", depth=3, pair="a>b", pairs=2) == COUNTED


async def test_work_that_is_many_and_not_deep_is_no_loop(drive: Drive) -> None:
    """A handler that asks a thousand times, or asks the same again and again until it is done."""
    assert await chain(drive, [1] * 50, pair="a>b", pairs=1, content="x", same=1) == [""] * 50
    assert await chain(drive, [2, 1, 2, 1], pair="b>a", pairs=1, content="y", same=1) == [""] * 4


async def test_the_same_content_is_over_when_it_comes_deeper_too_often(drive: Drive) -> None:
    for n, depth in enumerate((1, 3, 5, 7)):
        found = await say(drive, f"m{depth}", depth=depth, pair=f"p{n}", content="thank you", same=3)
        assert found == (Over("content", 4, 3) if n == 3 else COUNTED)
        await drive.place.pass_time(300_000)
    assert await say(drive, "m7", depth=7, pair="p3", content="something else", same=3) == COUNTED


async def test_who_leaves_no_path_is_known_by_what_it_answers(drive: Drive) -> None:
    """An agent without the SDK may write no more than itself into previous_hops."""
    found = [
        await say(drive, f"m{n}", in_reply_to=f"m{n - 1}" if n else "", depth=1, pair="a>b", content="x", pairs=3)
        for n in range(4)
    ]
    assert found == [COUNTED] * 3 + [Over("pair", 4, 3)]


async def test_what_cannot_be_a_loop_is_not_counted_as_one(drive: Drive) -> None:
    assert await chain(drive, [1, 2, 3, 4], pairs=1, same=1) == [""] * 4


# ---------------------------------------------------------------- the key


async def test_conversations_do_not_know_of_one_another(drive: Drive) -> None:
    turns = [Turn(conversation=name, msg_id="m1", max_hops=0) for name in ("one", "two", "{3}:*", "vier é")]
    assert await drive.backend.converse(turns, 0, 0) == [COUNTED] * 4
    again = [Turn(conversation=name, msg_id="m2", max_hops=0) for name in ("one", "two", "{3}:*", "vier é")]
    assert await drive.backend.converse(again, 0, 0) == [Over("hops", 1, 0)] * 4


async def test_many_are_asked_about_at_once(drive: Drive) -> None:
    turns = [Turn(conversation=CONV, msg_id=f"m{n}", max_hops=250) for n in range(252)]
    assert await drive.backend.converse(turns, 0, 0) == [COUNTED] * 251 + [Over("hops", 251, 250)]
    assert await drive.backend.converse([], 0, 0) == []


async def test_it_lives_an_hour_from_the_last_message(drive: Drive) -> None:
    for write in range(3):
        await say(drive, f"m{write}")
        assert CONV_MS - 1_000 < await drive.place.ttl_ms(KEY) <= CONV_MS
        await drive.place.pass_time(1_800_000)
    await drive.backend.spend(CONV, "m1:0:1:1", 1, 1)
    assert CONV_MS - 1_000 < await drive.place.ttl_ms(KEY) <= CONV_MS


async def test_a_conversation_that_is_lost_or_spoilt_begins_anew(drive: Drive) -> None:
    assert await say(drive, "m1", max_hops=0) == COUNTED
    await drive.place.delete(KEY)
    assert await say(drive, "m2", max_hops=0) == COUNTED
    await drive.place.spoil(KEY)
    assert await drive.backend.spend(CONV, "m1:0:1:1", 1, 1) is True
    await drive.place.spoil(KEY)
    assert await drive.backend.used_in(CONV) is None
    await drive.place.spoil(KEY)
    assert await say(drive, "m3", max_hops=0) == COUNTED
    assert await say(drive, "m4", max_hops=0) == Over("hops", 1, 0)


async def test_however_long_it_is_little_is_kept(drive: Drive) -> None:
    """Each message is counted in a pair and a content of its own: three fields."""
    for start in range(0, 1_500, 100):
        turns = [
            Turn(conversation=CONV, msg_id=f"m{n}", depth=1, pair=f"p{n}", content=f"c{n}")
            for n in range(start, start + 100)
        ]
        assert await drive.backend.converse(turns, 1, 1) == [COUNTED] * 100
        assert await drive.place.size(KEY) <= MAX_CONV_FIELDS + 3
    fresh = f"m{1_500 - CONV_KEPT // 2}"
    assert await say(drive, fresh, max_hops=0) == COUNTED, "the newest are still known"
    assert await say(drive, "m1", max_hops=1_500) == Over("hops", 1_501, 1_500), "the oldest is not; the counts are"


async def test_what_others_have_written_into_it_stops_nobody(drive: Drive) -> None:
    junk = [
        b"",
        b"nan",
        b"-1",
        b"1e3",
        b"1 2 3",
        b"1 2 3 4 5",
        b"1 2 3 123456789012345",
        b"\xff 1 2 3",
        b"0x1",
        b"9" * 300,
    ]
    for value in junk:
        await drive.place.put_fields(
            KEY, dict.fromkeys(("n", "i", "c", "t", "k", "b", "m:m1", "m:m0", "p:a>b", "s:x"), value)
        )
        found = await drive.backend.used_in(CONV)
        assert found is not None
        assert (found.messages, found.cost, found.tokens) == (0, 0, 0), value
        told: dict[str, Any] = {"pair": "a>b", "content": "x", "in_reply_to": "m0", "depth": 1}
        assert await say(drive, "m1", pairs=1, same=1, max_hops=1, max_cost=1, max_tokens=1, **told) == COUNTED, value
        await drive.place.put_fields(KEY, dict.fromkeys(("k", "c", "t"), value))
        assert await drive.backend.spend(CONV, f"r{len(value)}", 1, 1, Uncounted("m9", 1, 1))
        await drive.place.delete(KEY)


async def test_strange_fields_go_first_and_too_many_of_them_with_all_else(drive: Drive) -> None:
    await say(drive, "m1")
    ahead = {f"x{n}": b"999999 0 0 0" for n in range(MAX_CONV_FIELDS)}
    await drive.place.put_fields(KEY, ahead)
    assert await say(drive, "m2", max_hops=1) == COUNTED
    assert await drive.place.size(KEY) == 5
    await drive.place.put_fields(KEY, ahead | {f"y{n}": b"" for n in range(MAX_CONV_FIELDS)})
    assert await say(drive, "m3", max_hops=2) == COUNTED
    assert await drive.place.type_of(KEY) == "none"
