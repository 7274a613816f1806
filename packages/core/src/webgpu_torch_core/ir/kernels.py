"""The kernel forms a backend receives: small, closed, and describing themselves completely.

Every form maps a *domain* (an n-d box of coordinates) to stores. Operands and outputs are flat buffers of elements;
expressions read operands by :func:`~webgpu_torch_core.ir.expression.load` (strided over the domain) or ``load_at``
(computed index). The lazy graph records single-operation kernels of these forms; the scheduler merges them; backends
compile the merged ones. Kernels are immutable and hashable, so a compiled kernel is found by the kernel itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from .dtypes import dtype
from .expression import Expression, topological
from .layouts import Shape, number_of_elements
from .records import Record
from .reindexing import Terms, reindex, reindex_all, reindex_strides

if TYPE_CHECKING:
    from .monoids import Monoid


class Operand(Record):
    """An input buffer: its element type and how many elements it has."""

    __slots__ = fields = ("dtype", "numel")
    dtype: dtype
    numel: int


class Output(Record):
    """An output buffer; ``initial`` names the operand it starts as (None: every element is stored).

    A step of a plan always gives that operand and the output one buffer: where somebody else needs the operand, the plan
    copies it before. The stores happen in place; a kernel therefore must not load from operand ``initial`` any element other
    than the one it stores from the same coordinates.
    """

    __slots__ = fields = ("dtype", "numel", "initial")
    dtype: dtype
    numel: int
    initial: int | None


class Store(Record):
    """``outputs[output][offset + sum(stride * coordinate)] = value``; distinct coordinates store distinct elements.

    ``place``, an integer, is added to the index, and any one of several coordinates that store the same element then wins; where
    ``where`` does not hold, nothing is stored. Both are computed from what the value is computed from, and only devices with
    :attr:`~webgpu_torch_core.backend.interface.Device.places` are given stores that have them.
    """

    __slots__ = fields = ("output", "offset", "strides", "value", "place", "where")
    optional = ("place", "where")
    output: int
    offset: int
    strides: Shape
    value: Expression
    place: Expression | None
    where: Expression | None

    @property
    def is_plain(self) -> bool:
        """Whether every coordinate is stored, at a place that is known before."""
        return self.place is None and self.where is None

    def roots(self) -> tuple[Expression, ...]:
        """Return all expressions: the value, then the place and the condition, where there are."""
        return (self.value, *[each for each in (self.place, self.where) if each is not None])

    def mapped(self, change: Callable[[Expression], Expression], outputs: int = 0) -> Store:
        """Return the store with each expression changed, into the output that is ``outputs`` further."""
        place, where = [None if each is None else change(each) for each in (self.place, self.where)]
        return Store(self.output + outputs, self.offset, self.strides, change(self.value), place, where)


class Kernel(Record):
    """What all forms share.

    Fields:
        operands, outputs: the buffers.
        parameters: types of the run-time scalars, in the order of their indices.
        name: for people and profiles; part of the identity so that a profile names what ran.
    """

    __slots__ = ()
    form: ClassVar[str] = "kernel"
    #: the fields that hold sizes, in the order of coordinates; element-wise stores range over the first ``stored_groups``
    dimension_groups: ClassVar[tuple[str, ...]] = ("shape",)
    stored_groups: ClassVar[int] = 1
    #: the last dimension is one line of elements with an order, and outputs have a fixed layout: neither can be split
    is_ordered: ClassVar[bool] = False
    operands: tuple[Operand, ...]
    outputs: tuple[Output, ...]
    parameters: tuple[dtype, ...]
    name: str

    def expressions(self) -> Iterator[Expression]:
        """Yield every expression of the kernel."""
        raise NotImplementedError

    def map_expressions(self, change: Callable[[Expression], Expression]) -> Any:
        """Return the kernel with each expression changed."""
        raise NotImplementedError

    def all_stores(self) -> tuple[Store, ...]:
        """Return the stores per row and per element of a form that has them."""
        return getattr(self, "row_stores", ()) + getattr(self, "stores", ())

    def reindexed(self, sizes: Sequence[Shape], terms: Terms) -> Any:
        """Return the kernel over another domain with the same points: sizes per dimension group, and :mod:`.reindexing`'s terms."""
        moved = self.map_expressions(lambda root: reindex(root, terms))
        return moved.replace(**self._sizes(sizes))

    def _sizes(self, sizes: Sequence[Shape]) -> dict[str, Any]:
        return dict(zip(self.dimension_groups, map(tuple, sizes), strict=True))

    def elements(self) -> int:
        """Return the number of points in the domain."""
        raise NotImplementedError

    def nbytes(self) -> int:
        """Return the size of all operands and outputs."""
        return sum(each.numel * each.dtype.itemsize for each in (*self.operands, *self.outputs))


