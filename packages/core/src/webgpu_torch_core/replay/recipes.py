"""Remembered calls: what an operation recorded for arguments of one kind is recorded again without running its Python.

An operation written with others spends far more time in Python than its few kernels need to be appended to the graph. What
it records depends on its arguments' layouts, types and plain values only; so the second call of one kind appends the same
kernels over the new values: a single one where the scheduler merges them all and no gradients are recorded. What calls record
that gradients flow through is in :mod:`.gradients`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial, wraps
from inspect import unwrap
from typing import Any, Literal, NamedTuple, TypeVar
from weakref import ref

from ..backend.collection import without_collection
from ..bounded import Bounded
from ..dispatch.direct import DIRECT, PLAIN, Direct
from ..ir.dtypes import dtype
from ..ir.layouts import Layout
from ..notices import Notices
from ..record.checks import looks
from ..record.context import context, default_float
from ..record.devices import device
from ..record.engine import Engine
from ..record.node import anomaly, running
from ..record.recorder import Recorder
from ..record.series import Series
from ..record.tape import Tape, Value
from ..scheduling import described, joined
from ..tensors.tensor import Tensor, new_storage, new_tensor
from .gradients import Operand, Step, Unknown
from .gradients import Recipe as GradientRecipe
from .tails import tail_of

#: kinds of calls kept per operation
_LIMIT = 4096
Function = TypeVar("Function", bound=Callable[..., Any])
#: the number of a value and what looks at its numbers, as in :class:`..record.checks.Looks`
_Look = tuple[int, Callable[[Value], bool]]
#: what a key says of a tensor that a gradient flows to, and of one where it ends
_TRACKED, _LEAF = object(), object()
_SEEN: Any = object()
_SIMPLE = frozenset((bool, int, float, str, type(None), dtype, device))
#: those whose values are the same where they and their classes are equal
EXACT = _SIMPLE - {float}
#: see :func:`saves_arguments`
_saving: set[Callable[..., object]] = set()


def saves_arguments(function: Function) -> Function:
    """Decorate an operation whose node keeps arguments without gradients, too, that its gradients read something made of.

    PyTorch's nodes save them for nearly all of these; and to run the Python each time would take longer.
    """
    _saving.add(function)
    return function


class _Recipe(NamedTuple):
    """What a call recorded.

    Fields:
        series: kernels over the values of arguments.
        results: for each result the number of the value that holds it, its layout, dtype and device.
        kind: the class of the tuple of several results; None of a single one.
        reporting: how many of the kernels report what they find wrong, to the thread with the slot ``slot``.
        looks: arguments whose numbers the call looked at in the host's memory, and how to look at others in their place.
            A recipe without results says nothing else: what they are computed by was not told apart from what the call recorded.
    """

    series: Series
    results: list[tuple[int, Layout, dtype, device]]
    kind: type[tuple[Tensor, ...]] | None
    reporting: int
    slot: int
    looks: list[_Look]

    def made(self, values: list[Value]) -> Tensor | tuple[Tensor, ...]:
        """Return the results of a call over values, those that were made last."""
        if self.kind is None:
            [(number, layout, kind, place)] = self.results
            return new_tensor(new_storage(values[number]), layout, kind, place)
        made = [
            new_tensor(new_storage(values[number]), layout, kind, place) for number, layout, kind, place in self.results
        ]
        return self.kind(made) if self.kind is tuple else self.kind(*made)


def of_layers(second: int) -> Callable[[Function], Function]:
    """Return the decorator :func:`remembered` for what layers call; ``second``: which argument is their first parameter."""
    return partial(remembered, second=second)


def remembered(function: Function, second: int = 0) -> Function:
    """Decorate a deterministic operation with a tensor, or a tuple of tensors, as its result, none of them an argument."""
    recipes: Bounded[tuple[object, ...], _Recipe] = Bounded(_LIMIT)
    tracked = _Tracked()

    def record(args: tuple[Any, ...], kwargs: dict[str, object]) -> object:
        here = context.__dict__
        found = tail = None
        values: list[Value] = []
        if second and not (kwargs or here["enabled"] or here["casting"]) and len(args) > second:
            # A layer's parameters and options are described once.
            tail = tail_of(record, args, second)
            if tail is not None:
                values = [args[0]._storage.value, args[second]._storage.value, *tail.values]
                found = recipes.get(tail.key(args[0], values))
        if found is None:
            # Recordings that are replayed, and backward passes, are not checked.
            key: list[Any] = [default_float[0], here["capture"] is None, not running.nodes]
            values = []
            tensors: list[Tensor] | None = [] if here["enabled"] else None
            given = (*args, *kwargs, *kwargs.values()) if kwargs else args
            if here["casting"] or not describe(given, key, values, tensors):
                return call.__wrapped__(*args, **kwargs)
            if len(values) > 1 and len(places := dict.fromkeys(values)) < len(values):
                # Arguments that share their memory do so in every call of this kind.
                numbers = dict(zip(places, range(len(places)), strict=True))
                key.append(tuple(map(numbers.__getitem__, values)))
                tail = None
            identity = tuple(key)
            if tensors and _TRACKED in key:
                return tracked.call(call.__wrapped__, args, kwargs, values, tensors, identity)
            found = recipes.get(identity)
            # The codes of reports name the thread.
            if found is None or not found.results or (found.reporting and found.slot != values[0].engine.recorder.slot):
                return without_collection(lambda: _watched(call.__wrapped__, args, kwargs, values, recipes, identity))
            if found.looks and not _looked_again(found.looks, values):
                return call.__wrapped__(*args, **kwargs)
            if tail is not None and not (found.looks or found.reporting):
                recipes[tail.key(args[0], values)] = found
        engine: Engine = values[0].engine
        engine.recorder.reporting += found.reporting
        found.series.record(engine, values)
        return found.made(values)

    @wraps(function)
    def call(*args: object, **kwargs: object) -> object:
        return record(args, kwargs)

    DIRECT[call] = Direct(record)
    return call  # pyright: ignore[reportReturnType]


def describe(given: Iterable[Any], key: list[Any], values: list[Any], tensors: list[Tensor] | None) -> bool:
    """Add what arguments are to a call's key and their values to its values; False where one must not be remembered.

    ``tensors``: where to add them, too, and to the key whether gradients flow to them; None where no gradients are recorded.
    """
    for each in given:
        kind = each.__class__
        if kind in PLAIN:
            value = each._storage.value
            key += (each._layout, each._dtype, value.numel, value.engine)
            values.append(value)
            if tensors is not None:
                tensors.append(each)
                if each._grad_fn is not None:
                    key.append(_TRACKED)
                elif each._requires_grad:
                    key += (_TRACKED, _LEAF)
                elif each._base is not None and each._base.requires_grad:
                    # A view may have a gradient since its base was written to.
                    key.append(_TRACKED)
        elif kind in _SIMPLE:
            # The two zeros are equal, but not the same.
            key += (kind, each if each or kind is not float else str(each))
        elif isinstance(each, list | tuple):
            if EXACT.issuperset(map(type, each)):
                # Sizes and the like: True, 1 and 1.0 are equal, and not the same.
                key += (kind, tuple(map(type, each)), tuple(each))
                continue
            key += (kind, len(each))
            if not describe(each, key, values, tensors):
                return False
        else:
            return False
    return True


def _watched(
    function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object], values: list[Value],
    recipes: dict[tuple[object, ...], _Recipe], identity: tuple[object, ...],
) -> object:  # fmt: skip
    """Call the function and remember what it recorded, if it did nothing else: read or look at numbers, write to arguments."""
    engine: Any = values[0].engine if values else None
    # Devices without kernels (meta) have nothing to remember.
    if not hasattr(engine, "record") or any(each.engine is not engine for each in values):
        return function(*args, **kwargs)
    known = recipes.get(identity)
    for number, _ in () if known is None or looks.later else known.looks:
        # So that nothing but what the call records is on the tape.
        values[number].realize()
    tape, recorder = engine.tape, engine.recorder
    before, reporting, start, slots = _state(recorder), recorder.reporting, len(tape.entries), len(tape.slots)
    alone = recorder.lone
    if known is None:
        # What runs at once leaves nothing on the tape to remember.
        recorder.lone = 0
    try:
        with looks.listen() as found:
            result = function(*args, **kwargs)
    finally:
        recorder.lone = alone
    results: tuple[Any, ...] = result if isinstance(result, tuple) else (result,)
    after: list[Any] = []
    describe((*args, *kwargs.values()), [], after, None)
    kept = list(map(id, after)) == list(map(id, values))
    looked = [(values.index(value) if value in values else -1, again) for value, again in found]
    # What looked at numbers that are no argument's depends on more than its arguments.
    plain = kept and _state(recorder) == before and all(number >= 0 for number, _ in looked)
    recipe = None
    if plain and tape.open and all(_is_new(each, args, kwargs) for each in results):
        kind = result.__class__ if isinstance(result, tuple) else None
        recipe = _recipe(tape, values, start, results, kind, recorder.reporting - reporting, recorder.slot)
    if recipe is not None:
        recipe = recipe._replace(looks=looked)
        made = [each._storage.value for each in results]
        recipes[identity] = _merged(recipe, engine, tape, values, (start, slots), made)
    elif known is None:
        recipes[identity] = _Recipe(Series((), 0, ()), [], None, 0, 0, looked if plain else [])
    return result


class _Tracked:
    """The kinds of calls of an operation that gradients flow through."""

    def __init__(self) -> None:
        #: None where a call of the kind was made once, and False where its kind cannot be remembered
        self.recipes: Bounded[tuple[object, ...], GradientRecipe | Literal[False] | None] = Bounded(_LIMIT)

    def call(
        self,
        function: Any,
        args: Any,
        kwargs: Any,
        values: list[Value],
        tensors: list[Tensor],
        identity: tuple[Any, ...],
    ) -> Any:
        """Return the results of a call: by its recipe, which the second call of a kind makes."""
        found = self.recipes.get(identity, _SEEN)
        if found is False or context.capture is not None or context.saved_hooks or running.nodes or anomaly.enabled:
            return function(*args, **kwargs)
        engine: Any = values[0].engine
        if found is _SEEN:
            return without_collection(lambda: self._first(function, args, kwargs, values, identity))
        edges = tuple([edge for each in tensors if each.requires_grad and (edge := each._gradient_edge()) is not None])
        if found is None or (found.forward.reporting and found.slot != engine.recorder.slot):
            operands = [_operand(each, tensors, values, number) for number, each in enumerate(tensors)]
            try:
                found = self.recipes[identity] = without_collection(
                    lambda: GradientRecipe(function, args, kwargs, operands, engine, unwrap(function) in _saving)
                )
            except Unknown:
                self.recipes[identity] = False
                return function(*args, **kwargs)
        if len(edges) != len(found.tracked) or not _looked_again(found.looks, values):
            return function(*args, **kwargs)
        return found.call(values, tensors, edges)

    def _first(
        self, function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object], values: list[Value],
        identity: tuple[object, ...],
    ) -> object:  # fmt: skip
        """Call the function and note the kind, if nothing was done that a recipe would not do."""
        engine: Any = values[0].engine
        known = hasattr(engine, "record") and not engine.eager and all(each.engine is engine for each in values)
        if not known:
            return function(*args, **kwargs)
        before = _state(engine.recorder)
        result = function(*args, **kwargs)
        self.recipes[identity] = False if _state(engine.recorder) != before else None
        return result


def _operand(tensor: Tensor, tensors: list[Tensor], values: list[Value], number: int) -> Operand:
    """Return what a kind of calls says of a tensor."""
    value = values[number]
    leaf = tensor._requires_grad and tensor._grad_fn is None
    return Operand(
        tensor._layout, tensor.dtype, tensor.device, values.index(value), value.numel, value.dtype, tensor.requires_grad, leaf
    )  # fmt: skip


def _is_new(result: object, args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
    """Return whether a result is a tensor that the call made, without a gradient."""
    if not isinstance(result, Tensor) or result.__class__ is not Tensor or result._grad_fn is not None:
        return False
    return not any(result is each for each in (*args, *kwargs.values()))


def _looked_again(given: list[_Look], values: list[Value]) -> bool:
    """Look at the numbers of other values; return whether all of them are known to the host.

    Raises:
        Exception: what the call raises for these numbers.
    """
    for number, again in given:
        if not again(values[number]):
            return False
    return True


def _state(recorder: Recorder) -> tuple[int, Value | None, int]:
    """Return what a call changes that does more than record kernels and look at known numbers: reads, checks of values, warnings."""
    return recorder.reads, recorder.failed, Notices.count


def _recipe(
    tape: Tape, values: list[Any], start: int, results: tuple[Tensor, ...], kind: Any, reporting: int, slot: int
) -> _Recipe | None:
    """Return what was recorded since the tape had ``start`` kernels."""
    number_of = {each.place[1]: number for number, each in enumerate(values) if each.place[0] is tape}
    count = len(values)
    steps: list[Step] = []
    for kernel, operands, output, parameters in tape.entries[start:]:
        if any(each not in number_of for each in operands):
            return None
        steps.append((kernel, [number_of[each] for each in operands], parameters))
        for slot_made in range(output, output + len(kernel.outputs)):
            number_of[slot_made] = count
            count += 1
    found: list[tuple[int, Layout, dtype, device]] = []
    for each in results:
        tape_of_result, place = each._storage.value.place
        number = number_of.get(place, -1) if tape_of_result is tape else -1
        if number < len(values):
            return None
        found.append((number, each._layout, each.dtype, each.device))
    # Results that share their memory are not told apart.
    alone = len({number for number, *_ in found}) == len(found)
    series = Series(steps, len(values), {number for number, *_ in found})
    return _Recipe(series, found, kind, reporting, slot, []) if alone else None


def _merged(
    recipe: _Recipe, engine: Engine, tape: Tape, values: list[Value], before: tuple[int, int], made: list[Value]
) -> _Recipe:
    """Return a recipe of the one kernel that those of a call merge to, and put it in their place on the tape.

    A recipe stays as it is where they merge to several, or where somebody can reach more of what they compute than ``made``.

    Args:
        before: how many kernels and slots the tape had before the call.
    """
    entries = tape.entries[before[0] :]
    if len(entries) < 2 or recipe.reporting or tape.capture is not None or engine.eager or not engine.device.fuses:
        return recipe
    outputs = {entry.output + each for entry in entries for each in range(len(entry.kernel.outputs))}
    wanted = [each.place[1] for each in made]
    found = None
    if {each for each in outputs if tape.slots[each]() is not None} == set(wanted):
        found = joined(*described(entries), frozenset(wanted), engine.limits)
    # What has no elements is not computed.
    if found is None or not set(wanted) <= set(found.outputs) or not outputs.isdisjoint(found.operands):
        return recipe
    numbers = [number for entry in entries for number in entry.parameters]
    parameters = tuple([numbers[each] for each in found.parameters])
    number_of = {each.place[1]: number for number, each in enumerate(values) if each.place[0] is tape}
    operands = [number_of[each] for each in found.operands]
    places = {slot: len(values) + number for number, slot in enumerate(found.outputs)}
    results = [(places[slot], *each[1:]) for slot, each in zip(wanted, recipe.results, strict=True)]
    by_slot = dict(zip(wanted, made, strict=True))
    with engine.tapes_lock:
        # Another thread that wanted one of its values may have run the tape in the meantime.
        open = tape.shortens_to(before[0])
        if open:
            tape.shorten(*before)
    if open:
        again = engine.record(found.kernel, [values[each] for each in operands], parameters)
        for slot, new in zip(found.outputs, again, strict=True):
            value = by_slot[slot]
            value.place = new.place
            if new.place[0] is not None:
                new.place[0].slots[new.place[1]] = ref(value)
            value.buffer = new.buffer
    series = Series([(found.kernel, operands, parameters)], len(values), set(places.values()))
    return recipe._replace(series=series, results=results)
