"""Joining kernels that range over one domain: epilogues, row programs, and several outputs in one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ir.expression import Expression, make, rewrite, topological
from ..ir.kernels import Contraction, Kernel, Pointwise, Reduction, RowProgram, Scatter, Store
from ..ir.layouts import Shape, contiguous_strides, number_of_elements
from ..ir.records import Record
from .domain import groups, schedule_cache, split_dimensions, store_domain
from .placing import Compact, Numbers, Placed, compact, renumbered, taken, united
from .writing import as_stores, widened

#: most reductions of a row program that was merged for the sake of what it reads
MOST_REDUCTIONS = 8


def common_refinement(left: list[int], right: list[int]) -> tuple[list[Shape], list[Shape]] | None:
    """Return how to split two factorizations of one number so that they become equal, or None."""
    if 0 in left or 0 in right:
        return None
    left_parts: list[list[int]] = [[] for _ in left]
    right_parts: list[list[int]] = [[] for _ in right]
    i, j = len(left) - 1, len(right) - 1
    a = left[i] if left else 1
    b = right[j] if right else 1
    while i >= 0 and j >= 0:
        small = min(a, b)
        if max(a, b) % small:
            return None
        left_parts[i].insert(0, small)
        right_parts[j].insert(0, small)
        a, b = a // small, b // small
        if a == 1:
            i -= 1
            a = left[i] if i >= 0 else 1
        if b == 1:
            j -= 1
            b = right[j] if j >= 0 else 1
    if any(size != 1 for size in left[: i + 1]) or any(size != 1 for size in right[: j + 1]):
        return None
    return [tuple(each) for each in left_parts], [tuple(each) for each in right_parts]


def drop_ones(kernel: Any) -> Any:
    """Return the kernel without dimensions of size 1."""
    sizes = [size for group in groups(kernel) for size in group]
    if 1 not in sizes:
        return kernel
    terms = tuple(((index, 1),) for index, size in enumerate(sizes) if size != 1)
    return kernel.reindexed([tuple(size for size in group if size != 1) for group in groups(kernel)], terms)


def _full_store(kernel: Any, slot: int, outputs: tuple[int, ...]) -> Store | None:
    for store in kernel.stores:
        if outputs[store.output] == slot:
            return store
    return None


def _loads_of(kernel: Kernel, slots: set[int]) -> list[Expression]:
    found = []
    for root in kernel.expressions():
        for node in topological(root):
            if node.step == "load" and node.payload[0] in slots and node not in found:
                found.append(node)
    return found


def _computed_slots(kernel: Kernel) -> set[int]:
    return {node.payload for root in kernel.expressions() for node in topological(root) if node.step == "load_at"}


def align_to_stores(consumer: Pointwise, producer: Any, load: Expression, store: Store) -> tuple[Any, Any] | None:
    """Return both kernels refined so that consumer coordinates are the producer's store coordinates, in its order.

    ``load`` reads every element of the value that ``store`` writes exactly once, in any order of dimensions.
    """
    consumer, producer = drop_ones(consumer), drop_ones(producer)
    _, _, strides = _only_load(consumer, load.payload[0])
    store = next(each for each in producer.stores if each.output == store.output)
    domain = store_domain(producer)
    if store.offset or store.strides != contiguous_strides(domain):
        # The stores of one kernel may be permuted: order the producer's dimensions by their stride instead.
        order = sorted(range(len(domain)), key=lambda index: -store.strides[index])
        if store.offset or tuple(store.strides[i] for i in order) != contiguous_strides([domain[i] for i in order]):
            return None
    else:
        order = list(range(len(domain)))
    mine = sorted(range(len(strides)), key=lambda index: -strides[index])
    if any(strides[index] <= 0 for index in mine):
        return None
    if tuple(strides[index] for index in mine) != contiguous_strides([consumer.shape[index] for index in mine]):
        return None
    refined = common_refinement([consumer.shape[index] for index in mine], [domain[index] for index in order])
    if refined is None:
        return None
    consumer = split_dimensions(consumer, dict(zip(mine, refined[0], strict=True)))
    producer = split_dimensions(producer, dict(zip(order, refined[1], strict=True)))
    return _permute_to(consumer, producer, load.payload[0], store.output)


def _only_load(kernel: Kernel, slot: int) -> Any:
    return _loads_of(kernel, {slot})[0].payload


def _permute_to(consumer: Pointwise, producer: Any, slot: int, output: int) -> tuple[Any, Any] | None:
    """Return the consumer with its dimensions in the order of the producer's store (sizes already match)."""
    store = next(each for each in producer.stores if each.output == output)
    _, _, strides = _only_load(consumer, slot)
    position = {stride: index for index, stride in enumerate(strides)}
    domain = store_domain(producer)
    if len(position) != len(strides) or sorted(strides) != sorted(store.strides):
        return None
    order = [position[stride] for stride in store.strides]
    terms = tuple(((index, 1),) for index in order)
    return consumer.reindexed([domain], terms), producer


