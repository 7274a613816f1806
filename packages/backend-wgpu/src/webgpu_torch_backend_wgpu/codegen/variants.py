"""Which ways there are to compute a kernel of each form, what they cost, and which is taken: one table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from webgpu_torch_core.ir.expression import Expression, topological
from webgpu_torch_core.ir.kernels import (
    Attention,
    Contraction,
    Kernel,
    Pointwise,
    PreparedContraction,
    RowProgram,
    Scan,
    Scatter,
    Sort,
)
from webgpu_torch_core.ir.layouts import number_of_elements
from webgpu_torch_core.ir.reindexing import permutation

from ..facts import Facts
from ..program import Capabilities, Program
from .attention import generate_attention
from .attention_matrix import generate_attention_matrix
from .attention_matrix_tile import attention_matrix_seconds, attention_matrix_tiles
from .attention_pairs import attention_pair_tiles, attention_pairs_seconds, generate_attention_pairs
from .attention_rows import few_rows, few_rows_seconds, generate_few_rows
from .attention_subgroups import by_subgroups, by_subgroups_seconds, generate_by_subgroups
from .attention_tile import attention_seconds, attention_tiles
from .contraction import Side
from .contraction_cost import tile_seconds, tiles_of
from .contraction_each import each_seconds, generate_each, has_few_channels
from .contraction_host import generate_host, host_seconds, host_tiles_of
from .contraction_matrix import generate_matrix, matrix_seconds, matrix_tiles_of
from .contraction_packed import generate_packed
from .contraction_pairs import generate_pairs, pair_seconds, pair_tiles_of
from .contraction_prepared import generate_prepared, prepared_seconds, rows_find_place
from .contraction_sliding import generate_sliding, sliding, sliding_seconds
from .contraction_sums import sums_of
from .contraction_tile import generate_tile
from .contraction_vector import SKINNY, generate_alone, generate_vector, sums_alone, vector_seconds
from .module import WORKGROUP
from .packed_strips import packed_seconds, packed_strips
from .pointwise import generate_apart, generate_grouped, lanes_of, pays_apart, rounds_of
from .row_chunks import generate_chunks
from .row_programs import generate_rows
from .row_teams import Team
from .scan import ScanPlan, generate_chunked_scan, generate_scan
from .scatter import (
    any_order,
    counting_groups,
    generate_counting_scatter,
    generate_parallel_scatter,
    generate_serial_scatter,
    generate_sorted_scatter,
    separate,
)
from .scatter_rows import Row, generate_row_scatter, row_of
from .select import generate_selection, selection_of
from .sort import RunSort, generate_block_sort, generate_run_sort, sorting_of
from .transpose import generate_turned, turned_loads

_Kernel = TypeVar("_Kernel", bound=Kernel)
_Plan = TypeVar("_Plan")
_Chunked = TypeVar("_Chunked", Team, ScanPlan)

#: most elements of a tensor: positions are of 32 bits, and loops over chunks of it pass its end by the steps of their threads
MOST_ELEMENTS = (1 << 32) - (1 << 24)


class Variant(NamedTuple):
    """One way to compute kernels of a form.

    Fields:
        name: for people.
        fits: ``fits(kernel, capabilities)`` yields the plans by which it can compute a kernel within an adapter's limits: what
            ``emit`` needs to know. None at all where it cannot.
        cost: ``cost(kernel, plan, facts)`` estimates the seconds a plan takes, from an adapter's measured rates; the least
            of all variants is taken.
        emit: ``emit(kernel, capabilities, plan)`` returns the program.
    """

    name: str
    fits: Callable[[Any, Capabilities], Iterable[Any]]
    cost: Callable[[Any, Any, Facts], float]
    emit: Callable[[Any, Capabilities, Any], Program]


def oriented(kernel: Kernel) -> Kernel:
    """Return a product of many rows with its sides exchanged, where its results lie along the rows in memory; and a pointwise kernel
    with its dimensions in the order in which its stores lie.

    Kernels of contractions write, and read what they add, along ``n``, pointwise ones along their last dimension.
    """
    if type(kernel) is Pointwise:
        return _along_stores(kernel)
    if type(kernel) is not Contraction or min(map(number_of_elements, (kernel.m, kernel.n))) <= SKINNY:
        return kernel
    first, last = len(kernel.batch + kernel.m), len(kernel.batch + kernel.m + kernel.n)
    if not all(each.is_plain and each.strides[first - 1] == 1 != each.strides[last - 1] for each in kernel.stores):
        return kernel
    if not all(Side(kernel, value, group).strided for value, group in ((kernel.left, "m"), (kernel.right, "n"))):
        return kernel
    batch, depth = range(len(kernel.batch)), range(last, last + len(kernel.k))
    terms = permutation((*batch, *range(first, last), *range(len(batch), first), *depth))
    found = kernel.reindexed((kernel.batch, kernel.n, kernel.m, kernel.k), terms)
    return found.replace(left=found.right, right=found.left)


def _along_stores(kernel: Pointwise) -> Pointwise:
    """Return a kernel that stores along its last dimension, where some dimension is one along which all stores lie side by side."""
    strides = [each.strides for each in kernel.stores if each.is_plain]
    real = [place for place, size in enumerate(kernel.shape) if size != 1]
    if len(strides) < len(kernel.stores) or len(real) < 2 or any(each[real[-1]] == 1 for each in strides):
        return kernel
    order = sorted(real, key=lambda place: -strides[0][place])
    if any(each[order[-1]] != 1 for each in strides):
        return kernel
    return kernel.reindexed([tuple([kernel.shape[place] for place in order])], permutation(order))


def choose(kernel: Kernel, capabilities: Capabilities) -> tuple[Variant, Any]:
    """Return the variant, with its plan, that should take the least time; of equal ones the first of the table.

    Raises:
        NotImplementedError: no variant fits the adapter, or there are more elements than positions of 32 bits.
    """
    longest = max((each.numel for each in (*kernel.operands, *kernel.outputs)), default=0)
    if longest > MOST_ELEMENTS:
        raise NotImplementedError(
            f"kernel '{kernel.name}' ({kernel.form}) uses a tensor of {longest} elements, and kernels of WebGPU count them up to "
            f"{MOST_ELEMENTS}; split it"
        )
    best: tuple[Variant, Any] | None = None
    least = 0.0
    for variant in VARIANTS[type(kernel)]:
        for plan in variant.fits(kernel, capabilities):
            seconds = variant.cost(kernel, plan, capabilities.facts)
            if best is None or seconds < least:
                best, least = (variant, plan), seconds
    if best is None:
        names = ", ".join(each.name for each in VARIANTS[type(kernel)])
        raise NotImplementedError(
            f"no way to compute kernel '{kernel.name}' ({kernel.form}) fits this adapter ({capabilities}); there are: {names}"
        )
    return best


def generated(kernel: Kernel, capabilities: Capabilities) -> Program:
    """Return the program of the variant that should take the least time."""
    variant, plan = choose(kernel, capabilities)
    return variant.emit(kernel, capabilities, plan)


#: the shares of the operations per second that products as contractions of their own reach, of float32 and of halves
_PRODUCTS, _PRODUCTS_OF_HALVES = 0.85, 0.45
#: what they and the softmax cost besides, in dispatches, most of it the host's time; the bytes that they move for a score; and
#: how many times as long a kernel may take that keeps no scores
_THREE_PASSES, _SCORE, _WITHOUT_SCORES = 6, 16, 1.5


@lru_cache(1024)
def attention_pays(kernel: Attention, capabilities: Capabilities) -> bool:
    """Return whether an attention's own kernel should take less time than two products and a softmax of stored scores."""
    if capabilities.software:
        # What is saved is less than what compiling a long kernel takes.
        return False
    facts = capabilities.facts
    batch, m, n, k, v = map(number_of_elements, (kernel.batch, kernel.m, kernel.n, kernel.k, kernel.v))
    # Where several rows of heads share keys, these are copied for each.
    copies = 1 + 2 * number_of_elements(kernel.m[:-1]) if len(kernel.m) > 1 else 1
    moved = copies * sum(each.numel * each.dtype.itemsize for each in kernel.operands)
    reached = _PRODUCTS if all(each.dtype.itemsize == 4 for each in kernel.operands[:3]) else _PRODUCTS_OF_HALVES
    multiplying = 2 * batch * m * n * (k + v) / (facts.flops * reached) if m > SKINNY else 0.0
    scores = _SCORE * batch * m * n / facts.bandwidth
    apart = max(multiplying, moved / facts.bandwidth) + scores + _THREE_PASSES * facts.dispatch
    most = _WITHOUT_SCORES * apart
    # The first of many plans that is quick enough says so.
    plans = ((variant, plan) for variant in VARIANTS[Attention] for plan in variant.fits(kernel, capabilities))
    return any(variant.cost(kernel, plan, facts) < most for variant, plan in plans)


