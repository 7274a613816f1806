"""Computing a product's left side inside of its kernel: a norm before it, or a gate, as a part of the product.

Products of few rows wait for memory, and what is before them is small: a kernel of its own takes longer to start than every worker
takes to compute the row that it multiplies.
"""

from __future__ import annotations

from typing import Any

from ..ir.expression import Expression, rewrite, topological
from ..ir.kernels import Contraction, Pointwise, PreparedContraction, Reduction, RowProgram, roots_of
from ..ir.layouts import contiguous_strides, number_of_elements
from ..ir.reindexing import reindex
from .domain import groups, schedule_cache, split_dimensions
from .merging import common_refinement, drop_ones, join_names
from .placing import Compact, Numbers, Placed, compact, renumbered, taken, united


def prepared(consumer: Placed, slot: int, producer: Placed) -> Placed | None:
    """Return a contraction that computes what its left side loads from a slot; None where it cannot.

    Args:
        consumer: what loads the slot.
        slot: where the producer's only output is.
        producer: a row program or a pointwise kernel.
    """
    kernel = producer.kernel
    if type(consumer.kernel) is not Contraction or not isinstance(kernel, RowProgram | Pointwise):
        return None
    if len(kernel.stores) != 1 or len(kernel.all_stores()) != 1 or not kernel.stores[0].is_plain:
        return None
    slots, (_, loaded) = united(consumer.slots, producer.slots)
    parameters, (_, numbers) = united(consumer.parameters, producer.parameters)
    found = _with_left(consumer.kernel, slots.index(slot), kernel, (loaded, numbers))
    return None if found is None else Placed(found[0], taken(slots, found[1]), taken(parameters, found[2]))


@schedule_cache
def _with_left(consumer: Any, slot: int, producer: Any, numbers: tuple[Numbers, Numbers]) -> Compact | None:
    found = _prepared(drop_ones(consumer), slot, drop_ones(renumbered(producer, *numbers)))
    return None if found is None else compact(found)


def _prepared(consumer: Contraction, slot: int, producer: RowProgram | Pointwise) -> PreparedContraction | None:
    load = _only_load(consumer, slot)
    store, domain = producer.stores[0], tuple(size for group in groups(producer) for size in group)
    if load is None or store.offset or store.strides != contiguous_strides(domain):
        return None
    _, offset, strides = load.payload
    strides += (0,) * (len(consumer.batch + consumer.m + consumer.n + consumer.k) - len(strides))
    first, last = len(consumer.batch + consumer.m), len(consumer.batch + consumer.m + consumer.n)
    rows, whole = consumer.batch + consumer.m, consumer.batch + consumer.m + consumer.k
    if offset or any(strides[first:last]) or strides[:first] + strides[last:] != contiguous_strides(whole):
        return None
    if isinstance(producer, RowProgram) and number_of_elements(rows) != number_of_elements(producer.outer):
        return None
    refined = common_refinement(list(whole), list(domain))
    if refined is None:
        return None
    places = [*range(first), *range(last, last + len(consumer.k))]
    consumer = split_dimensions(consumer, dict(zip(places, refined[0], strict=True)))
    producer = split_dimensions(producer, dict(enumerate(refined[1])))
    return _put_inside(consumer, slot, producer)


def _only_load(consumer: Contraction, slot: int) -> Expression | None:
    """Return the load of a slot that a contraction's left side has; None where it, or another part, reads the slot otherwise."""
    nodes = {node for root in consumer.expressions() for node in topological(root)}
    found = [node for node in nodes if node.step == "load" and node.payload[0] == slot]
    if len(found) != 1 or any(node.step == "load_at" and node.payload == slot for node in nodes):
        return None
    others = (consumer.right, *roots_of(consumer.stores))
    return None if found[0] in topological(*others) else found[0]


def _put_inside(consumer: Contraction, slot: int, producer: RowProgram | Pointwise) -> PreparedContraction:
    """Return the contraction that computes what it loads from a slot; its dimensions but n are the producer's."""
    rows, columns = len(consumer.batch + consumer.m), len(consumer.n)
    terms = tuple(
        () if rows <= place < rows + columns else ((place if place < rows else place - columns, 1),)
        for place in range(rows + columns + len(consumer.k))
    )
    value = reindex(producer.stores[0].value, terms)
    reductions = producer.reductions if isinstance(producer, RowProgram) else ()

    def computed(node: Expression, _: tuple[Expression, ...]) -> Expression | None:
        return value if node.step == "load" and node.payload[0] == slot else None

    changes = {name: getattr(consumer, name) for name in Contraction.fields}
    changes["name"] = join_names(producer, consumer)
    changes["left"] = rewrite(consumer.left, computed)
    changes["reductions"] = tuple([Reduction(each.monoid, reindex(each.value, terms)) for each in reductions])
    return PreparedContraction(**changes)
