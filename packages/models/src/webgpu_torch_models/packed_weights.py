"""Checkpoints whose linear maps are in a few bits: GPTQ (Frantar et al., 2022) and AWQ (Lin et al., 2023).

Both store, for each map, integers ``q`` packed into 32-bit words, and for each group of inputs scales ``s`` and integers ``z``;
a weight is ``(q - z) * s``. They differ in what is packed along which dimension. Here the integers stay as they are: a map's
scales are ``s`` and its offsets ``-z * s``.
"""

from __future__ import annotations

from collections.abc import Sequence

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.files.host_tensors import brief
from webgpu_torch_core.operations.contraction.encoded_weights import pack_bits

from webgpu_torch_models.linear import EncodedLinear

#: what both store of a map
_PARTS = ("qweight", "qzeros", "scales", "g_idx")
#: in which order AWQ packs eight neighbours
_AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
#: by bits: the encoding, and what is taken from a number to be in its range
_ENCODINGS = {4: ("uint4", 0), 8: ("int8", 128)}


def _unpacked(words: Tensor, bits: int, order: Sequence[int] | None = None) -> Tensor:
    """Return the integers of int32 words [rows, words], int32 [rows, words * 32 / bits], the lowest bits first or in an order."""
    shifts = torch.arange(0, 32, bits, dtype=torch.int32, device=words.device)
    found = (words.to(torch.int32).unsqueeze(-1) >> shifts) & ((1 << bits) - 1)  # (rows, words, numbers)
    if order is not None:
        found = found[..., torch.tensor([order.index(place) for place in range(len(order))], device=words.device)]
    return found.reshape(words.shape[0], -1)


def _options(config: object, source: str) -> tuple[str, int, bool]:
    """Return the method, the bits, and whether zeros are stored one too small.

    Raises:
        ValueError: the method is not supported.
    """
    given = config if isinstance(config, dict) else {}
    method, bits = given.get("quant_method"), given.get("bits", given.get("w_bit", 4))
    if method not in ("gptq", "awq") or bits not in _ENCODINGS or (method == "awq" and bits != 4):
        raise ValueError(f"{source}: quantization_config says {brief(method)} with {brief(bits)} bits; supported are gptq "
                         "with 4 and 8 bits, and awq with 4")  # fmt: skip
    if method == "awq" and str(given.get("version", "gemm")).lower() != "gemm":
        raise ValueError(f"{source}: quantization_config has the version {brief(given['version'])}; supported is gemm")
    return method, bits, method == "gptq" and given.get("checkpoint_format", "gptq") == "gptq"


def packed_linears(
    weights: dict[str, Tensor], config: object, source: str
) -> tuple[dict[str, EncodedLinear], dict[str, Tensor]]:
    """Return a checkpoint's linear maps of a few bits by name, and its other weights.

    Args:
        weights: by name.
        config: what config.json has as "quantization_config".
        source: what errors name.

    Raises:
        ValueError: the method is not supported, or a map lacks a part or has one of another shape.
    """
    method, bits, is_one_less = _options(config, source)
    rest, maps = dict(weights), {}
    for name in [key.removesuffix(".qweight") for key in weights if key.endswith(".qweight")]:
        parts = {part: rest.pop(f"{name}.{part}") for part in _PARTS if f"{name}.{part}" in rest}
        lacking = [part for part in _PARTS[:3] if part not in parts]
        if lacking:
            raise ValueError(f"{source}: {name} has a qweight and lacks {', '.join(lacking)}")
        maps[name] = _linear(parts, rest.pop(f"{name}.bias", None), method, bits, is_one_less, f"{source}: {name}")
    return maps, rest


def _linear(
    parts: dict[str, Tensor], bias: Tensor | None, method: str, bits: int, is_one_less: bool, where: str
) -> EncodedLinear:
    words, zero_words, scales = parts["qweight"], parts["qzeros"], parts["scales"]
    order = _AWQ_ORDER if method == "awq" else None
    if words.ndim != 2 or zero_words.ndim != 2 or scales.ndim != 2:
        raise ValueError(f"{where} has parts that are no matrices")
    # AWQ packs along the outputs, GPTQ along the inputs.
    numbers = (
        _unpacked(words, bits, order).t() if method == "awq" else _unpacked(words.t().contiguous(), bits)
    )  # (out, in)
    zeros = _unpacked(zero_words, bits, order) + int(is_one_less)  # (groups, out)
    outputs, inputs = numbers.shape
    groups = scales.shape[0]
    if zeros.shape[0] != groups or scales.shape[1] != outputs or zeros.shape[1] < outputs or inputs % groups:
        shapes = {part: list(value.shape) for part, value in parts.items()}
        raise ValueError(f"{where} has parts that do not fit each other: {shapes}")
    places = None
    if "g_idx" in parts:
        places = _order_of(parts["g_idx"], groups, inputs, where)
        numbers = numbers if places is None else numbers.index_select(1, places)
    encoding, shift = _ENCODINGS[bits]
    factors = scales.float().t().contiguous()  # (out, groups)
    offsets = (shift - zeros[:, :outputs].t().float()) * factors
    return EncodedLinear(
        pack_bits((numbers - shift) & ((1 << bits) - 1), encoding), factors, encoding, offsets, bias, places
    )


def _order_of(index: Tensor, groups: int, inputs: int, where: str) -> Tensor | None:
    """Return in which order inputs of one group stand together; None where they do.

    Raises:
        ValueError: the groups are not all as large.
    """
    given = index.tolist()
    group = inputs // groups
    order = sorted(range(inputs), key=lambda place: given[place]) if len(given) == inputs else []
    if [given[place] for place in order] != [place // group for place in range(inputs)]:
        raise ValueError(f"{where}.g_idx does not sort {inputs} inputs into {groups} groups of {group}")
    return None if order == list(range(inputs)) else torch.tensor(order, dtype=torch.int64, device=index.device)