def _traffic(share: float) -> Callable[[Kernel, object, Facts], float]:
    """Return the cost of a kernel that reaches a share of the memory's bandwidth."""

    def cost(kernel: Kernel, plan: object, facts: Facts) -> float:
        return kernel.nbytes() / (facts.bandwidth * share)

    return cost


def _where(holds: Callable[[Any, Capabilities], bool]) -> Callable[[Any, Capabilities], Iterable[None]]:
    """Return what yields the one way of a variant without plans, where that is one."""
    return lambda kernel, capabilities: [None] if holds(kernel, capabilities) else []


def _planned(
    plan: Callable[[_Kernel, Capabilities], _Plan | None],
) -> Callable[[_Kernel, Capabilities], Iterable[_Plan]]:
    """Return what yields the plan, where there is one."""
    return lambda kernel, capabilities: [] if (found := plan(kernel, capabilities)) is None else [found]


def _chunked(
    plan: Callable[[_Kernel, Capabilities], _Chunked], several: bool
) -> Callable[[_Kernel, Capabilities], Iterable[_Chunked]]:
    """Return what yields the plan, where rows are cut into several chunks, or are not."""
    return lambda kernel, capabilities: [each for each in [plan(kernel, capabilities)] if (each.chunks > 1) is several]


def _of_many_rows(
    tiles: Callable[[Contraction, Capabilities], Iterable[_Plan]],
) -> Callable[[Contraction, Capabilities], Iterable[_Plan]]:
    """Return what yields the tiles of contractions of many rows: of few, most of a block would be outside the result."""
    return lambda kernel, capabilities: [] if _has_few_rows(kernel) else tiles(kernel, capabilities)


