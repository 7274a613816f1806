"""``torch.compile``: record the tapes of a whole function once and replay their plans without recording anything.

The first call with new arguments runs the function while every tape that runs is kept, with the sources of its plan's
buffers: a tensor among those that the function can reach, by its position; an earlier plan of the call; or a constant.
A replay looks the tensors up again, whatever memory they have by now, runs the plans, gives the tensors that the function wrote
their new values, and sets the gradients that it set.

A recording is found by all that the function's results depend on: arguments, the thread's switches, and what its code can
reach (:mod:`.guards`). Python between the operations does not run again: a function that changes what can be
reached, or depends on what cannot be looked into, is not replayed, and a warning says so once.
"""

from __future__ import annotations

import functools
import random
import sys
from collections.abc import Callable
from itertools import count, repeat
from operator import attrgetter, call, is_, is_not
from typing import Any

from ..bounded import Bounded
from ..ir.records import Record
from ..notices import warn, warn_once
from ..record.context import context
from ..record.devices import MetaEngine, engines, flush
from .guards import Description, Same, World, ambient
from .lately import Lately
from .recording import Recording, Replay
from .results import unknown_object

#: recordings kept per function, and how many in a row may be made without one being replayed
RECORDING_LIMIT = 64
FRUITLESS_LIMIT = 32
#: calls in a row that may change what the function can reach: the first ones make caches and optimisers' state
CHANGES_LIMIT = 3
_UNSEEN: Any = object()
# A network has hundreds of tensors, which every call looks at: without a step of Python's for each.
_gradient_of, _number_of = attrgetter("_grad"), attrgetter("_storage.number")


class Conditions(Record):
    """All that a call's results depend on besides tensors' elements."""

    __slots__ = fields = ("described", "token", "gradients", "aliases", "ambient")
    token: object


class Call:
    """What one call was given and what its function can reach: a key, and all tensors, the gradients last.

    ``world`` returns what the function and given modules, functions and optimisers can reach; ``lately`` are earlier arguments.
    """

    def __init__(self, world: Callable[[list[object]], World], lately: Lately, args: object, kwargs: object) -> None:
        self.arguments = Description(opens=False, lately=lately)
        described = self.arguments.of(args), self.arguments.of(kwargs)
        self.world = world(self.arguments.roots)
        token, references, unseen, known = self.world.look()
        reached = list(map(call, references))
        if any(map(is_, reached, repeat(None))):
            # Something was taken out of where nothing is noticed.
            token, references, unseen, known = self.world.look(again=True)
            reached = list(map(call, references))
        self.unseen = self.arguments.unseen or unseen
        self.reached = reached
        self.tensors: list[Any] = [*reached, *self.arguments.tensors]
        self.gradients: list[Any] = list(map(_gradient_of, self.tensors))
        self.known, gradients = self.tensors, None
        if any(map(is_not, self.gradients, repeat(None))):
            gradients = tuple([None if each is None else (each._layout, each.dtype) for each in self.gradients])
            self.known = [*self.tensors, *[each for each in self.gradients if each is not None]]
        # What the code reaches comes first: its places are known.
        places, first = dict(known), len(reached)
        aliases = tuple(map(places.setdefault, map(_number_of, self.known[first:]), count(first)))
        self.places = places
        self.ambient = ambient()
        self.described = described
        self.key = Conditions(described, token, gradients, aliases, self.ambient)

    def moved(self) -> bool:
        """Return whether what the function can reach is not what it was, be it that a tensor stands in another's place."""
        token, references, *_ = self.world.look(again=True)
        return token is not self.key.token or any(
            each() is not before for each, before in zip(references, self.reached, strict=True)
        )

    def graph(self) -> bool:
        """Return whether a gradient of the caller's could flow into the function."""
        return context.enabled and any(each.grad_fn is not None for each in self.tensors)


def record_call(
    function: Callable[..., object], recording: Recording, args: tuple[object, ...], kwargs: dict[str, object]
) -> object:
    """Return a function's result; what it computes runs now, and the recording keeps it."""
    flush()
    for engine in engines():
        engine.detach()
    context.capture = recording
    try:
        result = function(*args, **kwargs)
        flush()
    finally:
        context.capture = None
        for engine in engines():
            engine.detach()
    return result