def roots_of(stores: Sequence[Store]) -> list[Expression]:
    """Return all expressions of stores, one store's after another's."""
    return [root for each in stores for root in each.roots()]


def _reindex_stores(stores: tuple[Store, ...], terms: Terms) -> tuple[Store, ...]:
    roots = roots_of(stores)
    moved: dict[Expression | None, Expression] = dict(zip(roots, reindex_all(tuple(roots), terms), strict=True))
    return tuple([
        Store(
            each.output, each.offset, reindex_strides(each.strides, terms), moved[each.value], moved.get(each.place),
            moved.get(each.where),
        )
        for each in stores
    ])  # fmt: skip


def _map_stores(stores: tuple[Store, ...], change: Callable[[Expression], Expression]) -> tuple[Store, ...]:
    return tuple([each.mapped(change) for each in stores])


class Pointwise(Kernel):
    """For every coordinate of ``shape``: evaluate and store. Also gathers, fills, copies and casts."""

    __slots__ = fields = ("operands", "outputs", "parameters", "name", "shape", "stores")
    form = "pointwise"
    shape: Shape
    stores: tuple[Store, ...]

    def expressions(self) -> Iterator[Expression]:
        return iter(roots_of(self.stores))

    def map_expressions(self, change: Callable[[Expression], Expression]) -> Pointwise:
        return self.replace(stores=_map_stores(self.stores, change))

    def reindexed(self, sizes: Sequence[Shape], terms: Terms) -> Pointwise:
        return self.replace(**self._sizes(sizes), stores=_reindex_stores(self.stores, terms))

    def elements(self) -> int:
        return number_of_elements(self.shape)


class Reduction(Record):
    """One reduction of a row program: ``value`` combined over the inner dimensions by a commutative monoid.

    ``reduced(index)`` is the monoid's first result. Empty rows give that of the identity.

    Raises:
        ValueError: the monoid's result depends on the order of its states.
    """

    __slots__ = fields = ("monoid", "value")
    monoid: Monoid
    value: Expression

    def __init__(self, monoid: Monoid, value: Expression) -> None:
        if not monoid.commutative:
            raise ValueError(f"rows are reduced in any order, but '{monoid.name}' depends on it: scan them instead")
        super().__init__(monoid, value)

    @property
    def dtype(self) -> dtype:
        """The type of the elements that are combined."""
        return self.monoid.states[0]


