"""Which messages a subscription may get, and which it must get: the rules of the modes, on the
model alone.
"""

from tests.stateful.model import Cell, Claim, Lane, Model, Span

__all__ = ["check_given", "must_be_had"]


def _held(lane: Lane, claim: Claim | None, at: Span) -> bool:
    """Return whether the claim certainly kept others away.

    An owner takes a pinned one over at once.
    """
    return claim is not None and claim.state == "open" and claim.end[0] > at[1] and lane.owner is None


def _perhaps_held(lane: Lane, claim: Claim | None, at: Span) -> bool:
    return claim is not None and claim.alive(at[0]) and lane.owner is None


def _free(lane: Lane, cell: Cell, at: Span) -> bool:
    """Return whether the cell was certainly free."""
    return not _perhaps_held(lane, cell.claim, at) and cell.until[1] <= at[0]


def _backs_off(cell: Cell, at: Span) -> bool:
    """Return whether a failed message certainly still waited at its place."""
    return cell.claim is None and cell.until[0] > at[1]


def check_given(model: Model, lane: Lane, offsets: list[int], at: Span, consumer: str) -> None:
    """Assert I9, and the order that the mode promises."""
    if lane.by_owner:
        _for_the_owner(model, lane, offsets, consumer)
        return
    for offset in offsets:
        cell = lane.cells.get(offset)
        assert cell is None or not _held(lane, cell.claim, at), f"I9: {offset} is claimed"
        assert cell is None or not _backs_off(cell, at), f"I9: {offset} waits for its next attempt"
    if lane.sub.mode == "shared":
        _in_ranges(model, lane, offsets, at)
        return
    assert not any(_held(lane, claim, at) for claim in lane.claims), "I9: the queue has an open claim"
    if lane.sub.on_failure == "block_key" and lane.queue_id >= 0:
        _behind_no_other_of_its_key(model, lane, offsets)
        return
    if lane.sub.on_failure == "block_queue":
        assert not any(_backs_off(cell, at) for cell in lane.cells.values()), "a failed message was overtaken"
    expected = (sorted(lane.cells) or model.fresh(lane))[: len(offsets)]
    assert offsets == expected, f"out of order: {offsets}, not {expected}"


def _is_for(model: Model, lane: Lane, offset: int, consumer: str) -> bool:
    """Return whether a retry is for the consumer, and no other one holds it, whatever the lease."""
    claim = lane.cells[offset].claim if offset in lane.cells else None
    if claim is not None and claim.state == "open":
        return claim.consumer == consumer
    return model.queue_of(lane, offset).owner in (None, consumer)


def _for_the_owner(model: Model, lane: Lane, offsets: list[int], consumer: str) -> None:
    for offset in offsets:
        assert _is_for(model, lane, offset, consumer), f"{offset} is for another consumer"
    first = [o for o in model.pending(lane) if _is_for(model, lane, o, consumer) and o < offsets[0]]
    assert all(model.queue_of(lane, o).owner is None for o in first), f"{first} were to be had before {offsets}"
    assert offsets == sorted(offsets)


def _in_ranges(model: Model, lane: Lane, offsets: list[int], at: Span) -> None:
    """Assert for mode shared that all are of one earlier delivery, or all fresh.

    What was released comes first.
    """
    old = [lane.cells[o].claim for o in offsets if o in lane.cells]
    if old:
        assert len(old) == len(offsets), "old and fresh messages in one delivery"
        assert len({id(claim) for claim in old}) == 1, "messages of several deliveries in one"
        return
    expected = model.fresh(lane)[: len(offsets)]
    assert offsets == expected, f"out of order: {offsets}, not {expected}"
    left = [o for o, cell in lane.cells.items() if _free(lane, cell, at)]
    assert not left, f"{left} were to be had and newer ones were given out"


def _behind_no_other_of_its_key(model: Model, lane: Lane, offsets: list[int]) -> None:
    rows = model.rows(lane)
    given = set(offsets)
    for offset in offsets:
        key = rows[offset].key
        before = [o for o in model.pending(lane) if o < offset and rows[o].key == key and o not in given]
        assert key is None or not before, f"{offset} overtook {before} of its key"


def must_be_had(model: Model, lane: Lane, at: Span, consumer: str) -> list[int]:
    """Return offsets of which a receive had to return at least one, because no other transaction
    was in its way.
    """
    cells, fresh, sub = lane.cells, model.fresh(lane), lane.sub
    if lane.by_owner:
        return [
            o for o in model.pending(lane)
            if _is_for(model, lane, o, consumer) and model.queue_of(lane, o).owner is not None
            and model.attempt(lane, o) <= sub.max_attempts
        ]  # fmt: skip
    left = [o for o, cell in cells.items() if _free(lane, cell, at) and model.attempt(lane, o) <= sub.max_attempts]
    if sub.mode == "shared":
        return left + fresh
    if any(_perhaps_held(lane, claim, at) for claim in lane.claims):
        return []
    if sub.on_failure == "block_key" and lane.queue_id >= 0:
        return _first_of_keys(model, lane, left + fresh)
    if any(cell.until[1] > at[0] for cell in cells.values()):
        return []
    return left if cells else fresh


def _first_of_keys(model: Model, lane: Lane, there: list[int]) -> list[int]:
    rows, found, blocked = model.rows(lane), [], set()
    for offset in model.pending(lane):
        key = rows[offset].key
        if offset in there and (key is None or key not in blocked):
            found.append(offset)
        blocked.add(key)
    return found
