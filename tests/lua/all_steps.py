"""A walk through every step of the package, on one partition and one env."""

from reach.backend import scripts
from reach.backend.port import Backend
from reach.backend.steps import Again, Meeting, Over, Parking, Plan, Refuse, Send, Settlement, Turn
from reach.envelope.ledger import LegState
from reach.envelope.registration import Rate
from tests.contract.drive import ENVELOPE, head_of, new_id, retryable, success

#: the one that reads and writes keys of the env; everything else lives in a partition
ENV_STEPS = frozenset(
    {
        "register",
        "remove",
        "beat",
        "overdue",
        "moment",
        "leave",
        "set_meta",
        "lock",
        "converse",
        "spend",
        "spend_rate",
        "tell_circuit",
        "write_schema",
        "meet",
        "met",
        "recorder",
    }
)
EVERYWHERE = frozenset({"heal_key", "finish"})


def partition_steps() -> frozenset[str]:
    return frozenset(scripts.names()) - ENV_STEPS


async def walk_partition(backend: Backend) -> None:
    """Every step of a partition at least once, with what it writes elsewhere in the partition."""
    await backend.keep_mailbox("box", [0])
    await backend.open_inbox(0, "a1")
    await backend.open_inbox(0, "a2")
    await backend.submit(0, "normal", ENVELOPE)
    await backend.submit(0, "normal", ENVELOPE)
    await backend.submit(0, "low", b"junk")
    one, two, junk = await backend.read_work("w", [0], 10, 0)
    single, wide = new_id(), new_id()
    dead = {"m": b"", "e": b"junk", "r": b"{}", "h": b"[]"}
    results = await backend.route(
        0,
        [
            Send(one, single, head_of(single), (Plan("deliver", "a1"),), ENVELOPE, "box", "{}"),
            Send(
                two, wide, head_of(wide, scope="all"), (Plan("deliver", "a1"), Plan("deliver", "a2")), ENVELOPE, "box"
            ),
            Refuse(junk, "box", b"{}", dead),
        ],
    )
    assert [result.verdict for result in results] == ["done"] * 3, results
    first, second = (await backend.take(0, "a1", "i1", 10)).taken
    assert await backend.renew(0, "a1", "i1", {"normal": [first.hand, second.hand]}) == {first.hand, second.hand}
    assert await backend.progress(0, single, 0, first.hand, b'{"notice":"progress"}')
    assert (await backend.once_take(0, single, 0, first.hand, "book", "i1", 15_000)).state == "mine"
    assert await backend.once_end(0, single, "book", "i1", b"1")
    parking = Parking(single, 0, first.hand, b'"?"', "i1", b"1", guards=("book",))
    assert await backend.park(0, "a1", parking) == "done"
    assert await backend.answer(0, single, "sender-1", 0, first.hand, b"true") == "done"
    (parked,) = await backend.read_work("w", [0], 10, 0)
    deliver = Again(parked, single, 0, first.hand, LegState.RETURNED, 0, Plan("deliver", "a1"))
    (result,) = await backend.route(0, [deliver])
    assert result.verdict == "done", result
    (first,) = (await backend.take(0, "a1", "i1", 1)).taken
    settled = await backend.settle(
        0,
        "a1",
        [
            Settlement(single, 0, first.hand, retryable(), "i1"),
            Settlement(wide, 0, second.hand, success(), "i1"),
        ],
    )
    assert settled == ["done", "done"]
    (asked,) = await backend.read_work("w", [0], 10, 0)
    again = Again(asked, single, 0, first.hand, LegState.RETURNED, 1, Plan("finish", answer=retryable(), dead=True))
    (result,) = await backend.route(0, [again])
    assert result.verdict == "done", result
    assert (await backend.due(0)).events == ()
    assert (await backend.circuits(0)).are == {}
    assert (await backend.cancel(0, wide, "sender-1", 1, 0)).what == "cancelled"
    assert await backend.inspect(0, single, envelope=True) is not None
    assert await backend.claim_work("w", 0, 1_000) == []
    await backend.finish_work(0, [asked])
    assert await backend.read_mail("box", {0: "0"}, 0)
    await backend.record(0, b"[]")
    followed = await backend.follow_events(0, "g", "r")
    await backend.finish_events(0, "g", [entry_id for entry_id, _ in followed.batches])
    await backend.unfollow_events(0, "g", "r")
    (letter, _), _ = await backend.dead_letters(0)
    assert await backend.requeue(0, "normal", ENVELOPE, letter)
    assert len(await backend.dead_letters(0)) == 1
    await backend.drop_consumer("i1", [0], "a1")
    assert await backend.close_inbox(0, "a1")
    assert await backend.close_inbox(0, "a2")


async def walk_env(backend: Backend) -> None:
    """Every step of an env at least once."""
    assert (await backend.register("a1", b'{"agent_id":"a1"}', "i1", b"{}", None, ["request"])).ok
    assert (await backend.beat("a1", "i1", b'{"state":"busy"}')).known
    await backend.set_meta("routes", "capability:x", b"{}")
    await backend.set_meta("rules", "x", b"{}")
    assert await backend.swap_meta("rules", "x", b"[]", b"{}")
    assert await backend.lock("reaper", "w1", 1_000)
    assert await backend.spend_rate("a1", Rate(1_000, 0), 0) == 0
    assert await backend.tell_circuit("a1/0", b'{"until_ms":1,"why":"2"}')
    assert await backend.write_schema("a", None, b"{}", "a.v1", b"{}") == "done"
    assert (await backend.read_schemas(["a.v1"]), await backend.read_families(["a"])) == ({"a.v1": b"{}"}, {"a": b"{}"})
    assert await backend.read_meta(["privacy"]) == {}
    entry_id = await backend.send_control(b"{}")
    assert await backend.read_control("w1", 0) == [(entry_id, b"{}")]
    await backend.finish_control(entry_id)
    assert (await backend.snapshot()).agents
    assert await backend.leave("a1", "i1")
    stored, _ = await backend.registration("a1")
    assert await backend.moment()
    assert await backend.overdue_beats(0) == []
    await backend.tell_recorder("n/w", 1)
    assert await backend.silent_recorders(2) == [("n/w", 1)]
    assert await backend.forget_recorder("n/w", 2)
    assert await backend.remove("a1", stored or b"", 0, "left")
    assert (await backend.snapshot()).gone
    assert await backend.changes("0-0", 0)
    assert await backend.converse([Turn(conversation="c", msg_id="m")], 1, 1) == [Over()]
    assert await backend.spend("c", "m:0:1:1", 1, 1)
    await backend.meet([Meeting("s", "c0", "a1")])
    assert [one.here for one in (await backend.met([("s", "c0")]))[0]] == [False, True]
