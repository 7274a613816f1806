"""Checkpoints that keep nothing: what a call saves for backward is computed again by the first backward pass that needs any of it.

Everything goes by hooks of saved tensors: the first time they keep a mark of each tensor in its place, and when a mark is to be turned
into a tensor again the call is repeated under hooks that keep the tensors, in the same order. A call inside of the call saves its own
arguments under the outer one's hooks, so that they are computed again as well.
"""

from __future__ import annotations

import contextlib
import itertools
import traceback
import weakref
from collections.abc import Callable, Generator, Sequence
from typing import NoReturn

from ..record.context import context
from ..record.grad_mode import enable_grad
from ..record.node import running
from ..tensors.saved_tensors import SavedTensor
from ..tensors.tensor import Tensor

_HEAD = "torch.utils.checkpoint: "
#: numbers for what is asked for outside of a backward pass: each time it is computed again
_outside = itertools.count(-1, -1)


class CheckpointError(RuntimeError):
    """The recomputed part is not what ran forward."""


class Defaults:
    """What checkpoints do that are not told: ``early_stop`` and ``debug``, None where each call says it itself."""

    early_stop: bool | None = None
    debug: bool | None = None


defaults = Defaults()


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Generator[None]:
    """Choose whether repetitions of checkpoints that are recorded in the block end as soon as all that was saved is there again."""
    before, defaults.early_stop = defaults.early_stop, enable
    try:
        yield
    finally:
        defaults.early_stop = before


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Generator[None]:
    """Choose whether checkpoints of the block tell where they saved what when a repetition differs; None: as each call says."""
    before, defaults.debug = defaults.debug, enabled
    try:
        yield
    finally:
        defaults.debug = before


class _Stop(BaseException):
    """All that was saved is there again. No call between catches it."""


class _Mark:
    """Stands in a graph for a tensor that was saved."""

    __slots__ = ("__weakref__",)


class _Repetition:
    """The tensors of one repetition, by their marks, as long as these are in the graph and did not ask for theirs."""

    def __init__(self) -> None:
        self.tensors: weakref.WeakKeyDictionary[_Mark, Tensor] = weakref.WeakKeyDictionary()
        self.count = 0
        self.places: list[str] = []


