"""The streams of the memory backend behave like those of Redis (the contract suite and the property tests compare them)."""

import pytest

from reach.backend.memory_backend.streams import LAST, BadId, Stream, format_id, parse_id


def filled(*ids: str) -> Stream:
    stream = Stream()
    for entry_id in ids:
        stream.add({b"n": entry_id.encode()}, 0, entry_id=entry_id)
    return stream


def ids(entries: list[tuple[str, dict[bytes, bytes]]]) -> list[str]:
    return [entry_id for entry_id, _ in entries]


def test_ids_follow_the_clock_and_never_go_back() -> None:
    stream = Stream()
    assert stream.add({}, 1000) == "1000-0"
    assert stream.add({}, 1000) == "1000-1"
    assert stream.add({}, 900) == "1000-2"
    assert stream.add({}, 1001) == "1001-0"


def test_ids_are_compared_as_numbers() -> None:
    stream = filled("9-10", "10-2")
    assert ids(stream.after(parse_id("9-9"))) == ["9-10", "10-2"]
    assert ids(stream.after(parse_id("9-10"))) == ["10-2"]


@pytest.mark.parametrize(
    "bad", ["5-0", "5-1", "x", "5-", "-1", "1-x", "", "99999999999999999999999-99999999999999999999999"]
)
def test_an_id_that_is_not_greater_or_no_id_is_refused(bad: str) -> None:
    stream = filled("5-1")
    with pytest.raises(BadId):
        stream.add({}, 0, entry_id=bad)
    assert stream.last_id == (5, 1)


def test_ids_are_not_given_again_after_a_delete() -> None:
    stream = filled("5-0")
    assert stream.delete(["5-0", "5-0", "7-7"]) == 1
    assert stream.add({}, 3) == "5-1"


def test_range_skips_deleted_entries_and_counts() -> None:
    stream = filled(*(f"{n}-0" for n in range(1, 200)))
    stream.delete(f"{n}-0" for n in range(1, 200) if n % 3)
    assert ids(stream.after((0, 0), 2)) == ["3-0", "6-0"]
    assert len(stream.after((0, 0))) == len(stream) == 66
    assert [entry_id for entry_id, _ in stream.all()][-1] == "198-0"


def test_trim_drops_the_oldest() -> None:
    stream = filled("1-0", "2-0", "3-0")
    stream.add({}, 4, max_entries=2)
    assert ids(stream.after((0, 0))) == ["3-0", "4-0"]
    assert stream.trim_before((4, 0)) == 1
    assert ids(stream.after((0, 0))) == ["4-0"]


def test_a_group_delivers_each_entry_once() -> None:
    stream = filled("1-0", "2-0", "3-0")
    group = stream.make_group("g")
    assert ids(group.read("a", 2, 10)) == ["1-0", "2-0"]
    assert ids(group.read("b", 5, 11)) == ["3-0"]
    assert group.read("a", 5, 12) == []
    assert group.read("a", 0, 12) == []
    assert [(entry_id, pending.consumer) for entry_id, pending in group.all_pending()] == [
        ("1-0", "a"),
        ("2-0", "a"),
        ("3-0", "b"),
    ]
    assert stream.make_group("g") is group


def test_a_new_group_starts_where_it_is_told() -> None:
    stream = filled("1-0", "2-0")
    assert ids(stream.make_group("late", "1-0").read("a", 5, 0)) == ["2-0"]


def test_own_history_shows_entries_without_a_body() -> None:
    stream = filled("1-0", "2-0")
    group = stream.make_group("g")
    group.read("a", 2, 10)
    stream.delete(["1-0"])
    assert group.held_by("a") == [("1-0", None), ("2-0", {b"n": b"2-0"})]
    assert group.held_by("b") == []