class CompiledFunction:
    """A function whose plans are recorded per state of what it depends on, and replayed afterwards."""

    # What is in __dict__ a program put there, as into a function's: it counts among what the function can reach.
    __slots__ = (
        "function", "replays", "worlds", "lately", "statistics", "fruitless", "changes", "warned", "__dict__", "__weakref__",
    )  # fmt: skip

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.replays: Bounded[Any, Replay | None] = Bounded(RECORDING_LIMIT)
        self.worlds: Bounded[Any, World] = Bounded(RECORDING_LIMIT)
        self.lately = Lately()
        self.statistics = {"recorded": 0, "replayed": 0, "fallbacks": 0}
        self.fruitless = 0
        self.changes = 0
        self.warned = False
        functools.update_wrapper(self, function)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy records anew: recordings are tied to the buffers of this one's storages.
        return CompiledFunction, (self.function,)

    def _describe_for_recording(self, description: Description) -> Any:
        return description.of(self.function), description.of(self.__dict__)

    def world(self, roots: list[object]) -> World:
        """Return what the function and these of its arguments can reach."""
        key = tuple([Same(each) for each in roots])
        found = self.worlds.get(key)
        if found is None:
            found = self.worlds[key] = World(self.function, *roots)
        return found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, by replay where a call under the same conditions was recorded."""
        if context.capture is not None or self.fruitless >= FRUITLESS_LIMIT:
            return self._uncompiled(args, kwargs)
        call = Call(self.world, self.lately, args, kwargs)
        if call.ambient is None:
            return self._uncompiled(args, kwargs)
        if call.unseen is not None:
            return self._refuse(call.unseen, args, kwargs)
        found = self.replays.get(call.key, _UNSEEN)
        if found is _UNSEEN:
            return self._record(call, args, kwargs)
        self.replays.move_to_end(call.key)
        if found is None:
            return self._uncompiled(args, kwargs)
        flush()
        if found.disturbs(call.known):
            return self._uncompiled(args, kwargs)
        result = found.run(call)
        if result is not found:
            self.fruitless = 0
            self.statistics["replayed"] += 1
            return result
        del self.replays[call.key]
        return self._record(call, args, kwargs)

    def _uncompiled(self, args: Any, kwargs: Any) -> Any:
        self.statistics["fallbacks"] += 1
        return self.function(*args, **kwargs)

    def _refuse(self, reason: str, args: Any, kwargs: Any) -> Any:
        self._warn(reason)
        return self._uncompiled(args, kwargs)

    def _warn(self, reason: str) -> None:
        if not self.warned:
            self.warned = True
            warn(
                f"torch.compile: {getattr(self.function, '__name__', type(self.function).__name__)} cannot be replayed "
                f"({reason}); it runs uncompiled",
            )

    def _record(self, call: Call, args: Any, kwargs: Any) -> Any:
        if any(isinstance(each._engine, MetaEngine) for each in call.arguments.tensors):
            return self.function(*args, **kwargs)
        if call.graph():
            return self._refuse("a gradient may flow out of it, into what made its arguments", args, kwargs)
        recording = Recording(call.places, call.known, call.world.holders)
        before = _drawn()
        result = record_call(self.function, recording, args, kwargs)
        self.statistics["recorded"] += 1
        self.fruitless += 1
        if self.fruitless >= FRUITLESS_LIMIT:
            self._warn("every call is under conditions of its own")
        self._keep(call, recording, result, args, kwargs, before)
        return result

    def _keep(self, call: Call, recording: Recording, result: Any, args: Any, kwargs: Any, before: Any) -> None:
        """Keep a recording under the conditions of its call, if replays would do all that the call did."""
        changed = self._changed(call, args, kwargs)
        reason = recording.broken or changed or unknown_object(result, call.arguments)
        if reason is None and _drawn() != before:
            reason = "it draws Python's or NumPy's random numbers"
        if reason is None and call.moved():
            # Perhaps it made what the next call finds: a cache, an optimiser's state.
            self.changes += 1
            if self.changes < CHANGES_LIMIT:
                return
            reason = "every call changes what the next one finds"
        if reason is None and recording.events.own:
            reason = "it reads numbers of an optimiser that it makes itself"
        if reason is None and recording.events.stale(call.world.holders):
            reason = "it changes numbers that it reads"
        if reason is None:
            replay = Replay(recording, result, call)
            reason = replay.broken
            if reason is None:
                self.changes = 0
                self.replays[call.key] = replay
                return
        self._warn(reason)
        self.replays[call.key] = None

    def _changed(self, call: Call, args: Any, kwargs: Any) -> str | None:
        """Return what a call changed in its arguments that replays would not change, or None."""
        after = Description(opens=False, lately=self.lately)
        if (after.of(args), after.of(kwargs)) != call.described:
            return "it changes attributes of its arguments"
        if any(one is not other for one, other in zip(after.tensors, call.arguments.tensors, strict=True)):
            return "it puts new tensors into its arguments"
        places = call.places
        if any(places.get(each._storage.number) is None for each in call.tensors):
            return "it gives tensors that it did not make other memory"
        return None


def _drawn() -> Any:
    """Return the states of Python's and NumPy's random numbers, where they are in use."""
    numpy = sys.modules.get("numpy.random")
    states = numpy.get_state() if numpy is not None else None
    return random.getstate(), None if states is None else (states[1].tobytes(), states[2])


#: PyTorch's own compilers; whichever is named, functions are recorded and replayed
_BACKENDS = ("inductor", "eager", "aot_eager", "cudagraphs", "onnxrt", "openxla", "tvm")
#: names that say how much a compiler is to try
_MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")


def compile(model: Any = None, **options: Any) -> Any:
    """Return a function whose operations are recorded on the first call and replayed afterwards; of a module, one around it.

    Options of :func:`torch.compile` (``mode``, ``fullgraph``, ``dynamic``, names of PyTorch's own as ``backend``) are accepted
    and have no effect; of a compiler of one's own as ``backend``, which is not called, a warning says so. A function that cannot
    be replayed runs as it is, with one warning that says why.

    Raises:
        TypeError: what is to be compiled cannot be called.
        RuntimeError: the ``backend`` or the ``mode`` is unknown, or there are a mode and ``options``.
    """
    backend = options.get("backend", "inductor")
    if not callable(backend) and backend not in _BACKENDS:
        raise RuntimeError(f"Invalid backend: {backend!r:.80}; names that are accepted: {', '.join(_BACKENDS)}")
    mode = options.get("mode")
    if mode is not None and options.get("options") is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if mode is not None and backend == "inductor" and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    if model is None:
        return lambda function: compile(function, **options)
    if hasattr(model, "_optimized"):
        return model._optimized(functools.partial(compile, **options))
    if callable(backend):
        warn_once(
            f"torch.compile: the backend {getattr(backend, '__name__', backend)!s:.80} is not called; plans are recorded instead"
        )
    if not callable(model):
        raise TypeError(f"A callable function is expected, but {type(model).__name__} is provided.")
    return CompiledFunction(model)
