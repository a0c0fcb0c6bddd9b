"""Mutants of hop records that a router makes of what others have done, and of the names of spans."""

from tests.mutants.python import python

_DERIVED, _TELLING, _NAMING = (
    "unit/delivery/test_derived.py",
    "unit/delivery/test_telling.py",
    "unit/tracing/test_naming.py",
)
_RUN = f"{_DERIVED}::test_a_run_that_a_script_tells_of_has_its_moments_and_its_end"
_OTHER_HAND = f"{_DERIVED}::test_of_a_leg_that_another_hand_has_by_now_nothing_is_taken"
_GOES_ON = f"{_DERIVED}::test_a_run_that_has_not_ended_its_leg_ends_nothing"
_OPEN = f"{_DERIVED}::test_of_a_leg_that_is_open_again_nothing_is_taken"
_END = f"{_DERIVED}::test_an_end_that_a_script_tells_of_is_recorded_as_what_it_is"
_COUNTED = f"{_DERIVED}::test_a_leg_that_expires_and_nobody_had_is_counted_as_not_routed"
_WHO = f"{_DERIVED}::test_who_read_without_scripts_is_known_by_what_took_his_answer"
_COMES_BACK = f"{_DERIVED}::test_the_receipt_of_a_run_that_comes_back_stands_at_its_end"
_SLOW = f"{_DERIVED}::test_a_run_does_not_begin_before_it_was_sent_where_the_step_was_slow"
_NO_TIME = f"{_DERIVED}::test_a_run_that_began_after_its_end_took_no_time"
_FORGOTTEN = f"{_DERIVED}::test_a_run_of_a_message_that_is_forgotten_is_told_all_the_same"
_BOXES = f"{_TELLING}::test_a_delivery_is_told_of_each_box_whose_owner_tells_nothing"
_BYTES = f"{_TELLING}::test_the_bytes_of_a_message_say_most"
_WITHOUT = f"{_TELLING}::test_without_them_the_record_knows_the_conversation"
_RECEIPT = f"{_TELLING}::test_the_receipt_of_a_leg_is_that_of_its_record"
_MADE = f"{_TELLING}::test_a_receipt_that_a_router_makes_says_what_it_was_told"
_PARTS = f"{_NAMING}::test_each_part_of_a_name_counts"
_ENDS = f"{_NAMING}::test_an_end_is_named_by_its_leg_and_round_whatever_its_code"
_REFUSED = f"{_NAMING}::test_what_may_be_refused_beside_a_message_that_goes_on_is_named_by_its_code"
_BELOW = f"{_NAMING}::test_a_run_lies_below_its_hand_over_and_its_points_below_it"
_DELIVERY = f"{_NAMING}::test_the_delivery_lies_below_the_end_whoever_tells_of_that"
_BEFORE = f"{_NAMING}::test_what_was_answered_before_its_round_lies_below_what_came_in_this_one"
_DOOR = f"{_NAMING}::test_what_comes_to_the_door_lies_below_its_sender"
_AGAIN = f"{_NAMING}::test_without_a_sender_what_comes_again_lies_below_what_came_first"
_CAME = f"{_NAMING}::test_what_is_refused_lies_below_what_has_come"
_ELSE = f"{_NAMING}::test_all_else_is_named_by_what_it_is_about_else_by_whoever_records_it"

#: Of records, whom no model explores.
GUARDS = frozenset({"derived", "telling", "naming"})

