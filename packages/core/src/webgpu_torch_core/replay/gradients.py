"""Remembered calls that gradients flow through: kernels forward, one node of the graph, kernels backward.

An operation written with others makes a node and saves tensors for each of them, and its backward pass runs the Python of all.
Which kernels it records, and which its backward pass records, follows from what the arguments and the gradients are, and not from
their elements. So from the second call of one kind on, its Python runs over values that nobody computes, on a tape of its own
(:func:`_traced`), forward and backward; later calls append the kernels found there, and their node keeps what the kernels
backward read. Where the pass is itself recorded, for higher derivatives, the operation's own Python runs again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple
from weakref import ref

from ..dispatch.direct import PLAIN
from ..ir.dtypes import dtype
from ..ir.layouts import Layout, contiguous_layout
from ..record.ahead import Ahead
from ..record.checks import looks
from ..record.context import context, default_float
from ..record.devices import device
from ..record.engine import Engine
from ..record.node import Node, anomaly, running
from ..record.node import _sequence as sequence
from ..record.series import Series
from ..record.tape import Entry, Tape, Value, new_value
from ..tensors.saved_tensors import SavedResult, SavedTensor
from ..tensors.storage import Storage, new_storage, storage_numbers
from ..tensors.tensor import Tensor, new_tensor

Edge = tuple[Node, int]
#: a kernel, its operands by number and its parameters
Step = tuple[Any, list[int], tuple[Any, ...]]
#: the number of the value that holds a tensor, its layout, dtype and device
Made = tuple[int, Layout, dtype, device]
#: what is known of gradients: nothing where there is none
Kind = tuple[Layout, dtype, int] | None
#: starts a pass at (edge, gradient) pairs and returns the gradients of wanted edges by number; nodes recorded before a number are
#: not visited. The engine, a floor above, puts itself here
passes: list[Callable[[list[tuple[Edge, Tensor]], dict[Edge, int], bool, int], dict[int, Tensor]]] = []


class Unknown(Exception):
    """What was recorded depends on more than what the arguments are, or cannot be taken apart."""


class Operand(NamedTuple):
    """What a call's kind says of a tensor among its arguments.

    Fields:
        first: the number of the first argument with the same value.
        numel, kind: of the value, which the tensor may be a part of.
        tracked: whether a gradient flows to it; ``leaf``: whether it ends there.
    """

    layout: Layout
    dtype: dtype
    device: device
    first: int
    numel: int
    kind: dtype
    tracked: bool
    leaf: bool


class Place(NamedTuple):
    """Stands for a tensor in a call's arguments."""

    number: int


def arranged(given: object, replace: Callable[[Place | Tensor], object]) -> object:
    """Return arguments with tensors, and what stands for them, replaced."""
    kind = given.__class__
    if kind is list or kind is tuple:
        found = (arranged(each, replace) for each in given)  # type: ignore[attr-defined] # pyright: ignore[reportGeneralTypeIssues]
        return list(found) if kind is list else tuple(found)
    return replace(given) if kind is Place or kind in PLAIN else given  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


class Forward(NamedTuple):
    """What a call records before gradients come.

    Fields:
        steps: kernels over numbered values: the operands', then those of kernels before.
        results: its tensors, and whether each has a gradient.
        total: how many values there are.
        kind: the class of the tuple of several results; None of a single one.
        title: what its node is called.
        reporting: how many kernels report what they find wrong.
    """

    steps: list[Step]
    results: list[tuple[Made, bool]]
    total: int
    kind: type[tuple[Tensor, ...]] | None
    title: str
    reporting: int


class Backward(NamedTuple):
    """What a call records when gradients of some kinds come: kernels over values numbered on, the gradients' after those of
    the call, and for each tracked operand its gradient."""

    series: Series
    results: list[Made | None]
    read: frozenset[int]


