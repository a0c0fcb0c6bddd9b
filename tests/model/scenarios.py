"""The scenarios: who is there, and which faults may happen, in any order, at any moment. `faults` is what the quick run allows."""

from tests.model.partition import AT_ONCE, AT_TOTAL, BY_CLAIM, Send, Setting

TWIN, STRANGER, OTHER = Send(), Send(sender=1, content=1), Send(content=1)
ROUND_2 = Send(round=2)


def _kinds(text: str) -> frozenset[str]:
    return frozenset(kind.strip() for kind in text.split(","))


ROUTERS = "router dies, reply of read lost, reply of route lost, router slow"
AGENTS = "agent dies, agent stops, reply of take lost, reply of settle lost, retryable, handed back, handler hangs"
AGAINS = "again lost, again doubled, again forged"

SCENARIOS = (
    Setting(
        "doors",
        "routers die, are slow, lose replies; a send and its duplicates",
        _kinds(f"{ROUTERS}, XADD doubled"),
        3,
        within=BY_CLAIM,
    ),
    Setting(
        "lost replies",
        "replies are lost, and everybody lives: nothing has to wait for a claim or a lease",
        _kinds("reply of read lost, reply of route lost, reply of take lost, reply of settle lost, XADD doubled"),
        3,
        within=AT_ONCE,
    ),
    Setting(
        "agents", "two instances of one agent die, stop, hang, lose replies, ask for another try", _kinds(AGENTS), 3
    ),
    Setting(
        "agains",
        "agains are lost, doubled and forged, and meet slow routers",
        _kinds(f"{AGAINS}, router slow, retryable, delay, slow inbox, agent dies"),
        2,
        agents=2,
        instances=1,
    ),
    Setting(
        "moves",
        "an inbox that nobody reads, another agent that could; plain readers, slow routers",
        _kinds("slow inbox, router slow, again doubled, plain reader, inbox full, agent dies"),
        3,
        agents=2,
        instances=1,
    ),
    Setting(
        "moves outage",
        "the same, and Redis is away for longer than a lease before, between and after the moves",
        _kinds("slow inbox, outage, router slow, again doubled, plain reader, agent dies, agent stops, retryable"),
        3,
        agents=2,
        instances=1,
    ),
    Setting(
        "plain agents",
        "an agent without scripts answers through `receipts`",
        _kinds(f"plain reader, {ROUTERS}, agent stops, agent dies, retryable, ttl, receipt doubled, receipt forged"),
        3,
        instances=1,
    ),
    Setting(
        "duplicates",
        "twins, strangers and other content under one msg_id",
        _kinds("another caller, XADD doubled, reply of route lost, router slow, retryable, cancel"),
        3,
        sends=(Send(), TWIN, TWIN, STRANGER, OTHER),
        instances=1,
    ),
    Setting(
        "cancel",
        "cancelled before, while and after it is routed, by its sender and by others",
        _kinds(
            "cancel, stranger cancels, XADD doubled, another caller, router slow, retryable, agent stops, reply of settle lost, "
            "forged hint"
        ),
        3,
        sends=(Send(), STRANGER),
        instances=1,
    ),
    Setting(
        "rounds",
        "a second round, early and late; cancels of both; old results, agains and decisions",
        _kinds(
            "another caller, XADD doubled, cancel, cancel round 2, delay, router slow, total, agent stops, again doubled"
        ),
        2,
        sends=(Send(), ROUND_2),
        instances=1,
    ),
    Setting(
        "waiting rounds",
        "a round that ended while it waited is opened again, and waits",
        _kinds("another caller, total, delay"),
        4,
        sends=(Send(), ROUND_2),
        instances=1,
    ),
    Setting(
        "expiry",
        "ttl and total pass at any moment",
        _kinds("ttl, total, agent dies, agent stops, reply of take lost, retryable, delay, slow inbox, again lost"),
        3,
        instances=1,
    ),
    Setting(
        "broadcast",
        "a leg for each of two agents",
        _kinds("router dies, router slow, agent dies, agent stops, retryable, cancel, again doubled, total, delay"),
        2,
        broadcast=True,
        agents=2,
        instances=1,
    ),
    Setting(
        "broadcast rounds",
        "a cancel of the second round, before and after the first has ended, in part or in whole",
        _kinds("another caller, cancel, cancel round 2, XADD doubled, total, router slow"),
        3,
        broadcast=True,
        agents=2,
        instances=1,
        sends=(Send(), ROUND_2),
    ),
    Setting(
        "large broadcast",
        "the same, with the bytes in env and not in the entries",
        _kinds("router dies, agent dies, agent stops, retryable, cancel, reply of take lost, env lost, inbox lost"),
        2,
        broadcast=True,
        large=True,
        agents=2,
        instances=1,
    ),
    Setting(
        "broadcast gone",
        "agents of a broadcast are removed, and callers come again with another round",
        _kinds("inbox removed, another caller, agent stops, retryable, total, delay, XADD doubled"),
        2,
        broadcast=True,
        agents=2,
        instances=1,
        sends=(Send(), ROUND_2),
    ),
    Setting(
        "inbox removed",
        "an agent is removed while it works",
        _kinds("inbox removed, agent stops, agent dies, retryable, slow inbox, router slow, reply of take lost"),
        3,
        agents=2,
        instances=1,
    ),
    Setting(
        "keys lost",
        "inboxes and env are deleted, the mailbox is spoilt",
        _kinds("inbox lost, env lost, mailbox spoilt, retryable, agent dies, router dies, delay"),
        3,
    ),
    Setting(
        "best",
        "an answer that is not sure enough is kept, one other agent is asked; cancelled, past total, or lost with its agent",
        _kinds(
            "unsure, guess, retryable, handed back, cancel, total, agent dies, agent stops, again lost, reply of settle lost"
        ),
        3,
        agents=2,
        instances=1,
    ),
    Setting(
        "best moves",
        "the same, with inboxes that nobody reads, plain readers, agents that are removed, slow routers",
        _kinds("unsure, slow inbox, plain reader, inbox removed, router slow, agent stops, retryable"),
        2,
        agents=3,
        instances=1,
    ),
    Setting(
        "best rounds",
        "the same, with a second round before and after its end",
        _kinds("unsure, retryable, another caller, XADD doubled, total, cancel, cancel round 2, delay"),
        3,
        sends=(Send(), ROUND_2),
        agents=2,
        instances=1,
    ),
    Setting(
        "best lost",
        "the same, when Redis restarts with an earlier state, or has lost inboxes and bytes",
        _kinds("unsure, guess, tail lost, agent dies, inbox lost, env lost, router slow"),
        3,
        agents=2,
        instances=1,
    ),
    Setting(
        "best broadcast",
        "a leg of a broadcast is its own agent's alone, however sure that is",
        _kinds("unsure, retryable, cancel, agent stops"),
        2,
        broadcast=True,
        agents=2,
        instances=1,
    ),
    Setting(
        "questions",
        "handlers ask, some go on all the same; answers come twice, or never; agents die, the caller cancels",
        _kinds(
            "asks, asks on, answer doubled, question closes, cancel, agent dies, reply of settle lost, again lost, retryable"
        ),
        3,
        instances=1,
    ),
    Setting(
        "best questions",
        "the same, with answers that are not sure enough: a second opinion that asks is still the second one",
        _kinds("asks, answer doubled, question closes, unsure, retryable, cancel, agent stops"),
        3,
        agents=2,
        instances=1,
    ),
    Setting(
        "lost questions",
        "the same, with inboxes that are removed, bytes that are lost, routers that are slow",
        _kinds(
            "asks, asks on, answer doubled, inbox removed, env lost, router slow, again doubled, plain reader, total"
        ),
        2,
        agents=2,
        instances=1,
    ),
    Setting(
        "broadcast questions",
        "each leg of a broadcast asks for itself",
        _kinds("asks, answer doubled, cancel, retryable, agent stops"),
        2,
        broadcast=True,
        agents=2,
        instances=1,
    ),
    Setting(
        "groups lost",
        "the group of an inbox is lost and made anew",
        _kinds("group lost, agent dies, retryable, reply of take lost, total"),
        3,
    ),
    Setting(
        "due lost",
        "the zset `due` is deleted: callers end their own messages",
        _kinds("due lost, again lost, retryable"),
        2,
        within=AT_TOTAL,
    ),
    Setting(
        "outage",
        "Redis is away for longer than a lease",
        _kinds("outage, agent dies, agent stops, retryable, ttl, again lost, slow inbox"),
        3,
    ),
    Setting(
        "lost tail",
        "Redis restarts with an earlier state",
        _kinds("tail lost, agent dies, retryable, XADD doubled, router slow, cancel"),
        3,
    ),
    Setting(
        "window", "a duplicate comes when everything is over", _kinds("XADD doubled, record expires, router slow"), 3
    ),
    Setting(
        "everything",
        "all faults of routers, agents, callers, agains and time together",
        _kinds(
            f"{ROUTERS}, {AGENTS}, {AGAINS}, another caller, XADD doubled, cancel, ttl, total, delay, slow inbox, plain reader"
        ),
        2,
        agents=2,
        sends=(Send(), ROUND_2),
    ),
)
BY_NAME = {setting.name: setting for setting in SCENARIOS}