def _grouped(kernel: Pointwise, capabilities: Capabilities) -> Iterator[tuple[int, int]]:
    lanes = lanes_of(kernel, capabilities)
    if lanes > 1:
        yield lanes, rounds_of(kernel, capabilities, lanes)


def _has_few_rows(kernel: Contraction) -> bool:
    m, n, k = (number_of_elements(each) for each in (kernel.m, kernel.n, kernel.k))
    return kernel.dtype.name == "float32" and min(m, n) <= SKINNY and k >= 16


def _sorts(in_blocks: bool) -> Callable[[Sort, Capabilities], Iterator[RunSort]]:
    def fits(kernel: Sort, capabilities: Capabilities) -> Iterator[RunSort]:
        sorting = sorting_of(kernel, capabilities)
        if (sorting.length <= sorting.block) is in_blocks:
            yield sorting

    return fits


def _separable(kernel: Scatter, capabilities: Capabilities) -> Iterator[Expression]:
    parts = separate(kernel.index, len(kernel.lanes))
    if parts is not None:
        yield parts[1]


def _sorting(kernel: Scatter, plan: object, facts: Facts) -> float:
    """Return the cost of sorting a scatter's entries, and of a thread for each lane that goes through a run of them."""
    sorting = (_SORTING + _SORTED * number_of_elements(kernel.entries)) * facts.dispatch
    return sorting + number_of_elements(kernel.entries) * _reading(kernel, facts, len(kernel.lanes) - 1)