class RowProgram(Kernel):
    """Rows (``outer``) of elements (``inner``): reduce one after another, then store per row and per element.

    Coordinates number the outer dimensions first, then the inner ones. Reduction ``i`` may use ``reduced(j)``, j < i.
    ``row_stores`` are evaluated once per row (no inner coordinates, strides over ``outer`` only); ``stores`` for every
    element (strides over ``outer + inner``). Softmax, layer norm, log-softmax, cross-entropy, var, norms, argmax.
    """

    __slots__ = fields = (
        "operands", "outputs", "parameters", "name", "outer", "inner", "reductions", "row_stores", "stores",
    )  # fmt: skip
    form = "row program"
    dimension_groups = ("outer", "inner")
    stored_groups = 2
    outer: Shape
    inner: Shape
    reductions: tuple[Reduction, ...]
    row_stores: tuple[Store, ...]
    stores: tuple[Store, ...]

    def expressions(self) -> Iterator[Expression]:
        for reduction in self.reductions:
            yield reduction.value
        yield from roots_of(self.row_stores + self.stores)

    def map_expressions(self, change: Callable[[Expression], Expression]) -> RowProgram:
        return self.replace(
            reductions=tuple(Reduction(each.monoid, change(each.value)) for each in self.reductions),
            row_stores=_map_stores(self.row_stores, change),
            stores=_map_stores(self.stores, change),
        )

    def reindexed(self, sizes: Sequence[Shape], terms: Terms) -> RowProgram:
        return self.replace(
            **self._sizes(sizes),
            reductions=tuple(Reduction(each.monoid, reindex(each.value, terms)) for each in self.reductions),
            row_stores=_reindex_stores(self.row_stores, terms[: len(sizes[0])]),
            stores=_reindex_stores(self.stores, terms),
        )

    def elements(self) -> int:
        return number_of_elements(self.outer) * number_of_elements(self.inner)


class Contraction(Kernel):
    """``accumulator[batch, m, n] = sum over k of left[batch, m, k] * right[batch, n, k]``, then the epilogue's stores.

    ``batch``, ``m``, ``n`` and ``k`` are each a tuple of sizes; coordinates number batch, m, n, k dimensions in that order
    in ``left`` and ``right`` (left has stride 0 over n, right over m), and batch, m, n in the stores, whose values may use
    ``accumulator``. Where left and right are plain loads this is a matrix product in any transposition; with computed
    loads it is implicit-GEMM convolution. Accumulates in ``dtype`` (float32 for the 16-bit floats); k may be empty.
    """

    __slots__ = fields = (
        "operands", "outputs", "parameters", "name", "batch", "m", "n", "k", "left", "right", "dtype", "stores",
    )  # fmt: skip
    form = "contraction"
    dimension_groups = ("batch", "m", "n", "k")
    stored_groups = 3
    batch: Shape
    m: Shape
    n: Shape
    k: Shape
    left: Expression
    right: Expression
    dtype: dtype
    stores: tuple[Store, ...]

    def expressions(self) -> Iterator[Expression]:
        yield self.left
        yield self.right
        yield from roots_of(self.stores)

    def map_expressions(self, change: Callable[[Expression], Expression]) -> Contraction:
        return self.replace(left=change(self.left), right=change(self.right), stores=_map_stores(self.stores, change))

    def reindexed(self, sizes: Sequence[Shape], terms: Terms) -> Contraction:
        return self.replace(
            **self._sizes(sizes),
            left=reindex(self.left, terms),
            right=reindex(self.right, terms),
            stores=_reindex_stores(self.stores, terms[: len(terms) - len(sizes[3])]),
        )

    def elements(self) -> int:
        return number_of_elements(self.batch + self.m + self.n + self.k)


class PreparedContraction(Contraction):
    """A contraction whose left side takes more than reading: whoever multiplies a row computes all of its elements before.

    ``reductions`` run over ``k`` for every row (``batch``, ``m``) of the left side, in its coordinates. Reduction ``i`` may use
    ``reduced(j)``, j < i, and ``left`` all of them: a norm before a product is one kernel with it. No device has to run it:
    the scheduler asks :meth:`~webgpu_torch_core.backend.interface.Device.gains`.
    """

    fields = (*Contraction.fields, "reductions")
    __slots__ = ("reductions",)
    reductions: tuple[Reduction, ...]

    def expressions(self) -> Iterator[Expression]:
        yield from (each.value for each in self.reductions)
        yield from super().expressions()

    def map_expressions(self, change: Callable[[Expression], Expression]) -> PreparedContraction:
        reductions = tuple(Reduction(each.monoid, change(each.value)) for each in self.reductions)
        return super().map_expressions(change).replace(reductions=reductions)

    def reindexed(self, sizes: Sequence[Shape], terms: Terms) -> PreparedContraction:
        reductions = tuple(Reduction(each.monoid, reindex(each.value, terms)) for each in self.reductions)
        return super().reindexed(sizes, terms).replace(reductions=reductions)


