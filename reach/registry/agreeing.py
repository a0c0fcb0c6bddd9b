"""Several instances of one agent share one declaration: whether one of them may change it, now. Pure."""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from reach.backend.steps import LastBeat
from reach.envelope import records
from reach.envelope.declarations import can_stand_in, declaration_of
from reach.envelope.registration import Registration
from reach.errors import RecordError
from reach.routing.agents import SUSPECT_MS


class Other(NamedTuple):
    """Another instance that lives and takes work. `declares`: its label, None where it has none."""

    instance_id: str
    declares: str | None


class Verdict(NamedTuple):
    """What becomes of a declaration.

    write: it is the agent's from now on. same: it was that already. joins: this instance may work, and what it declares otherwise counts
    when `others` are gone or declare it too. conflict: `others` live, and declare something else.
    """

    what: Literal["write", "same", "joins", "conflict"]
    others: tuple[str, ...] = ()


def others_of(beats: Iterable[LastBeat], instance_id: str, now_ms: int) -> list[Other]:
    """The instances that the declaration binds, beside this one: who is silent or drains takes nothing more."""
    found = []
    for last in beats:
        if last.instance_id == instance_id or now_ms - last.at_ms >= SUSPECT_MS:
            continue
        try:
            beat = records.decode_beat(last.beat)
        except RecordError:  # nobody knows how it is, but it lives
            found.append(Other(last.instance_id, None))
            continue
        if beat.state != "draining":
            found.append(Other(last.instance_id, beat.declares))
    return sorted(found)


def judge(wanted: Registration, known: Registration, others: Sequence[Other], *, less: bool) -> Verdict:
    """What becomes of `wanted`, where `known` is declared.

    `less`: a running instance takes something away. Nobody is harmed by being sent less, so that needs nobody's consent; of one that
    comes it is an older version more likely than a wish.
    """
    if declaration_of(known) == declaration_of(wanted):
        return Verdict("same")
    apart = tuple(one.instance_id for one in others if wanted.declares is None or one.declares != wanted.declares)
    if not apart or (less and can_stand_in(known, wanted)):
        return Verdict("write")
    if wanted.declares is not None and can_stand_in(wanted, known):
        return Verdict("joins", apart)
    return Verdict("conflict", apart)