def _listing(kernel: Scatter, row: Row, facts: Facts) -> float:
    """Return the cost of listing a lane's entries by element: of groups that run one after another, and what each does."""
    lanes, entries = number_of_elements(kernel.lanes), number_of_elements(kernel.entries)
    groups = max(lanes * WORKGROUP / facts.threads, 1.0)
    listed = groups * (_ROW + _LISTED * -(-(entries + row.size) // WORKGROUP)) * facts.dispatch
    return max(listed, entries * _reading(kernel, facts, len(kernel.lanes + kernel.entries) - 1))


def _serial(kernel: Scatter, plan: None, facts: Facts) -> float:
    """Return the cost of a thread per lane, each entry of which waits for the one before it."""
    entry = max(_AFTER_ANOTHER * facts.dispatch, _reading(kernel, facts, len(kernel.lanes) - 1))
    return number_of_elements(kernel.entries) * entry


def _reading(kernel: Scatter, facts: Facts, dimension: int) -> float:
    """Return the seconds in which an entry of every lane is read by threads that are neighbours along a dimension: with their
    neighbours, where all that is read lies side by side there, else each for itself."""
    nodes = topological(kernel.index, kernel.value)
    loads = [node.payload[2] for node in nodes if node.step == "load"]
    beside = dimension >= 0 and all(len(each) <= dimension or each[dimension] in (0, 1) for each in loads)
    together = beside and all(node.step != "load_at" for node in nodes)
    return number_of_elements(kernel.lanes) * (_TOGETHER if together else _APART) / facts.bandwidth


#: bytes that an entry's index, value and element move where neighbours are read together, and where each is alone
_TOGETHER, _APART = 24, 256
#: the shares of a dispatch that a workgroup takes for its row and for each element and entry of its threads
_ROW, _LISTED = 1.0, 0.1
#: the dispatches of a sort, and the share of one for each of its entries; the share that an entry takes which has to wait for
#: the one before it
_SORTING, _SORTED, _AFTER_ANOTHER = 6.0, 4e-5, 0.25


VARIANTS: dict[type[Kernel], list[Variant]] = {
    Pointwise: [
        Variant("tiles turned in workgroup memory", _planned(turned_loads), _traffic(0.9), generate_turned),
        Variant("several neighbours per thread", _grouped, _traffic(0.8), lambda k, c, plan: generate_grouped(k, c, *plan)),
        Variant(
            "several elements per thread, a workgroup apart", _where(pays_apart), _traffic(0.7),
            lambda k, c, _: generate_apart(k, c),
        ),
        Variant("an element per thread", _where(lambda *_: True), _traffic(0.6), lambda k, c, _: generate_grouped(k, c, 1)),
    ],
    RowProgram: [
        Variant("rows within a workgroup", _chunked(Team, False), _traffic(0.8), generate_rows),
        Variant("rows in chunks", _chunked(Team, True), _traffic(0.8), generate_chunks),
    ],
    Contraction: [
        Variant(
            "few rows, threads alone", _where(lambda k, c: _has_few_rows(k) and sums_alone(k, c)), vector_seconds,
            lambda k, c, _: generate_alone(k, c),
        ),
        Variant("few rows by packed numbers", packed_strips, packed_seconds, generate_packed),
        Variant(
            "few rows", _where(lambda k, c: _has_few_rows(k) and sums_of(k, c) is None), vector_seconds,
            lambda k, c, _: generate_vector(k, c),
        ),
        Variant(
            "few long sums", _planned(sums_of), _traffic(1.0),
            lambda k, c, rows: generated(rows, c),
        ),
        Variant("tiles of matrices", matrix_tiles_of, matrix_seconds, generate_matrix),
        Variant("tiles of matrices, pairs of halves", _of_many_rows(pair_tiles_of), pair_seconds, generate_pairs),
        Variant("tiles", _of_many_rows(tiles_of), tile_seconds, generate_tile),
        Variant("tiles for the host", _of_many_rows(host_tiles_of), host_seconds, generate_host),
        Variant("neighbours per thread", sliding, sliding_seconds, generate_sliding),
        Variant(
            "a result per thread", _where(lambda k, _: has_few_channels(k) and not _has_few_rows(k)), each_seconds,
            lambda k, c, _: generate_each(k, c),
        ),
    ],
    PreparedContraction: [
        Variant("few rows by packed numbers", packed_strips, packed_seconds, generate_packed),
        Variant("few rows", _where(rows_find_place), prepared_seconds, lambda k, c, _: generate_prepared(k, c)),
    ],
    Attention: [
        Variant("few rows by subgroups", by_subgroups, by_subgroups_seconds, generate_by_subgroups),
        Variant(
            "few rows", lambda k, c: [] if any(by_subgroups(k, c)) else few_rows(k, c), few_rows_seconds, generate_few_rows
        ),
        Variant("tiles of matrices", attention_matrix_tiles, attention_matrix_seconds, generate_attention_matrix),
        Variant("tiles of matrices, pairs of halves", attention_pair_tiles, attention_pairs_seconds, generate_attention_pairs),
        Variant("tiles", attention_tiles, attention_seconds, generate_attention),
    ],
    Scan: [
        Variant("rows within a workgroup", _chunked(ScanPlan, False), _traffic(0.8), generate_scan),
        Variant("rows in chunks", _chunked(ScanPlan, True), _traffic(0.8), generate_chunked_scan),
    ],
    Sort: [
        Variant("the first few, selected", _planned(selection_of), _traffic(0.4), generate_selection),
        Variant("rows in workgroup memory", _sorts(True), _traffic(0.3), generate_block_sort),
        Variant("runs that are merged", _sorts(False), _traffic(0.1), generate_run_sort),
    ],
    Scatter: [
        Variant(
            "sums of workgroups", _planned(counting_groups), lambda k, plan, facts: 0.0, generate_counting_scatter
        ),
        Variant(
            "an entry per thread", _where(any_order), lambda k, plan, facts: 0.0,
            lambda k, c, _: generate_parallel_scatter(k, c),
        ),
        Variant("sorted entries", _separable, _sorting, generate_sorted_scatter),
        Variant("a workgroup per lane", _planned(row_of), _listing, generate_row_scatter),
        Variant("a lane per thread", _where(lambda *_: True), _serial, lambda k, c, _: generate_serial_scatter(k, c)),
    ],
}  # fmt: skip