class Scan(Kernel):
    """Running combination by a monoid along the last dimension of ``shape`` (inclusive, in order).

    Output i takes the monoid's result i, all at ``offset``/``strides``. ``reverse`` runs from the end.
    """

    __slots__ = fields = (
        "operands", "outputs", "parameters", "name", "shape", "monoid", "value", "reverse", "offset", "strides",
    )  # fmt: skip
    form = "scan"
    is_ordered = True
    shape: Shape
    monoid: Monoid
    value: Expression
    reverse: bool
    offset: int
    strides: Shape

    def expressions(self) -> Iterator[Expression]:
        yield self.value

    def map_expressions(self, change: Callable[[Expression], Expression]) -> Scan:
        return self.replace(value=change(self.value))

    def reindexed(self, sizes: Sequence[Shape], terms: Terms) -> Scan:
        return super().reindexed(sizes, terms).replace(strides=reindex_strides(self.strides, terms))

    def elements(self) -> int:
        return number_of_elements(self.shape)


class Sort(Kernel):
    """Stable sort along the last dimension of ``shape``; NaN is the greatest value.

    Output 0 takes the sorted values, output 1 int64 positions, both contiguous over ``shape`` with its last size cut to
    ``limit`` (the first ``limit`` of the sorted order: top-k).
    """

    __slots__ = fields = ("operands", "outputs", "parameters", "name", "shape", "value", "dtype", "descending", "limit")
    form = "sort"
    is_ordered = True
    shape: Shape
    value: Expression
    dtype: dtype
    descending: bool
    limit: int

    def expressions(self) -> Iterator[Expression]:
        yield self.value

    def map_expressions(self, change: Callable[[Expression], Expression]) -> Sort:
        return self.replace(value=change(self.value))

    def elements(self) -> int:
        return number_of_elements(self.shape)


class Scatter(Kernel):
    """``outputs[0][index] = combine(outputs[0][index], value)`` for each entry, output 0 starting as operand ``initial``.

    Coordinates number the ``lanes`` dimensions, then the ``entries`` dimensions. Different lanes never touch the same
    element; entries of one lane may. ``monoid`` has a state of one number; None: the value replaces the element, and any
    one of several writers wins. Results must not depend on timing: floating-point sums follow the entries' order, or pieces of it.
    """

    __slots__ = fields = (
        "operands", "outputs", "parameters", "name", "lanes", "entries", "index", "value", "monoid",
    )  # fmt: skip
    form = "scatter"
    dimension_groups = ("lanes", "entries")
    stored_groups = 2
    lanes: Shape
    entries: Shape
    index: Expression
    value: Expression
    monoid: Monoid | None

    def expressions(self) -> Iterator[Expression]:
        yield self.index
        yield self.value

    def map_expressions(self, change: Callable[[Expression], Expression]) -> Scatter:
        return self.replace(index=change(self.index), value=change(self.value))

    def elements(self) -> int:
        return number_of_elements(self.lanes + self.entries)


class Product(Record):
    """``sum over depth of left * right`` for every row and column of an attention, in float32; ``depth`` is ``"k"`` or ``"v"``."""

    __slots__ = fields = ("left", "right", "depth")
    left: Expression
    right: Expression
    depth: str