class Recipe:
    """What calls of one kind record, forward and backward.

    Attributes:
        function, arguments: the operation, and what it is called with, tensors replaced by :class:`Place`.
        operands: what is known of the tensors.
        keeps: whether those without gradients may be kept.
        saved: numbers of values that the pass reads, of operands and results, which are looked after as PyTorch does, and of others.
        held: operands that nothing reads and that are kept for higher derivatives nevertheless.
        looks: operands whose numbers the call looks at in the host's memory, and what looks at others in their place.
    """

    def __init__(
        self, function: Callable[..., object], arguments: tuple[object, ...], named: dict[str, object],
        operands: list[Operand], engine: Engine, keeps: bool,
    ) -> None:  # fmt: skip
        self.function = function
        self.keeps = keeps
        self.operands = operands
        self.engine = engine
        numbers = iter(range(len(operands)))
        self.arguments = [arranged(each, lambda _: Place(next(numbers))) for each in arguments]
        self.named = {name: arranged(each, lambda _: Place(next(numbers))) for name, each in named.items()}
        self.tracked = [number for number, each in enumerate(operands) if each.tracked]
        self.backwards: dict[tuple[Any, ...], Backward | None] = {}
        self.slot = engine.recorder.slot
        self.looks: list[tuple[int, Callable[[Value], bool]]] = []
        self.forward, backward = self._learn(None)
        self.results = {made[0]: number for number, (made, _) in enumerate(self.forward.results)}
        count = len(operands)
        self.saved = sorted(each for each in backward.read if each < count)
        self.saved_results = sorted(self.results[each] for each in backward.read if each in self.results)
        self.inner = sorted(each for each in backward.read if each >= count and each not in self.results)
        # They are looked at again.
        self.held = sorted({number for number, _ in self.looks}.difference(self.saved))
        self._hold_the_rest(backward.read)
        self.series = Series(self.forward.steps, count, {*self.results, *self.inner})

    def _hold_the_rest(self, read: frozenset[int]) -> None:
        """Keep the operands that what is read was computed from, for higher derivatives, which need it computed again.

        Raises:
            Unknown: memory would live on for that.
        """
        known = {self.operands[each].first for each in (*read, *self.held) if each < len(self.operands)}
        for number in self._sources(read):
            each = self.operands[number]
            if each.first not in known:
                if not each.leaf and (each.tracked or not self.keeps):
                    raise Unknown
                self.held.append(number)

    def _sources(self, read: frozenset[int]) -> list[int]:
        """Return the operands that values made by the call are computed from."""
        wanted, made = {each for each in read if each >= len(self.operands)}, self.forward.total
        for kernel, operands, _ in reversed(self.forward.steps):
            made -= len(kernel.outputs)
            if any(each in wanted for each in range(made, made + len(kernel.outputs))):
                wanted.update(operands)
        return sorted(each for each in wanted if each < len(self.operands))

    def _learn(self, kinds: Sequence[Kind] | None) -> tuple[Forward, Backward]:
        """Return what a call records, and what its pass does where gradients of some kinds come, dense ones by default."""
        return _Trace(self).run(kinds)

    def backward_of(self, kinds: tuple[Kind, ...]) -> Backward | None:
        """Return what the pass records where gradients of these kinds come; None where the operation's Python has to run."""
        key = (default_float[0], *kinds)
        if key not in self.backwards:
            self.backwards[key] = None
            try:
                forward, backward = self._learn(kinds)
            except Unknown:
                return None
            known = {*self.saved, *self.inner, *(self.forward.results[each][0][0] for each in self.saved_results)}
            if forward == self.forward and backward.read <= known:
                self.backwards[key] = backward
        return self.backwards[key]

    def call(self, values: list[Value], tensors: list[Tensor], edges: tuple[Edge, ...]) -> object:
        """Record a call over values of its tensors, and return its results."""
        found = self.forward
        self.engine.recorder.reporting += found.reporting
        self.series.record(self.engine, values)
        results = [
            new_tensor(new_storage(values[number]), layout, kind, place)
            for (number, layout, kind, place), _ in found.results
        ]
        pending = Pending(self, edges)
        node = Node(found.title, edges, pending, len(results))
        for number, (each, (_, differentiable)) in enumerate(zip(results, found.results, strict=True)):
            if differentiable:
                each._grad_fn, each._output_number = node, number
        pending.saved = [(number, SavedTensor(tensors[number])) for number in self.saved]
        pending.results = [
            (found.results[each][0][0], SavedResult(results[each], each, found.title)) for each in self.saved_results
        ]
        pending.inner = [(number, values[number]) for number in self.inner]
        pending.held = [(number, values[number]) for number in self.held]
        if found.kind is None:
            return results[0]
        return found.kind(results) if found.kind is tuple else found.kind(*results)