MUTANTS = (
    # ---------------------------------------------------------------- what a router makes of a run or an end
    python(
        "derived, of that hand",
        "delivery/derived",
        "is_it = leg is not None and leg.hand == reference.hand and leg",
        "is_it = leg is not None and leg",
        _OTHER_HAND,
    ),
    python(
        "derived, of what has ended",
        "delivery/derived",
        "leg.hand == reference.hand and leg.finished_at_ms > 0",
        "leg.hand == reference.hand",
        _OPEN,
    ),
    python(
        "derived, ended by this run", "delivery/derived", "record if is_it and said.ended else None", "record", _GOES_ON
    ),
    python("derived, with its end", "delivery/derived", '            told["final"] = said.ended\n', "", _OTHER_HAND),
    python(
        "derived, since when it ran",
        "delivery/derived",
        'taken["at_us"] = told["at_us"] - told.get("duration_us", 0)',
        'taken["at_us"] = told["at_us"]',
        _RUN,
    ),
    python(
        "derived, for no less than no time",
        "delivery/derived",
        "max(said.at - said.began, 0)",
        "said.at - said.began",
        _NO_TIME,
    ),
    python(
        "derived, its end at its end",
        "delivery/derived",
        'running: Told = {**told, "final": False}',
        "running: Told = {**told}",
        _RUN,
    ),
    python(
        "derived, its receipt at its end", "delivery/derived", '        running.pop("receipt", None)\n', "", _COMES_BACK
    ),
    python("derived, begun well", "delivery/derived", '{**running, "code": "", "duration_us": 0}', "{**running}", _RUN),
    python("derived, its run", "delivery/derived", '        told["hand"] = reference.hand\n', "", _RUN),
    python(
        "derived, its round",
        "delivery/derived",
        'told["round"], told["attempt"], told["code"] = said.round,',
        'told["round"], told["attempt"], told["code"] = 1,',
        _FORGOTTEN,
    ),
    python(
        "derived, when it was",
        "delivery/derived",
        'told["at_us"], mark = said.at, self._hops.base.mark()',
        "mark = self._hops.base.mark()",
        _END,
    ),
    python("derived, what it is", "delivery/derived", 'if said.code == "cancelled":', 'if said.code == "ok":', _END),
    python(
        "derived, what was answered",
        "delivery/derived",
        'if said.status == "success":',
        "if said.status is None:",
        _END,
    ),
    python(
        "derived, what has expired",
        "delivery/derived",
        '"message.expired" if said.code in _EXPIRED else',
        '"message.expired" if said.code is None else',
        _END,
    ),
    python(
        "derived, with its receipt",
        "delivery/derived",
        "        if is_it:\n            put_receipt",
        "        if record is None:\n            put_receipt",
        _END,
    ),
    python(
        "derived, and its delivery",
        "delivery/derived",
        "            tell_delivered(self._hops",
        "            (lambda *_: None)(self._hops",
        _END,
    ),
    python("derived, counted", "delivery/derived", '        if not told["agent"]:\n', "        if False:\n", _COUNTED),
    python(
        "derived, counted where nobody had it",
        "delivery/derived",
        '        if not told["agent"]:\n',
        "        if told:\n",
        _COUNTED,
    ),
    python(
        "derived, who it was",
        "delivery/derived",
        "leg.instance or (left.instance if left is not None and is_it else",
        "leg.instance or (leg.instance if left is not None and is_it else",
        _WHO,
    ),
    python(
        "derived, which run it was",
        "delivery/derived",
        "= leg.attempt + 1, leg.agent",
        "= leg.attempt, leg.agent",
        _WHO,
    ),
    python(
        "derived, not before it was sent",
        "delivery/derived",
        "began = min(mark, self._hops.base.mark()",
        "began = (self._hops.base.mark()",
        _SLOW,
    ),
    # ---------------------------------------------------------------- what is said of a message
    python(
        "telling, whom nobody tells for",
        "delivery/telling",
        "if mailbox and not records_deliveries(mailbox):",
        "if mailbox:",
        _BOXES,
    ),
    python(
        "telling, where there is a box",
        "delivery/telling",
        "if mailbox and not records_deliveries(mailbox):",
        "if not records_deliveries(mailbox):",
        _BOXES,
    ),
    python("telling, each box", "delivery/telling", '"entry": f"mail:{mailbox}"', '"entry": "mail"', _BOXES),
    python("telling, that it is no end", "delivery/telling", '("final", "receipt",', '("receipt",', _BOXES),
    python("telling, that it is no run", "delivery/telling", '"chosen", "hand")', '"chosen")', _BOXES),
    python(
        "telling, of what took nobody knows how long", "delivery/telling", '"duration_us", "counts"', '"counts"', _BOXES
    ),
    python(
        "telling, its own trace",
        "delivery/telling",
        "return told, envelope.traces.traceparent",
        "return told, None",
        _BYTES,
    ),
    python(
        "telling, its round", "delivery/telling", 'told: Told = {"round": record.head.round}', "told: Told = {}", _BYTES
    ),
    python(
        "telling, its conversation",
        "delivery/telling",
        '        told["correlation_id"] = conversation_of(record)\n',
        "",
        _WITHOUT,
    ),
    python(
        "telling, that leg",
        "delivery/telling",
        "record.receipts.get(leg) if record",
        "record.receipts.get(0) if record",
        _RECEIPT,
    ),
    python(
        "telling, whose receipt it is",
        "delivery/telling",
        'schema=told.get("schema"), is_ours=is_ours)\n\n\ndef tell',
        'schema=told.get("schema"))\n\n\ndef tell',
        _RECEIPT,
    ),
    python(
        "telling, in which round it answers", "delivery/telling", '"round": told.get("round", 1),', '"round": 1,', _MADE
    ),
    # ---------------------------------------------------------------- the names of spans
    python(
        "naming, a copy", "tracing/naming", '"message.received", round, copy)', '"message.received", round)', _PARTS
    ),
    python(
        "naming, a round", "tracing/naming", '"message.received", round, copy)', '"message.received", copy)', _PARTS
    ),
    python("naming, a hand", "tracing/naming", "point, agent, hand)", "point, agent)", _PARTS),
    python("naming, an agent", "tracing/naming", "point, agent, hand)", "point, hand)", _PARTS),
    python(
        "naming, a point",
        "tracing/naming",
        "span_id_of(msg_id, leg, point, agent, hand)",
        "span_id_of(msg_id, leg, agent, hand)",
        _PARTS,
    ),
    python("naming, an end of a round", "tracing/naming", '"end", round, code', '"end", code', _PARTS),
    python(
        "naming, an end of a leg", "tracing/naming", 'span_id_of(msg_id, leg, "end"', 'span_id_of(msg_id, "end"', _PARTS
    ),
    python("naming, an end alike", "tracing/naming", 'code if code.startswith(_REFUSALS) else "")', "code)", _ENDS),
    python("naming, a refusal", "tracing/naming", 'code if code.startswith(_REFUSALS) else "")', '"")', _REFUSED),
    python(
        "naming, what it is about", "tracing/naming", "point, round, attempt, about)", "point, round, attempt)", _PARTS
    ),
    python("naming, an attempt", "tracing/naming", "point, round, attempt, about)", "point, round, about)", _PARTS),
    python(
        "naming, below its hand-over",
        "tracing/record",
        '"route.sent" if point == "agent.received" else "agent.received"',
        '"route.sent"',
        _BELOW,
    ),
    python(
        "naming, a move as a hand-over",
        "tracing/record",
        "    if hand and point in _SENT:\n",
        '    if hand and point == "route.sent":\n',
        _BELOW,
    ),
    python(
        "naming, an end as no run",
        "tracing/record",
        '    if told.get("final") and point not in _SENT:\n',
        '    if told.get("final") and point not in _SENT and not hand:\n',
        _DELIVERY,
    ),
    python(
        "naming, a delivery below the end",
        "tracing/record",
        '    if point == "message.delivered" and not (told',
        '    if point == "message.matched" and not (told',
        _DELIVERY,
    ),
    python(
        "naming, an answer of before", "tracing/record", ' and not (told.get("stored") and round_ > 1):', ":", _BEFORE
    ),
    python(
        "naming, an answer of this round",
        "tracing/record",
        'told.get("stored") and round_ > 1',
        'told.get("stored")',
        _BEFORE,
    ),
    python(
        "naming, a copy at the door",
        "tracing/record",
        'told.get("entry", "") if told.get("code") == DUPLICATE else "")',
        '"")',
        _DOOR,
    ),
    python(
        "naming, what comes first at the door",
        "tracing/record",
        'told.get("entry", "") if told.get("code") == DUPLICATE else "")',
        'told.get("entry", ""))',
        _DOOR,
    ),
    python(
        "naming, below what came first",
        "tracing/record",
        "return sender if sender or is_first else arrival_span(msg_id, 1)",
        "return sender",
        _AGAIN,
    ),
    python(
        "naming, below what has come",
        "tracing/record",
        '    if point == "message.rejected" and told.get("came"):\n',
        '    if point == "message.rejected" and told.get("stored"):\n',
        _CAME,
    ),
    python(
        "naming, below the copy",
        "tracing/record",
        'told.get("entry", "") if told["came"] == "copy" else "")',
        '"")',
        _CAME,
    ),
    python("naming, by its entry", "tracing/record", 'else told.get("entry") or nonce', "else nonce", _ELSE),
    python(
        "naming, by its hand",
        "tracing/record",
        'about = f"{agent}|{hand}" if hand else',
        'about = f"{agent}" if hand else',
        _ELSE,
    ),
    python(
        "naming, by whoever records it",
        "tracing/record",
        'told.get("entry") or nonce',
        'told.get("entry") or ""',
        _ELSE,
    ),
)