def test_own_history_is_delivered_once_more_where_it_has_a_body() -> None:
    stream = filled("1-0", "2-0")
    group = stream.make_group("g")
    group.read("a", 2, 10)
    stream.delete(["1-0"])
    assert group.own("a", 50) == [("1-0", None), ("2-0", {b"n": b"2-0"})]
    assert [(row.delivered_at_ms, row.deliveries) for _, row in group.all_pending()] == [(10, 1), (50, 2)]


def test_ack_says_whether_it_was_pending() -> None:
    stream = filled("1-0")
    group = stream.make_group("g")
    assert not group.ack("1-0")
    group.read("a", 1, 10)
    assert group.ack("1-0")
    assert not group.ack("1-0")
    assert stream.get("1-0") is not None


def test_idle_counts_from_the_delivery_and_is_reset_by_a_claim() -> None:
    stream = filled("1-0")
    group = stream.make_group("g")
    group.read("a", 1, 100)
    pending = group.pending_of("1-0")
    assert pending is not None
    assert pending.idle_ms(150) == 50
    assert pending.idle_ms(90) == 0
    assert group.claim("a", ["1-0"], 160) == ["1-0"]
    assert (pending.idle_ms(161), pending.deliveries) == (1, 1)


def test_claim_leaves_out_what_is_not_pending_or_gone() -> None:
    stream = filled("1-0", "2-0", "3-0")
    group = stream.make_group("g")
    group.read("a", 2, 100)
    stream.delete(["1-0"])
    assert group.claim("b", ["1-0", "2-0", "3-0"], 100) == ["2-0"]
    assert [(entry_id, pending.consumer) for entry_id, pending in group.all_pending()] == [("2-0", "b")]


def test_autoclaim_takes_the_idle_ones_counts_deliveries_and_forgets_bodies_that_are_gone() -> None:
    stream = filled("1-0", "2-0", "3-0", "4-0")
    group = stream.make_group("g")
    group.read("a", 3, 100)
    group.read("b", 1, 900)
    stream.delete(["1-0"])
    claimed, gone = group.autoclaim("c", 500, 10, 1000)
    assert (ids(claimed), gone) == (["2-0", "3-0"], ["1-0"])
    pending = group.pending_of("2-0")
    assert pending is not None
    assert (pending.consumer, pending.deliveries, pending.delivered_at_ms) == ("c", 2, 1000)
    assert group.pending_of("1-0") is None
    assert group.autoclaim("d", 500, 10, 1001) == ([], [])


def test_autoclaim_stops_at_its_count() -> None:
    stream = filled("1-0", "2-0", "3-0")
    group = stream.make_group("g")
    group.read("a", 3, 0)
    claimed, _ = group.autoclaim("b", 0, 2, 10)
    assert ids(claimed) == ["1-0", "2-0"]


def test_a_stream_with_an_id_of_the_far_future_is_wound_back_and_keeps_what_lies_in_it() -> None:
    stream = filled("1-0", "100000000000000-0")
    group = stream.make_group("g")
    assert len(group.read("a", 2, 1000)) == 2
    assert stream.rewind(1000)
    assert [entry_id for entry_id, _ in stream.all()] == ["1-0", "1001-1"]
    assert [row[0] for row in group.all_pending()] == ["1-0"]
    assert ids(group.read("a", 5, 1001)) == ["1001-1"]  # nobody holds it under its new id
    assert stream.add({}, 1002) == "1002-0"
    assert not stream.rewind(1002)


def test_no_hand_is_given_another_id() -> None:
    stream = filled("1-0", "100000000000000-0")
    assert not stream.rewind(1000, hands=True)
    stream.delete(["100000000000000-0"])
    stream.add({}, 0, entry_id=format_id(LAST))
    assert stream.is_full
    assert stream.rewind(1000, hands=True)
    assert [entry_id for entry_id, _ in stream.all()] == ["1-0"]


def test_ids_as_text() -> None:
    assert parse_id("7") == (7, 0)
    assert format_id((7, 3)) == "7-3"