class Pending:
    """What a node of a remembered call keeps for its pass."""

    __slots__ = ("edges", "held", "inner", "recipe", "results", "saved")

    def __init__(self, recipe: Recipe, edges: tuple[Edge, ...]) -> None:
        self.recipe = recipe
        self.edges = edges
        self.saved: list[tuple[int, SavedTensor]] = []
        self.results: list[tuple[int, SavedResult]] = []
        self.inner: list[tuple[int, Value]] = []
        self.held: list[tuple[int, Value]] = []

    @property
    def keeps_tensors(self) -> bool:
        """Whether there is anything that a second pass would miss."""
        return bool(self.saved or self.results or self.inner or self.held)

    def __call__(self, *gradients: Tensor | None) -> list[Tensor | None]:
        """Return the gradient of each tracked operand."""
        recipe = self.recipe
        if context.enabled or context.casting or anomaly.enabled or not all(map(self._is_plain, gradients)):
            return self._again(gradients)
        found = recipe.backward_of(tuple(map(_kind_of, gradients)))
        if found is None:
            return self._again(gradients)
        values: list[Any] = [None] * recipe.forward.total
        for number, saved in [*self.saved, *self.results]:
            storage = saved.tensor._storage
            if storage.version != saved.version:
                return self._again(gradients)
            values[number] = storage.value
        for number, value in self.inner:
            values[number] = value
        given = [each for each in gradients if each is not None]
        storages = {len(values) + number: each._storage for number, each in enumerate(given)}
        values += [each._storage.value for each in given]
        found.series.record(recipe.engine, values)
        made: list[Tensor | None] = []
        for each in found.results:
            if each is None:
                made.append(None)
                continue
            number, layout, kind, place = each
            storage = storages.get(number)
            if storage is None:
                storage = storages[number] = new_storage(values[number])
            made.append(new_tensor(storage, layout, kind, place))
        return made

    def _is_plain(self, gradient: Tensor | None) -> bool:
        return gradient is None or (
            gradient.__class__ in PLAIN and gradient._storage.value.engine is self.recipe.engine
        )

    def _again(self, gradients: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Run the operation's Python over what was kept, and send gradients through the graph that it makes.

        Raises:
            RuntimeError: something was modified in place since it was kept.
        """
        recipe = self.recipe
        # What was written to since, though nothing reads it: as it was.
        kept = {number: _storage_of(value, 0) for number, value in self.held}
        written: list[tuple[Storage, int]] = []
        for number, saved in self.saved:
            storage = kept[number] = saved.tensor._storage
            if storage.version != saved.version:
                # The call sees the count of writes as it was, and the pass what became of it.
                kept[number] = _storage_of(storage.value, saved.version)
                written.append((kept[number], storage.version))
        edges = dict(zip(recipe.tracked, self.edges, strict=True))
        tensors = [_connected(recipe, number, kept, edges.get(number)) for number in range(len(recipe.operands))]
        wanted: dict[Edge, int] = {}
        for number, edge in enumerate(self.edges):
            wanted.setdefault(edge, number)
        start = next(sequence)
        result = _called(recipe, tensors)
        results: tuple[Any, ...] = result if isinstance(result, tuple) else (result,)
        made = {recipe.forward.results[place][0][0]: each for place, each in enumerate(results)}
        written += [(made[number]._storage, saved.tensor._storage.version) for number, saved in self.results]
        for storage, version in written:
            storage.version = version
        found = passes[0](_roots(results, gradients), wanted, context.enabled, start)
        return [found.get(number) for number in range(len(self.edges))]


def _storage_of(value: Value, version: int) -> Storage:
    """Return a storage with a count of writes for a value that another one owns."""
    made = Storage()
    made.value, made.version, made.number, made.inference = value, version, next(storage_numbers), False
    return made


def _connected(recipe: Recipe, number: int, kept: dict[int, Storage], edge: Edge | None) -> Tensor:
    """Return a tensor to run an operation over again: what was kept of it, or unknown elements that nothing depends on."""
    operand = recipe.operands[number]
    # Several operands may have one value.
    same = (place for place, each in enumerate(recipe.operands) if each.first == operand.first and place in kept)
    found = next((kept[place] for place in same), None)
    storage = new_storage(recipe.engine.allocate(operand.kind, operand.numel)) if found is None else found
    tensor = Tensor._from_storage(storage, operand.layout, operand.dtype, operand.device)
    if edge is not None:
        tensor._grad_fn, tensor._output_number = edge
    return tensor


def _called(recipe: Recipe, tensors: list[Tensor]) -> object:
    """Call a recipe's function as the call that it was made of did, whatever the thread does now."""

    def filled(each: Place | Tensor) -> Tensor:
        return tensors[each.number] if isinstance(each, Place) else each

    named = {name: arranged(each, filled) for name, each in recipe.named.items()}
    before = context.enabled, context.casting, context.saved_hooks, context.capture, running.nodes
    context.enabled, context.casting, context.saved_hooks, context.capture, running.nodes = True, {}, [], None, []
    try:
        return recipe.function(*[arranged(each, filled) for each in recipe.arguments], **named)
    finally:
        context.enabled, context.casting, context.saved_hooks, context.capture, running.nodes = before


def _roots(results: Iterable[Tensor], gradients: Sequence[Tensor | None]) -> list[tuple[Edge, Tensor]]:
    pairs = zip((each._gradient_edge() for each in results), gradients, strict=True)
    return [(edge, gradient) for edge, gradient in pairs if edge is not None and gradient is not None]


def _kind_of(gradient: Tensor | None) -> Kind:
    if gradient is None:
        return None
    return gradient._layout, gradient.dtype, gradient._storage.value.numel


class _Trace:
    """A run of an operation and of its pass over values that nobody computes, on a tape of its own.

    Attributes:
        numbers: by the slot of a value on the tape its number.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.engine = recipe.engine
        self.tape = Tape()
        self.numbers: dict[int, int] = {}
        self.count = 0
        # Nothing but these holds the values: tapes know them weakly.
        self.values: list[Value] = []

    def run(self, kinds: Sequence[Kind] | None) -> tuple[Forward, Backward]:
        """Return what the call records, and what its pass records where gradients of these kinds come.

        Raises:
            Unknown: it does more than to record kernels, or what it records cannot be taken apart.
        """
        recorder = self.engine.recorder
        state = recorder.reads, recorder.failed
        before = recorder.tape, recorder.ahead, recorder.reporting
        recorder.tape, recorder.ahead = self.tape, Ahead()
        with looks.listen(True) as made:
            try:
                found = self._both(kinds)
            except Unknown:
                raise
            except Exception as error:
                raise Unknown from error
            finally:
                unlike = (
                    not self.tape.open or recorder.tape is not self.tape or (recorder.reads, recorder.failed) != state
                )
                (recorder.tape, recorder.ahead, recorder.reporting), recorder.failed = before, state[1]
            if unlike or any(value.place[0] is not self.tape for value, _ in made):
                raise Unknown
        numbers = [self.numbers[value.place[1]] for value, _ in made]
        # What looked at numbers that are no operand's depends on more than its operands.
        if any(each >= len(self.recipe.operands) for each in numbers):
            raise Unknown
        self.recipe.looks = [(number, again) for number, (_, again) in zip(numbers, made, strict=True)]
        return found

    def _both(self, kinds: Sequence[Kind] | None) -> tuple[Forward, Backward]:
        recipe, recorder = self.recipe, self.engine.recorder
        values: list[Value] = []
        tensors: list[Tensor] = []
        for number, each in enumerate(recipe.operands):
            value = values[each.first] if each.first < number else self._value(each.kind, each.numel)
            values.append(value)
            storage = tensors[each.first]._storage if each.first < number else new_storage(value)
            tensor = Tensor._from_storage(storage, each.layout, each.dtype, each.device)
            tensor._requires_grad = each.tracked
            tensors.append(tensor)
            self.numbers[value.place[1]] = number
        self.count = len(values)
        reporting = recorder.reporting
        result = _called(recipe, tensors)
        results: tuple[Any, ...] = result if isinstance(result, tuple) else (result,)
        steps = self._taken(self.tape.entries)
        forward = self._forward(result, results, steps, recorder.reporting - reporting)
        count = len(self.tape.entries)
        gradients = self._gradients(results, kinds)
        edges: list[Any] = [tensors[each]._gradient_edge() for each in recipe.tracked]
        wanted = {edge: number for number, edge in enumerate(edges)}
        running.unpacked = unpacked = []
        try:
            found = passes[0](_roots(results, gradients), wanted, False, 0)
        finally:
            running.unpacked = None
        if recorder.reporting - reporting != forward.reporting:
            raise Unknown
        given, backward = self.count, self._taken(self.tape.entries[count:])
        made = [
            self._made(each, forward.total) if each is not None else None for each in map(found.get, range(len(edges)))
        ]
        read = {each for _, operands, _ in backward for each in operands if each < forward.total}
        # What a node looks at it keeps, though no kernel of these sizes reads it.
        places = (each._storage.value.place for each in unpacked)
        looked_at = (self.numbers.get(slot, forward.total) for tape, slot in places if tape is self.tape)
        read.update(each for each in looked_at if each < forward.total)
        # PyTorch lets these be written to, while what is kept of other operands is watched.
        if any(values[each].saved for each in read if each < len(values)):
            raise Unknown
        series = Series(backward, given, {each[0] for each in made if each is not None})
        return forward, Backward(series, made, frozenset(read))

    def _value(self, kind: dtype, numel: int) -> Value:
        value = new_value(self.engine, kind, numel)
        value.place = (self.tape, len(self.tape.slots))
        self.tape.slots.append(ref(value))
        self.values.append(value)
        return value

    def _taken(self, entries: Sequence[Entry]) -> list[Step]:
        """Return kernels over numbered values, and number what they make."""
        steps: list[Step] = []
        for kernel, operands, output, parameters in entries:
            if any(each not in self.numbers for each in operands):
                raise Unknown
            steps.append((kernel, [self.numbers[each] for each in operands], parameters))
            for slot in range(output, output + len(kernel.outputs)):
                self.numbers[slot] = self.count
                self.count += 1
        return steps

    def _made(self, tensor: Tensor, least: int) -> Made:
        tape, slot = tensor._storage.value.place
        number = self.numbers.get(slot, -1) if tape is self.tape else -1
        # A gradient of a part is summed with those of other parts in another way.
        if number < least or tensor.__class__ is not Tensor or "_place" in tensor.__dict__:
            raise Unknown
        return number, tensor._layout, tensor.dtype, tensor.device

    def _forward(self, result: object, results: tuple[Tensor, ...], steps: list[Step], reporting: int) -> Forward:
        titles, found = set(), []
        for each in results:
            made = self._made(each, len(self.recipe.operands))
            if each._base is not None or each.dtype.is_complex:
                raise Unknown
            if each._grad_fn is not None:
                titles.add(each._grad_fn.title)
            found.append((made, each._grad_fn is not None))
        if len(titles) != 1 or len({made[0] for made, _ in found}) < len(found):
            raise Unknown
        kind = result.__class__ if isinstance(result, tuple) else None
        return Forward(steps, found, self.count, kind, titles.pop(), reporting)

    def _gradients(self, results: tuple[Tensor, ...], kinds: Sequence[Kind] | None) -> list[Tensor | None]:
        """Return tensors that stand for gradients: of given kinds, or dense ones of all results that have one."""
        if kinds is None:
            kinds = [
                (contiguous_layout(each._layout.shape), each.dtype, each._layout.numel)
                if each._grad_fn is not None
                else None
                for each in results
            ]
        made: list[Tensor | None] = []
        for each in kinds:
            if each is None:
                made.append(None)
                continue
            layout, kind, numel = each
            value = self._value(kind, numel)
            self.numbers[value.place[1]] = self.count
            self.count += 1
            made.append(Tensor._from_value(value, layout, kind, self.recipe.operands[0].device))
        return made