class WeightedSum(Record):
    """``sum over n of weight * value`` for every row of an attention and every position along ``"k"`` or ``"v"``, in float32.

    The weight may use the products, ``reduced(i)``, and the softmax of the scores, ``accumulator``; the store the sum, ``accumulator``.
    """

    __slots__ = fields = ("weight", "value", "along", "store")
    weight: Expression
    value: Expression
    along: str
    store: Store


class Attention(Kernel):
    """Rows (``batch``, ``m``) weigh columns (``n``) by products with them, and sum the columns' values with these weights.

    Coordinates number batch, m, k, v, n dimensions in that order. Columns from ``first`` up to ``last`` count (int32, by row;
    None: all), no others are read. Where there is a ``score``, which may use the products, ``reduced(i)``, its softmax over the
    columns is the weights' ``accumulator``, zero where all scores are -inf or there are none; and ``row_stores``, over batch
    and m, may use the logarithm of the sum of the scores' exponentials, ``accumulator``. With a score this is attention
    (A. Vaswani et al., "Attention is all you need", 2017), without one its derivatives. No device has to run it:
    operations ask :meth:`~webgpu_torch_core.backend.interface.Device.gains`.
    """

    __slots__ = fields = (
        "operands", "outputs", "parameters", "name", "batch", "m", "k", "v", "n", "products", "first", "last", "score", "sums",
        "row_stores",
    )  # fmt: skip
    form = "attention"
    dimension_groups = ("batch", "m", "k", "v", "n")
    stored_groups = 4
    batch: Shape
    m: Shape
    k: Shape
    v: Shape
    n: Shape
    products: tuple[Product, ...]
    first: Expression | None
    last: Expression | None
    score: Expression | None
    sums: tuple[WeightedSum, ...]
    row_stores: tuple[Store, ...]

    def expressions(self) -> Iterator[Expression]:
        for product in self.products:
            yield from (product.left, product.right)
        yield from (each for each in (self.first, self.last, self.score) if each is not None)
        for each in self.sums:
            yield from (each.weight, each.value, *each.store.roots())
        yield from roots_of(self.row_stores)

    def read_often(self) -> frozenset[Expression]:
        """Return what is read once for every block of rows or columns: whatever computes it computes it as often."""
        sides = [side for each in self.products for side in (each.left, each.right)]
        return frozenset(topological(*sides, *(each.value for each in self.sums)))

    def all_stores(self) -> tuple[Store, ...]:
        return self.row_stores + tuple(each.store for each in self.sums)

    def map_expressions(self, change: Callable[[Expression], Expression]) -> Attention:
        return self._mapped(change, lambda stores: _map_stores(stores, change), self.row_stores)

    def reindexed(self, sizes: Sequence[Shape], terms: Terms) -> Attention:
        rows = _reindex_stores(self.row_stores, terms[: len(sizes[0]) + len(sizes[1])])
        stored = terms[: len(terms) - len(sizes[4])]
        moved = self._mapped(lambda root: reindex(root, terms), lambda stores: _reindex_stores(stores, stored), ())
        return moved.replace(**self._sizes(sizes), row_stores=rows)

    def _mapped(
        self,
        change: Callable[[Expression], Expression],
        change_stores: Callable[[tuple[Store, ...]], tuple[Store, ...]],
        row_stores: tuple[Store, ...],
    ) -> Attention:
        bounds = {
            name: None if (root := getattr(self, name)) is None else change(root) for name in ("first", "last", "score")
        }
        return self.replace(
            **bounds,
            products=tuple(Product(change(each.left), change(each.right), each.depth) for each in self.products),
            sums=tuple(
                WeightedSum(change(each.weight), change(each.value), each.along, *change_stores((each.store,)))
                for each in self.sums
            ),
            row_stores=change_stores(row_stores),
        )

    def elements(self) -> int:
        return number_of_elements(self.batch + self.m + self.n)


#: the forms that every device runs
FORMS = (Pointwise, RowProgram, Contraction, Scan, Sort, Scatter)
