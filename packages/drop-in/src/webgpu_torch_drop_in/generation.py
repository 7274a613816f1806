"""``generate`` of transformers on WebGPU: by default the cache has one size and every token replays one captured step.

transformers does the same on CUDA when it is asked for a static cache. A growing cache has new shapes at every token, for
which plans would be made and kernels compiled again. Models with sliding windows and beam searches keep static caches uncaptured.

Whether all sequences ended is read while the next step is computed, as transformers does on Apple's devices: the host records a step
meanwhile. It costs one step more where a sequence ends before its greatest length, which transformers undoes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import webgpu_torch as torch
from webgpu_torch_core.record.devices import is_accelerator

# Attention reads the whole of a static cache at every token: beyond this many positions the caller should choose.
LONGEST = 8192


def capture_generation(module: ModuleType) -> None:
    """Change ``GenerationMixin`` of ``transformers.generation.utils``."""
    mixin: Any = module.GenerationMixin  # type: ignore[attr-defined]
    modes: Any = module.GenerationMode  # type: ignore[attr-defined]
    prepare, compiles = mixin._prepare_cache_for_generation, mixin._valid_auto_compile_criteria

    @functools.wraps(prepare)
    def prepare_cache(
        self: Any,
        generation_config: Any,
        model_kwargs: Any,
        generation_mode: Any,
        batch_size: int,
        max_cache_length: int,
    ) -> Any:
        given = any(model_kwargs.get(name) is not None for name in ("past_key_values", "cache_params"))
        if (
            is_accelerator(self.device)
            and generation_config.cache_implementation is None
            and generation_config.use_cache
            and not given
            and generation_mode in (modes.GREEDY_SEARCH, modes.SAMPLE, modes.BEAM_SEARCH, modes.BEAM_SAMPLE)
            and getattr(self, "_can_compile_fullgraph", False)
            and max_cache_length <= LONGEST
        ):
            generation_config.cache_implementation = "static"
        return prepare(self, generation_config, model_kwargs, generation_mode, batch_size, max_cache_length)

    @functools.wraps(compiles)
    def valid_auto_compile_criteria(self: Any, model_kwargs: Any, generation_config: Any) -> bool:
        cache = model_kwargs.get("past_key_values", model_kwargs.get("cache_params"))
        cache = getattr(cache, "self_attention_cache", cache)
        if (
            is_accelerator(self.device)
            and generation_config.compile_config is None
            and type(cache).__name__ == "StaticCache"
            # A sliding window's layers count tokens in Python and choose by it what to compute: no step is like the next.
            and not any(cache.is_sliding)
        ):
            from transformers import CompileConfig

            config: Any = CompileConfig()
            config._compile_all_devices = True
            generation_config.compile_config = config
        return compiles(self, model_kwargs, generation_config)

    # Versions before 5.23 wait at every step.
    if hasattr(module, "DeferredStopCheck"):
        defer_stops(module)
    mixin._prepare_cache_for_generation = prepare_cache
    mixin._valid_auto_compile_criteria = valid_auto_compile_criteria


class Late:
    """What a step tells the host, as far as ``DeferredStopCheck`` asks its slots' tensors: copying begins, and waiting ends it."""

    def __init__(self) -> None:
        self._wait: Callable[[], Any] = lambda: False

    def copy_(self, source: torch.Tensor, non_blocking: bool = True) -> None:
        """Begin to read a tensor."""
        del non_blocking
        self._wait = torch.webgpu.read_later(source)

    def __bool__(self) -> bool:
        return bool(self._wait())

    def clone(self) -> torch.Tensor:
        """Return the tensor on the host."""
        return torch.tensor(self._wait(), device="cpu")


class Whenever:
    """The event of a slot whose tensors wait for themselves."""

    def record(self) -> None:
        """Do nothing: what is read was submitted."""

    def synchronize(self) -> None:
        """Do nothing: a device would have to finish what was begun since, too."""


def defer_stops(module: ModuleType) -> None:
    """Change ``DeferredStopCheck``, by which transformers reads whether to stop a step late."""
    check: Any = module.DeferredStopCheck
    supported, begin = check.is_supported, check.__init__

    @functools.wraps(supported)
    def is_supported(device: torch.device, *args: object, **kwargs: object) -> bool:
        return supported(torch.device("mps") if is_accelerator(device) else device, *args, **kwargs)

    @functools.wraps(begin)
    def __init__(self: object, input_ids: torch.Tensor, *args: object, **kwargs: object) -> None:
        begin(self, input_ids, *args, **kwargs)
        if is_accelerator(input_ids.device):
            slots = vars(self)["slots"]
            for place in range(len(slots)):
                slots[place] = Late(), Late(), Whenever()

    check.is_supported, check.__init__ = staticmethod(is_supported), __init__
