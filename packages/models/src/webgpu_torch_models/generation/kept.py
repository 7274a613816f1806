"""Captured steps of a model, kept from one text to the next as long as there is the model."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import get_ident
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary, proxy

import webgpu_torch_core as torch
from webgpu_torch_core.bounded import Bounded

if TYPE_CHECKING:
    from webgpu_torch_models.pretrained import PreTrainedModel

#: the least recently used go first
MOST_STEPS = 64
Step = Callable[..., Any]


class KeptSteps:
    """Captured steps by what they depend on besides their arguments."""

    def __init__(self) -> None:
        self._found: Bounded[Hashable, Step] = Bounded(MOST_STEPS)
        self._generators: dict[Hashable, torch.Generator] = {}

    def get(self, key: Hashable, make: Callable[[], Step]) -> Step:
        """Return the step that is kept under a key, or a new one."""
        found = self._found.pop(key, None)
        if found is None:
            found = torch.compile(make())
        # The last is the one used last.
        self._found[key] = found
        return found

    def generator(self, key: Hashable, device: torch.device) -> torch.Generator:
        """Return the generator that captured steps draw from under a key, in place of the one that each text has."""
        found = self._generators.get((key, device))
        if found is None:
            found = self._generators[key, device] = torch.Generator(device)
        return found


_of_models: WeakKeyDictionary[PreTrainedModel, KeptSteps] = WeakKeyDictionary()


def step_of(
    model: PreTrainedModel, key: Hashable, make: Callable[[PreTrainedModel, torch.Generator | None], Step],
    generator: torch.Generator | None, compile: bool,
) -> Step:  # fmt: skip
    """Return a step of a model, captured by :func:`torch.compile` and kept under a key, or as it is.

    Args:
        model: whose it is.
        key: what it depends on besides its arguments, the model and the generator.
        make: makes it, of a model (a reference that does not keep it) and a generator.
        generator: what it draws from; None is the device's own.
        compile: whether to capture it.
    """
    if not compile:
        return make(model, generator)
    kept = _of_models.get(model)
    if kept is None:
        kept = _of_models[model] = KeptSteps()
    own = None if generator is None else kept.generator(get_ident(), generator.device)
    step = kept.get((key, own), lambda: make(cast("PreTrainedModel", proxy(model)), own))
    if generator is None or own is None:
        return step

    def drawing(*args: object) -> object:
        own.move_to(generator.position())
        try:
            return step(*args)
        finally:
            generator.move_to(own.position())

    return drawing


def steps_of(model: PreTrainedModel) -> list[Step]:
    """Return the steps of a model that are kept, the one used last at the end."""
    kept = _of_models.get(model)
    return [] if kept is None else [*kept._found.values()]
