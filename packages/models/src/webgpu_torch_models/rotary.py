"""Rotary position embeddings (Su et al., 2021) and the ways in which checkpoints stretch them over longer texts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor


def rope_parameters(values: dict[str, Any], default_theta: float, max_positions: int) -> dict[str, Any]:
    """Return a configuration's rotary options under the names that new checkpoints use.

    Old ones have ``rope_theta`` and ``rope_scaling`` (with ``type``), new ones ``rope_parameters``.
    """
    result = dict(values.get("rope_parameters") or values.get("rope_scaling") or {})
    result["rope_type"] = result.get("rope_type") or result.pop("type", None) or "default"
    result.setdefault("rope_theta", values.get("rope_theta") or default_theta)
    if values.get("partial_rotary_factor") is not None:
        result.setdefault("partial_rotary_factor", values["partial_rotary_factor"])
    result.setdefault(
        "original_max_position_embeddings", values.get("original_max_position_embeddings") or max_positions
    )
    result["max_position_embeddings"] = max_positions
    return result


class RotaryEmbedding:
    """Cosines and sines by position; no module, as it holds no weights.

    Args:
        parameters: what :func:`rope_parameters` returns.
        head_dim: elements of a head.

    Raises:
        ValueError: ``rope_type`` is unknown.
    """

    def __init__(self, parameters: dict[str, Any], head_dim: int) -> None:
        kind = parameters["rope_type"]
        if kind not in _FREQUENCIES:
            raise ValueError(f'rope_type "{kind}" is unknown; known are: {", ".join(_FREQUENCIES)}')
        self.parameters = parameters
        self.dim = int(head_dim * parameters.get("partial_rotary_factor", 1.0))
        self.original = parameters["original_max_position_embeddings"]
        self._tables: dict[tuple[str, int], tuple[Tensor, float]] = {}

    @property
    def has_two_sets(self) -> bool:
        """Whether there is a set of frequencies for short texts and one for long ones."""
        return self.parameters["rope_type"] in ("longrope", "su")

    def variant(self, length: int) -> int:
        """Return a number that is equal for lengths with the same frequencies; most kinds have one for all."""
        if self.has_two_sets:
            return int(length > self.original)
        kind = self.parameters["rope_type"]
        return max(length, self.parameters["max_position_embeddings"]) if kind == "dynamic" else 0

    def _table(self, device: Any, length: int) -> tuple[Tensor, float]:
        """Return the inverse frequencies, float32 [dim / 2], and the factor of cosines and sines."""
        kind, variant = self.parameters["rope_type"], self.variant(length)
        found = self._tables.get((str(device), variant))
        if found is None:
            base = self.parameters["rope_theta"]
            plain = [base ** (-number / self.dim) for number in range(0, self.dim, 2)]
            values, factor = _FREQUENCIES[kind](plain, self.parameters, self.dim, length)
            found = torch.tensor(values, dtype=torch.float32, device=device), factor
            self._tables[str(device), variant] = found
        return found

    def __call__(self, position_ids: Tensor, dtype: Any, length: int) -> tuple[Tensor, Tensor]:
        """Return cosine and sine, each ``[batch or 1, 1, tokens, dim]`` of ``dtype``; sines of the first half are negated.

        Args:
            position_ids: int64 [batch or 1, tokens].
            dtype: what the result is rounded to from float32.
            length: tokens of the sequence so far; some kinds look at it.
        """
        table, factor = self._table(position_ids.device, length)
        angles = (position_ids.unsqueeze(-1).float() * table).unsqueeze(1)  # (B, 1, T, dim / 2)
        cosine, sine = angles.cos() * factor, angles.sin() * factor
        return torch.cat((cosine, cosine), dim=-1).to(dtype), torch.cat((-sine, sine), dim=-1).to(dtype)


def swapped(x: Tensor, dim: int) -> Tensor:
    """Return the first ``dim`` elements of the last dimension, the second half of them before the first: [..., dim] of [..., size]."""
    return x[..., :dim].unflatten(-1, (2, dim // 2)).flip(-2).flatten(-2)


def rotate(
    x: Tensor, cosine: Tensor, sine: Tensor, factor: Tensor | None = None,
    weight: tuple[Tensor, Tensor, int] | None = None, kept: int = 0,
) -> Tensor:  # fmt: skip
    """Rotate the first ``dim`` elements of heads by their positions' angles.

    Cosine and sine are as :class:`RotaryEmbedding` gives them: with the signs in the sines, the halves only change places.

    Args:
        x: [batch, heads, tokens, head_dim].
        cosine, sine: [batch or 1, 1, tokens, dim].
        factor: float32 [batch, heads, tokens, 1], by which rows are multiplied before, in float32.
        weight: by which elements are multiplied before, in x's type or in that of the weight: [head_dim] of the first heads,
            [head_dim] of the others, and how many the first are.
        kept: how many of the last heads stay as they are.
    """
    # Chosen after the change, not before: what only moves is read where it is.
    number = torch.arange(x.shape[1], device=x.device).reshape(-1, 1, 1)

    def ready(part: Tensor, own: Tensor | None) -> Tensor:
        # Rows are scaled here, not before: one kernel then finds their factors and rotates them.
        if factor is not None:
            part = part.float() * factor
        if own is None:
            return part.to(x.dtype)
        return (part.to(own.dtype) * own).to(x.dtype)

    def own(change: Callable[[Tensor], Tensor]) -> Tensor | None:
        if weight is None:
            return None
        return torch.where(number < weight[2], change(weight[0]), change(weight[1]))  # (heads, 1, dim)

    dim = cosine.shape[-1]
    rotated = ready(x[..., :dim], own(lambda each: each[:dim]))
    other = ready(swapped(x, dim), own(lambda each: swapped(each, dim)))
    result = rotated * cosine + other * sine
    if dim < x.shape[-1]:
        rest = ready(x[..., dim:], own(lambda each: each[dim:]))
        result = torch.cat((result, rest), dim=-1)
    return torch.where(number < x.shape[1] - kept, result, x) if kept else result


def _default(plain: list[float], parameters: dict[str, Any], dim: int, length: int) -> tuple[list[float], float]:
    return plain, 1.0


def _linear(plain: list[float], parameters: dict[str, Any], dim: int, length: int) -> tuple[list[float], float]:
    return [each / parameters["factor"] for each in plain], 1.0


def _dynamic(plain: list[float], parameters: dict[str, Any], dim: int, length: int) -> tuple[list[float], float]:
    """Stretch the base with the length ("NTK-aware" scaling)."""
    factor, limit = parameters["factor"], parameters["max_position_embeddings"]
    stretch = (factor * max(length, limit) / limit - (factor - 1)) ** (dim / (dim - 2))
    base = parameters["rope_theta"] * stretch
    return [base ** (-number / dim) for number in range(0, dim, 2)], 1.0


def _llama3(plain: list[float], parameters: dict[str, Any], dim: int, length: int) -> tuple[list[float], float]:
    """Divide low frequencies by the factor, leave high ones, and blend between (Llama 3.1)."""
    factor, original = parameters["factor"], parameters["original_max_position_embeddings"]
    low, high = parameters["low_freq_factor"], parameters["high_freq_factor"]
    result = []
    for each in plain:
        wavelength = 2 * math.pi / each
        smooth = min(max((original / wavelength - low) / (high - low), 0.0), 1.0)
        result.append((1 - smooth) * each / factor + smooth * each)
    return result, 1.0


def _yarn(plain: list[float], parameters: dict[str, Any], dim: int, length: int) -> tuple[list[float], float]:
    """Blend interpolation and extrapolation by how often a dimension turns (YaRN, Peng et al., 2023)."""
    original, base = parameters["original_max_position_embeddings"], parameters["rope_theta"]
    factor = parameters.get("factor") or parameters["max_position_embeddings"] / original

    def dimension_of(turns: float) -> float:
        return dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = dimension_of(parameters.get("beta_fast") or 32), dimension_of(parameters.get("beta_slow") or 1)
    if parameters.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    result = []
    for number, each in enumerate(plain):
        ramp = min(max((number - low) / (high - low or 0.001), 0.0), 1.0)
        result.append(each / factor * ramp + each * (1 - ramp))
    return result, _yarn_factor(parameters, factor)


def _yarn_factor(parameters: dict[str, Any], factor: float) -> float:
    given = parameters.get("attention_factor")
    if given is not None:
        return given

    def scale(weight: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0

    one, other = parameters.get("mscale"), parameters.get("mscale_all_dim")
    return scale(one) / scale(other) if one and other else scale(1.0)


def _longrope(plain: list[float], parameters: dict[str, Any], dim: int, length: int) -> tuple[list[float], float]:
    """Divide each frequency by a factor of its own, found by search (LongRoPE, Ding et al., 2024)."""
    original = parameters["original_max_position_embeddings"]
    factor = parameters.get("factor") or parameters["max_position_embeddings"] / original
    scale = parameters.get("attention_factor")
    if scale is None:
        scale = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(original))
    divisors = parameters["long_factor" if length > original else "short_factor"]
    return [each / divisor for each, divisor in zip(plain, divisors, strict=True)], scale


_FREQUENCIES = {
    "default": _default,
    "linear": _linear,
    "dynamic": _dynamic,
    "llama3": _llama3,
    "yarn": _yarn,
    "longrope": _longrope,
    # What Phi-3's first checkpoints call it.
    "su": _longrope,
}