def merge_epilogue(consumer: Pointwise, producer: Any, outputs: Numbers) -> Any:
    """Return the producer (pointwise or contraction) with the consumer's stores appended, or None.

    Every load the consumer makes of the producer's values must read the element stored at the same coordinates.
    """
    shared = set(outputs)
    if shared & _computed_slots(consumer):
        return None
    loads = _loads_of(consumer, shared)
    if not loads:
        return None
    store = _full_store(producer, loads[0].payload[0], outputs)
    if store is None:
        return None
    aligned = align_to_stores(consumer, producer, loads[0], store)
    if aligned is None:
        return None
    consumer, producer = aligned
    values: dict[Expression, Expression] = {}
    for load in _loads_of(consumer, shared):
        slot, offset, strides = load.payload
        match = _full_store(producer, slot, outputs)
        if match is None or (match.offset, match.strides) != (offset, strides):
            return None
        values[load] = match.value
    return _append(consumer, producer, values)


def _append(consumer: Pointwise, producer: Any, values: dict[Expression, Expression]) -> Any:
    return producer.replace(
        stores=producer.stores + _moved_stores(consumer, len(producer.outputs), values),
        outputs=producer.outputs + consumer.outputs,
        name=join_names(producer, consumer),
    )


def _moved_stores(consumer: Pointwise, base: int, values: dict[Expression, Expression]) -> tuple[Store, ...]:
    """Return a consumer's stores behind ``base`` outputs of the kernel that it becomes a part of, with values for its loads."""

    def moved(value: Expression) -> Expression:
        return rewrite(value, lambda node, _: values.get(node), ("load",)) if values else value

    return tuple([each.mapped(moved, base) for each in consumer.stores])


def merge_write(
    consumer: Scatter, producer: RowProgram | Contraction | Pointwise, outputs: Numbers
) -> RowProgram | Contraction | Pointwise | None:
    """Return the producer with stores of what a scatter writes of its values, all or some, into something else, or None."""
    if consumer.monoid is not None:
        return None
    stores = drop_ones(as_stores(consumer))
    found = merge_into_rows(stores, producer, outputs) if isinstance(producer, RowProgram) else None
    if found is not None:
        return found
    loads = _loads_of(stores, set(outputs))
    known = [_full_store(producer, each.payload[0], outputs) for each in loads[:1]]
    if not known or known[0] is None:
        return None
    wide = widened(stores, loads[0], producer.outputs[known[0].output].numel)
    return None if wide is None else merge_epilogue(wide, producer, outputs)


def join_names(first: Kernel, second: Kernel) -> str:
    """Return a readable name for a merged kernel: the operations in order, cut in the middle when long."""
    names = first.name.split("+") + second.name.split("+")
    return "+".join(names if len(names) <= 6 else [*names[:3], "…", *names[-2:]])


def merge_side_by_side(consumer: Pointwise, other: Pointwise, outputs: Numbers) -> Pointwise | None:
    """Return one kernel for two independent pointwise kernels over equal domains."""
    consumer, other = drop_ones(consumer), drop_ones(other)
    if consumer.shape != other.shape:
        refined = common_refinement(list(consumer.shape), list(other.shape))
        if refined is None:
            return None
        consumer = split_dimensions(consumer, dict(enumerate(refined[0])))
        other = split_dimensions(other, dict(enumerate(refined[1])))
    return _append(consumer, other, {})


