"""What a call depends on besides its arguments: one record per thread, because PyTorch's switches are per thread."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, TypeVar

from ..ir.dtypes import dtype, float32

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")


class Context(threading.local):
    """A thread's switches.

    Attributes:
        enabled: whether operations record gradients.
        inference: whether tensors made now are of no use to gradients later; then none are recorded.
        grad_asked: whether recording was asked for last, which counts as soon as inference mode does not.
        device: where new tensors land inside of ``with device``, or None.
        casting: device types -> whether an autocast region is open; empty where none is.
        casting_types: device types -> the type that regions use.
        casting_cache: whether converted weights are kept until the outermost region ends; they are in ``casts``.
        casting_depth: how many regions are open.
        saved_hooks: pairs of functions that pack and unpack what is saved for backward, the innermost last.
        capture: the recording of a compiled function that the thread is in, or None.
        refuses_random: why no random numbers may be drawn, or None; ``vmap`` sets it while examples must not share draws.
        transforms: how many transforms of ``torch.func`` are calling a function.
        engines: device types -> the engine that stands in for their devices; empty but while an export is captured.
    """

    def __init__(self) -> None:
        self.enabled = True
        self.inference = False
        self.grad_asked = True
        self.device: Any = None
        self.casting: dict[str, bool] = {}
        self.casting_types: dict[str, dtype] = {}
        self.casting_cache = True
        self.casting_depth = 0
        self.casts: dict[int, tuple[Any, Any]] = {}
        self.saved_hooks: list[tuple[Any, Any]] = []
        self.capture: Any = None
        self.refuses_random: str | None = None
        self.transforms = 0
        self.engines: dict[str, Any] = {}


class Ever:
    """What any thread has done so far: as long as none has, none need look at its own record, which takes longer.

    Attributes:
        inference: whether one was in inference mode.
        engines: whether one had engines stand in for those of devices.
    """

    __slots__ = ("engines", "inference")

    def __init__(self) -> None:
        self.inference = self.engines = False


context = Context()
#: what each thread has of its own and hands to one that goes on in its place
handed_on: list[threading.local] = [context]
ever = Ever()
#: the type of floating-point tensors that are not told theirs; of the whole process, as in PyTorch
default_float: list[dtype] = [float32]
#: whether memory that nothing was written to yet has known contents
filling: list[bool] = [False]


def go_on_elsewhere(function: Callable[[], Result]) -> Result:
    """Return what a function returns, called by another thread in this one's place: its stack is empty.

    Raises:
        BaseException: what the function raised.
    """
    own = [dict(vars(each)) for each in handed_on]
    returned: list[Result] = []
    raised: list[BaseException] = []

    def run() -> None:
        for each, values in zip(handed_on, own, strict=True):
            vars(each).update(values)
        try:
            returned.append(function())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join()
    if raised:
        raise raised.pop()
    return returned[0]
