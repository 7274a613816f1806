"""Modules for sums and products between tensors, which are observed, and quantised, as layers are."""

from __future__ import annotations

from collections.abc import Sequence

import webgpu_torch_core as torch
import webgpu_torch_nn as nn
from webgpu_torch._holding import Answer
from webgpu_torch.library import ops
from webgpu_torch_core import Tensor

from .utils import load_scale, save_scale, scale_of


class FloatFunctional(nn.Module):
    """Sums, products and joined tensors of floating-point numbers, whose results an observer sees."""

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process: Answer = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Refuse: what it does is asked for by name.

        Raises:
            RuntimeError: always; ``x`` may have any shape.
        """
        raise RuntimeError("FloatFunctional is not intended to use the 'forward'. Please use the underlying operation")

    def _seen(self, result: Tensor) -> Tensor:
        return self.activation_post_process(result)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the sum."""
        return self._seen(torch.add(x, y))

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        """Return the sum with a number, which is not observed."""
        return torch.add(x, y)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the product."""
        return self._seen(torch.mul(x, y))

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        """Return the product with a number, which is not observed."""
        return torch.mul(x, y)

    def cat(self, x: Sequence[Tensor], dim: int = 0) -> Tensor:
        """Return tensors put together."""
        return self._seen(torch.cat(list(x), dim))

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the ReLU of the sum."""
        return self._seen(torch.relu(torch.add(x, y)))

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the product of matrices."""
        return self._seen(torch.matmul(x, y))


class FXFloatFunctional(FloatFunctional):
    """What :class:`FloatFunctional` does, without an observer: that of a graph is a node of its own."""

    def __init__(self) -> None:
        nn.Module.__init__(self)

    def _seen(self, result: Tensor) -> Tensor:
        return result


class QFunctional(nn.Module):
    """Sums, products and joined tensors of quantised tensors.

    Attributes:
        scale, zero_point: of results.
    """

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.zero_point = 1.0, 0
        self.activation_post_process: Answer = nn.Identity()

    def _save_to_state_dict(self, destination: dict[str, Answer], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        save_scale(self, destination, prefix)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Answer],
        prefix: str,
        local_metadata: Answer,
        strict: bool,
        missing_keys: list[str],
        *rest: Answer,
    ) -> None:
        load_scale(self, state_dict, prefix, missing_keys)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, *rest)

    def _get_name(self) -> str:
        return "QFunctional"

    def extra_repr(self) -> str:
        """Return what the text of the module says."""
        return f"scale={self.scale}, zero_point={self.zero_point}"

    def forward(self, x: Tensor) -> Tensor:
        """Refuse: what it does is asked for by name.

        Raises:
            RuntimeError: always; ``x`` may have any shape.
        """
        raise RuntimeError("Functional is not intended to use the 'forward'. Please use the underlying operation")

    def _seen(self, result: Tensor) -> Tensor:
        return self.activation_post_process(result)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the sum."""
        return self._seen(ops.quantized.add(x, y, self.scale, self.zero_point))

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        """Return the sum with a number."""
        return ops.quantized.add_scalar(x, y)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the product."""
        return self._seen(ops.quantized.mul(x, y, self.scale, self.zero_point))

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        """Return the product with a number."""
        return ops.quantized.mul_scalar(x, y)

    def cat(self, x: Sequence[Tensor], dim: int = 0) -> Tensor:
        """Return tensors put together."""
        return self._seen(ops.quantized.cat(list(x), dim, self.scale, self.zero_point))

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the ReLU of the sum."""
        return self._seen(ops.quantized.add_relu(x, y, self.scale, self.zero_point))

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the product of matrices."""
        return self._seen(ops.quantized.matmul(x, y, self.scale, self.zero_point))

    @classmethod
    def from_float(cls, mod: Answer, use_precomputed_fake_quant: bool = False) -> QFunctional:
        """Return the module for one that observed its results.

        Raises:
            AssertionError: the module is no :class:`FloatFunctional`.
        """
        if type(mod) is not FloatFunctional:
            raise AssertionError("QFunctional.from_float expects an instance of FloatFunctional")
        made = cls()
        made.scale, made.zero_point = scale_of(mod.activation_post_process)
        return made