def merge_into_rows(consumer: Any, rows: RowProgram, outputs: Numbers) -> RowProgram | None:
    """Return the row program with a consumer of its row results (pointwise or another row program) appended, or None."""
    shared = set(outputs)
    if shared & _computed_slots(consumer):
        return None
    consumer, rows = drop_ones(consumer), drop_ones(rows)
    if consumer.elements() > number_of_elements(rows.outer) and not _keeps_parallelism(rows):
        return None
    aligned = _align_to_rows(consumer, rows, shared, outputs)
    if aligned is None:
        return None
    consumer, rows, per_row = aligned
    values = _row_values(consumer, rows, shared, outputs)
    if values is None:
        return None
    if isinstance(consumer, RowProgram):
        return _append_reductions(consumer, rows, values)
    field = "row_stores" if per_row else "stores"
    return rows.replace(
        **{field: getattr(rows, field) + _moved_stores(consumer, len(rows.outputs), values)},
        outputs=rows.outputs + consumer.outputs,
        name=join_names(rows, consumer),
    )


def _keeps_parallelism(rows: RowProgram) -> bool:
    """Return whether one worker per row still fills a device: few rows must not be very long ones."""
    return number_of_elements(rows.inner) <= 32768 or number_of_elements(rows.outer) >= 512


def _row_values(
    consumer: Any, rows: RowProgram, shared: set[int], row_outputs: tuple[int, ...]
) -> dict[Expression, Expression] | None:
    """Return what each load of a row program's output becomes inside it, or None where one reads other elements."""
    depth = len(rows.outer)
    full = depth + len(rows.inner)
    values: dict[Expression, Expression] = {}
    for load in _loads_of(consumer, shared):
        slot, offset, strides = load.payload
        padded = strides + (0,) * (full - len(strides))
        for store in rows.row_stores:
            if row_outputs[store.output] == slot and (store.offset, store.strides) == (offset, padded[:depth]):
                if any(padded[depth:]):
                    return None
                values[load] = store.value
        for store in rows.stores:
            if row_outputs[store.output] == slot and (store.offset, store.strides) == (offset, strides):
                values[load] = store.value
        if load not in values:
            return None
    return values


def _align_to_rows(
    consumer: Any, rows: RowProgram, shared: set[int], row_outputs: tuple[int, ...]
) -> tuple[Any, RowProgram, bool] | None:
    """Return both kernels with equal dimensions in equal order, and whether the consumer covers rows only."""
    loads = _loads_of(consumer, shared)
    domain = tuple(size for group in groups(consumer) for size in group)
    if isinstance(consumer, RowProgram):
        outer, inner = list(range(len(consumer.outer))), list(range(len(consumer.outer), len(domain)))
        if not inner and rows.inner:
            # Reductions of single elements must not run over the producer's rows.
            return None
    else:
        strides = _guide(loads, rows, row_outputs)
        if strides is None:
            return None
        outer = [index for index, stride in enumerate(strides) if stride != 0]
        inner = [index for index, stride in enumerate(strides) if stride == 0]
    first = common_refinement([domain[index] for index in outer], list(rows.outer))
    if first is None:
        return None
    second = (
        common_refinement([domain[index] for index in inner], list(rows.inner))
        if inner
        else ([], [(n,) for n in rows.inner])
    )
    if second is None:
        return None
    consumer = split_dimensions(consumer, dict(zip(outer + inner, first[0] + second[0], strict=True)))
    rows = split_dimensions(rows, dict(enumerate(first[1] + second[1])))
    if not isinstance(consumer, RowProgram):
        order = _refined_order(outer + inner, first[0] + second[0])
        sizes = rows.outer + (rows.inner if inner else ())
        consumer = consumer.reindexed([sizes], tuple(((index, 1),) for index in order))
    return consumer, rows, not inner and bool(rows.inner)


def _guide(loads: list[Expression], rows: RowProgram, row_outputs: tuple[int, ...]) -> Shape | None:
    """Return the strides of a load that tells row dimensions (non-zero) from inner ones (zero)."""
    per_row = {row_outputs[store.output] for store in rows.row_stores}
    return next((load.payload[2] for load in loads if load.payload[0] in per_row), None)


def _refined_order(order: list[int], parts: list[Shape]) -> list[int]:
    """Return positions after splitting: for each original dimension in ``order``, the run of its factors."""
    lengths = dict(zip(order, map(len, parts), strict=True))
    start: dict[int, int] = {}
    position = 0
    for dimension in sorted(order):
        start[dimension] = position
        position += lengths[dimension]
    return [start[dimension] + step for dimension in order for step in range(lengths[dimension])]