class Frame:
    """One call that is repeated when backward needs what it saved.

    Args:
        call: repeats it, given its arguments.
        args: the arguments; tensors among them are saved as the call's own are, by the hooks that are there outside of it.
        check: compare the shapes, types and devices of what is saved.
        early_stop: end a repetition when all is there.
        debug: remember where tensors were saved.
    """

    def __init__(
        self, call: Callable[..., object], args: tuple[object, ...], check: bool, early_stop: bool, debug: bool
    ) -> None:
        self.call = call
        self.args = tuple(SavedTensor(each) if isinstance(each, Tensor) else each for each in args)
        self.check, self.debug = check, debug
        self.early_stop = early_stop
        self.marks: list[weakref.ref[_Mark]] = []
        self.kinds: list[tuple[object, ...]] = []
        self.places: list[str] = []
        self.repetitions: dict[int, _Repetition] = {}
        # A pass inside of the call may ask for what the call itself has saved up to there.
        self.complete = False

    # The first time

    @contextlib.contextmanager
    def recording(self) -> Generator[None]:
        """Keep marks of what is saved."""
        context.saved_hooks.append((self._mark, self._unmark))
        try:
            yield
            self.complete = True
        finally:
            context.saved_hooks.pop()

    def _mark(self, tensor: Tensor) -> _Mark:
        mark = _Mark()
        self.marks.append(weakref.ref(mark))
        self.kinds.append(_kind(tensor))
        if self.debug:
            self.places.append(_place())
        return mark

    # The other times

    def _unmark(self, mark: _Mark) -> Tensor:
        """Return the tensor, of any shape, of a mark, computed again unless this backward pass did that."""
        task = running.task
        number = next(_outside) if task is None else task.number
        repetition = self.repetitions.get(number)
        if repetition is None:
            repetition = self.repetitions[number] = _Repetition()
            self._repeat(repetition)
        if task is None:
            del self.repetitions[number]
        tensor = repetition.tensors.pop(mark, None)
        if tensor is None:
            raise CheckpointError(
                f"{_HEAD}Unpack is being triggered for a tensor that was already unpacked once. If you are calling ctx.saved_tensors "
                "in backward, make sure to do so only once. Otherwise please open an issue with details on your use case."
            )
        return tensor

    def _repeat(self, repetition: _Repetition) -> None:
        args = [each.unpack() if isinstance(each, SavedTensor) else each for each in self.args]

        def keep(tensor: Tensor) -> Tensor:
            return self._keep(repetition, tensor)

        context.saved_hooks.append((keep, _same))
        try:
            with enable_grad():
                self.call(*args)
        except _Stop:
            pass
        finally:
            context.saved_hooks.pop()
        if repetition.count != len(self.marks) and self.complete:
            self._differ(
                repetition,
                "A different number of tensors was saved during the original forward and recomputation.\n"
                f"Number of tensors saved during forward: {len(self.marks)}\n"
                f"Number of tensors saved during recomputation: {repetition.count}.",
            )
        if self.check:
            self._compare(repetition)

    def _keep(self, repetition: _Repetition, tensor: Tensor) -> Tensor:
        number = repetition.count
        if number >= len(self.marks):
            if not self.complete:
                return tensor.detach()
            self._differ(
                repetition, "trying to save more tensors during recomputation than during the original forward pass."
            )
        repetition.count += 1
        if self.debug:
            repetition.places.append(_place())
        mark = self.marks[number]()
        if mark is not None:
            repetition.tensors[mark] = tensor.detach()
        if self.early_stop and repetition.count == len(self.marks):
            raise _Stop
        return tensor.detach()

    def _compare(self, repetition: _Repetition) -> None:
        lines = []
        for number, (reference, kind) in enumerate(zip(self.marks, self.kinds, strict=True)):
            mark = reference()
            again = None if mark is None else _kind(repetition.tensors[mark])
            if again not in (None, kind):
                lines.append(
                    f"tensor at position {number}:\nsaved metadata: {_described(kind)}\nrecomputed metadata: {_described(again)}"
                )
        if lines:
            self._differ(
                repetition,
                "Recomputed values for the following tensors have different metadata than during the forward pass.\n"
                + "\n".join(lines),
            )

    def _differ(self, repetition: _Repetition, what: str) -> NoReturn:
        if not self.debug:
            raise CheckpointError(
                f"{_HEAD}{what}\n\nTip: To see a more detailed error message, either pass `debug=True` to\n"
                "`torch.utils.checkpoint.checkpoint(...)` or wrap the code block\nwith `with "
                "torch.utils.checkpoint.set_checkpoint_debug_enabled(True):` to\nenable checkpoint-debug mode globally."
            )
        parts = [
            f"{title}:\n" + "".join(f"{number}:\n{place}" for number, place in enumerate(places))
            for title, places in (("Saved in the forward pass", self.places), ("Saved again", repetition.places))
        ]
        raise CheckpointError(
            "You are seeing this error because you passed `debug=True` to checkpoint, or set_checkpoint_debug_enabled(True): tensors "
            f"were saved at these places.\n\n{parts[0]}\n{parts[1]}\n{_HEAD}{what}"
        )


def _same(tensor: Tensor) -> Tensor:
    return tensor


def _kind(tensor: Tensor) -> tuple[object, ...]:
    return tensor.shape, tensor.dtype, tensor.device


def _described(kind: Sequence[object]) -> str:
    return str(dict(zip(("shape", "dtype", "device"), kind, strict=True)))


def _place() -> str:
    return "".join(traceback.format_list(traceback.extract_stack(limit=12)[:-3]))


def casting_as_now() -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Return what opens the regions of autocast again that are open now."""
    switches, types, cache = dict(context.casting), dict(context.casting_types), context.casting_cache

    @contextlib.contextmanager
    def again() -> Generator[None]:
        before = context.casting, context.casting_types, context.casting_cache
        context.casting, context.casting_types, context.casting_cache = dict(switches), dict(types), cache
        context.casting_depth += 1
        try:
            yield
        finally:
            context.casting_depth -= 1
            context.casting, context.casting_types, context.casting_cache = before
            if context.casting_depth == 0:
                context.casts.clear()

    return again


__all__ = [
    "CheckpointError", "Defaults", "Frame", "casting_as_now", "defaults", "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
]  # fmt: skip
