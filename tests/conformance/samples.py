"""PyTorch's samples: one call that both libraries make with the same arguments."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

from comparison import same
from database import ours, torch, unseeded
from torch.testing._internal.common_device_type import toleranceOverride
from translation import Translator, tensors

SEED = 20260101
#: other seeds that decide whether a result is random
SEEDS = 8
WIDE = {
    torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64, torch.complex64: torch.complex128,
}  # fmt: skip


class Sample:
    """One call: a function of ours and of PyTorch's with the same arguments."""

    def __init__(self, entry: Any, sample: Any, device: str) -> None:
        self.entry, self.sample, self.device = entry, sample, device
        self.arguments = (sample.input, *sample.args)
        self.translate = Translator(device)

    def prepare(self) -> None:
        """Translate the arguments before PyTorch's function may change them in place."""
        self.translate([self.arguments, self.sample.kwargs])

    def expected(self, seed: int = SEED) -> Any:
        """Return PyTorch's result."""
        torch.manual_seed(seed)
        return self.entry.op(*self.arguments, **self.sample.kwargs)

    def actual(self, function: Any, **more: Any) -> Any:
        """Return ours."""
        arguments = self.translate(self.arguments)
        keywords = self.translate(self.sample.kwargs)
        ours.manual_seed(SEED)
        return function(*arguments, **keywords, **more)

    def changed(self, change: Any) -> Sample:
        """Return the call with PyTorch's tensors put through a function."""
        return Sample(self.entry, self.sample.transform(change), self.device)

    def detached(self) -> Sample:
        """Return the call with inputs that want no gradient."""

        def detach(value: Any) -> Any:
            return value.detach() if isinstance(value, torch.Tensor) else value

        return self.changed(detach)

    def wide(self) -> Sample | None:
        """Return the same call in float64 (complex128), for judging rounding."""
        given = [self.arguments, self.sample.kwargs]
        if (
            not any(each.dtype in WIDE for each in tensors(given, torch.Tensor))
            and self.sample.kwargs.get("dtype") not in WIDE
        ):
            return None

        def widened(value: Any) -> Any:
            if isinstance(value, torch.dtype):
                return WIDE.get(value, value)
            if isinstance(value, torch.Tensor) and value.dtype in WIDE:
                return value.detach().to(WIDE[value.dtype]).requires_grad_(value.requires_grad)
            return value

        return self.changed(widened)

    def narrow(self) -> Sample:
        """Return the same call with bfloat16 for float64, as PyTorch's samples of ``to`` have it for a device without float64."""

        def narrowed(value: Any) -> Any:
            if value is torch.float64:
                return torch.bfloat16
            wide = isinstance(value, torch.Tensor) and value.dtype is torch.float64
            return value.detach().bfloat16().requires_grad_(value.requires_grad) if wide else value

        return self.changed(narrowed)

    def exact(self) -> Any:
        """Return PyTorch's result in float64, None where it refuses."""
        wide = self.wide()
        try:
            return None if wide is None else wide.expected()
        except Exception:  # noqa: BLE001 - the operation has no float64 or mixes types
            return None

    def leaves(self) -> list[Any]:
        """Return PyTorch's inputs that want a gradient."""
        return [each for each in tensors([self.arguments, self.sample.kwargs], torch.Tensor) if each.requires_grad]

    def is_random(self, expected: Any) -> bool:
        """Return whether another seed gives another result."""
        # An operation in place would change what it is compared with.
        before = [each.detach().clone() for each in tensors(expected, torch.Tensor)]
        try:
            with unseeded(self.entry.op):
                # Draws with few outcomes, as of the regions that a fractional pool takes, are often alike for two seeds.
                return any(self._differs(SEED + number, before) for number in range(1, SEEDS + 1))
        except (RuntimeError, TypeError, ValueError):
            return False

    def _differs(self, seed: int, before: list[Any]) -> bool:
        after = [each.detach() for each in tensors(self.expected(seed), torch.Tensor)]
        return same(after, before, 0.0, 0.0) is not None

    def describe(self) -> str:
        """Return the arguments briefly."""
        keywords = ", ".join(f"{name}={_brief(each)}" for name, each in self.sample.kwargs.items())
        return f"{', '.join(map(_brief, self.arguments))}; {keywords}"[:400]


def _brief(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        plain = value.layout is torch.strided
        stride = (
            ""
            if plain and value.is_contiguous()
            else f" strides {tuple(value.stride())}"
            if plain
            else f" {value.layout}"
        )
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}{stride}"
    if isinstance(value, list | tuple):
        return f"({', '.join(map(_brief, value))})"
    return repr(value)[:60]


def samples_of(entry: Any, dtype: Any, requires_grad: bool) -> Iterator[tuple[Any, bool]]:
    """Yield PyTorch's samples, and each one with non-contiguous tensors; the flag says which it is."""
    torch.manual_seed(SEED)
    random.seed(SEED)  # margins and the like
    anywhere = not any(_skips_noncontiguous(each, dtype) for each in entry.decorators)
    for each in entry.sample_inputs("cpu", dtype, requires_grad=requires_grad):
        # A generator may draw from the stream that running the samples before disturbs.
        state = torch.get_rng_state()
        yield each, False
        if anywhere:
            other = None
            with contextlib.suppress(Exception):
                other = each.noncontiguous()
            if other is not None:
                yield other, True
        torch.set_rng_state(state)


def _skips_noncontiguous(decoration: Any, dtype: Any) -> bool:
    """Return whether PyTorch does not expect the same results where inputs lie elsewhere in memory."""
    if not hasattr(decoration, "is_active"):
        return False
    active = decoration.is_active("TestCommon", "test_noncontiguous_samples", "cpu", dtype, None)
    return active and not all(isinstance(each, toleranceOverride) for each in decoration.decorators)