def merge_rows_side_by_side(consumer: RowProgram, rows: RowProgram, outputs: Numbers) -> RowProgram | None:
    """Return one row program for two that read elements of the same rows, so that these are read once, or None.

    Two that write elements stay apart: both results at once would take more memory than reading twice takes time.
    """
    if consumer.stores and rows.stores:
        return None
    consumer, rows = drop_ones(consumer), drop_ones(rows)
    aligned = _align_to_rows(consumer, rows, set(), outputs)
    if aligned is None:
        return None
    consumer, rows, _ = aligned
    if _elements_read(consumer).isdisjoint(_elements_read(rows)):
        return None
    merged = _append_reductions(consumer, rows, {})
    return merged if len(merged.reductions) <= MOST_REDUCTIONS else None


def _elements_read(rows: RowProgram) -> set[Expression]:
    """Return the loads that vary along rows."""
    depth = len(rows.outer)
    roots = [each.value for each in rows.reductions] + [store.value for store in rows.stores]
    return {node for node in topological(*roots) if node.step == "load" and any(node.payload[2][depth:])}


def _append_reductions(consumer: RowProgram, rows: RowProgram, values: dict[Expression, Expression]) -> RowProgram:
    """Return the row program with another's reductions and stores after its own; equal reductions are made once."""
    base = len(rows.outputs)
    reductions = list(rows.reductions)
    #: which reduction of the merged program each of the consumer's is
    places: list[int] = []

    def change(root: Expression) -> Expression:
        # A substituted value already counts its reductions from the program's start: only the consumer's own move.
        def replace(node: Expression, _: tuple[Expression, ...]) -> Expression | None:
            if node.step == "reduced":
                return make("reduced", (), places[node.payload], node.dtype)
            return values.get(node)

        return rewrite(root, replace, ("load", "reduced"))

    for each in consumer.reductions:
        mine = Reduction(each.monoid, change(each.value))
        if mine not in reductions:
            reductions.append(mine)
        places.append(reductions.index(mine))
    moved = consumer.replace(reductions=()).map_expressions(change)
    shifted = [
        tuple([each.replace(output=each.output + base) for each in stores])
        for stores in (moved.row_stores, moved.stores)
    ]
    return rows.replace(
        reductions=tuple(reductions),
        row_stores=rows.row_stores + shifted[0],
        stores=rows.stores + shifted[1],
        outputs=rows.outputs + consumer.outputs,
        name=join_names(rows, consumer),
    )


class Rule(Record):
    """How a later kernel joins an earlier one: forms of both, whether the later one reads the earlier one's results."""

    __slots__ = fields = ("host", "consumer", "depends", "merge")
    host: type[Kernel]
    consumer: type[Kernel]
    depends: bool
    merge: Callable[..., Any]


#: tried in this order
RULES = (
    Rule(RowProgram, Pointwise, True, merge_into_rows),
    Rule(RowProgram, RowProgram, True, merge_into_rows),
    Rule(RowProgram, RowProgram, False, merge_rows_side_by_side),
    Rule(RowProgram, Pointwise, True, merge_epilogue),
    Rule(Contraction, Pointwise, True, merge_epilogue),
    Rule(Pointwise, Pointwise, True, merge_epilogue),
    Rule(Pointwise, Pointwise, False, merge_side_by_side),
    *[Rule(form, Scatter, True, merge_write) for form in (RowProgram, Contraction, Pointwise)],
)


def merged(item: Placed, host: Placed, outputs: Sequence[int], depends: bool) -> Placed | None:
    """Return the host, which stores ``outputs``, with a kernel's work and stores added, or None; ``depends``: on these."""
    apart = [slot for slot in item.slots if slot not in outputs]
    slots, (_, _, stored, loaded) = united(host.slots, apart, outputs, item.slots)
    parameters, (_, numbers) = united(host.parameters, item.parameters)
    found = _merged(item.kernel, (loaded, numbers), host.kernel, stored, depends)
    return None if found is None else Placed(found[0], taken(slots, found[1]), taken(parameters, found[2]))


@schedule_cache
def _merged(
    kernel: Kernel, numbers: tuple[Numbers, Numbers], host: Kernel, outputs: Numbers, depends: bool
) -> Compact | None:
    rules = [rule for rule in RULES if (rule.host, rule.consumer, rule.depends) == (type(host), type(kernel), depends)]
    kernel = renumbered(kernel, *numbers) if rules else kernel
    for rule in rules:
        found = rule.merge(kernel, host, outputs)
        if found is not None:
            return compact(found)
    return None


def is_mergeable(kernel: Kernel) -> bool:
    """Return whether other kernels may be appended to this one."""
    return any(rule.host is type(kernel) for rule in RULES) and all(each.initial is None for each in kernel.outputs)
