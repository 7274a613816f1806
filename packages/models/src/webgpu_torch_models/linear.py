"""Linear maps and embeddings of pretrained models: transposed ones, and those of encoded weights."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.ir.encodings import ENCODINGS
from webgpu_torch_core.operations.contraction.encoded_weights import decode_weight, encode_weight, encoded_linear
from webgpu_torch_nn import Embedding, Linear, Module, Parameter, init


class Quantization(NamedTuple):
    """How weights are encoded.

    Attributes:
        encoding: of the numbers.
        group: how many neighbours of a row share a scale; 0 is all of them.
        zero_point: whether they share one, too: the number that stands for zero.
        ends: the name of how a network's ends are encoded: its first layer, whose errors all others take up, and the head that
            gives a language model's logits; "" leaves them as they are.
        added: the name of how attention's maps are encoded: what these give is added to the states, and queries, keys and values
            of one kind are one product; "" is like all others.
    """

    encoding: str
    group: int = 0
    zero_point: bool = False
    ends: str = ""
    added: str = ""


#: By the name that ``quantize=`` takes. Of the error of a drawn network's logits, most comes from its ends and from what
#: attention adds, which are few of the weights.
QUANTIZATIONS: dict[str, Quantization] = {
    "int8": Quantization("int8", 32),
    "int4": Quantization("uint4", 16, True, "int8", "int8"),
    "nf4": Quantization("nf4", 64, False, "int8", "int8"),
    "fp8": Quantization("float8_e4m3fn"),
}
#: names of linear maps that stay as they are: small, and what they give is compared
KEPT = ("proj_out", "classifier", "score")
_ENDS = re.compile(r"[^\d]*\.0\..*|(.*\.)?(lm_head|embed_out)")
_ADDED = re.compile(
    r"(.*\.)?([qkvo]_proj|out_proj|qkv_proj|query_key_value|c_attn|query|key|value|to_[qkv]|[qkvo]|attn\.c_proj|to_out\.0"
    r"|attention\.dense|attention\.output\.dense)"
)


class Conv1D(Module):
    """``y = x W + b`` with W stored [in, out], transposed relative to Linear: GPT-2's checkpoints have it so."""

    def __init__(self, nf: int, nx: int) -> None:
        super().__init__()
        self.weight = Parameter(torch.empty(nx, nf))
        self.bias = Parameter(torch.zeros(nf))
        init.normal_(self.weight, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias


class EncodedLinear(Module):
    """``y = x Wᵀ + b`` with W in numbers of a few bits, which the product decodes while it loads them.

    Args:
        packed: uint8 [out, in * bits / 8].
        scales: of a float type, [out, in / group].
        encoding: how the numbers are encoded.
        offsets: [out, in / group], if there are any: of a float type, added after scaling, or uint8 zero points.
        bias: [out], if there is one.
        order: int64 [in], which input each column is for; None where they are in order.
    """

    def __init__(
        self, packed: Tensor, scales: Tensor, encoding: str, offsets: Tensor | None = None, bias: Tensor | None = None,
        order: Tensor | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.encoding = encoding
        parts = {"packed": packed, "scales": scales, "offsets": offsets, "bias": bias, "order": order}
        for name, value in parts.items():
            self.register_buffer(name, value)

    @property
    def sizes(self) -> tuple[int, int]:
        """How many elements the map gives and takes."""
        return self.packed.shape[0], self.packed.shape[1] * ENCODINGS[self.encoding].lanes

    def forward(self, x: Tensor) -> Tensor:
        given = x if self.order is None else x.index_select(-1, self.order)
        result = encoded_linear(given, self.packed, self.scales, self.encoding, self.offsets)
        return result if self.bias is None else result + self.bias

    def extra_repr(self) -> str:
        rows, columns = self.sizes
        return f"in_features={columns}, out_features={rows}, encoding={self.encoding}, bias={self.bias is not None}"


class EncodedEmbedding(Module):
    """Rows of a table in numbers of a few bits, which are decoded when they are picked.

    Args:
        packed: uint8 [rows, width * bits / 8].
        scales: of a float type, [rows, width / group].
        encoding: how the numbers are encoded.
        dtype: of what is picked.
    """

    def __init__(self, packed: Tensor, scales: Tensor, encoding: str, dtype: torch.dtype) -> None:
        super().__init__()
        self.encoding = encoding
        self.dtype = dtype
        self.register_buffer("packed", packed)
        self.register_buffer("scales", scales)

    def forward(self, input: Tensor) -> Tensor:
        rows = input.flatten()
        packed, scales = self.packed.index_select(0, rows), self.scales.index_select(0, rows)
        return decode_weight(packed, scales, self.encoding, self.dtype).reshape(*input.shape, -1)

    def extra_repr(self) -> str:
        rows, columns = self.packed.shape[0], self.packed.shape[1] * ENCODINGS[self.encoding].lanes
        return f"{rows}, {columns}, encoding={self.encoding}"


def group_of(columns: int, quantization: str) -> int:
    """Return how many neighbours of a row of ``columns`` numbers share a scale; 0 where such rows cannot be encoded."""
    encoding, group, *_ = QUANTIZATIONS[quantization]
    fitting = math.gcd(columns, group) if group else columns
    return 0 if fitting % ENCODINGS[encoding].lanes else fitting


def check_quantization(name: str) -> None:
    """Raise ValueError unless ``quantize=`` takes the name."""
    if name not in QUANTIZATIONS:
        raise ValueError(f'quantize="{name}" is unknown; known are: {", ".join(QUANTIZATIONS)}')


def _quantization_of(name: str, columns: int, quantization: str) -> str:
    """Return how the map of a name with rows of ``columns`` numbers is encoded; "" where it is not."""
    meant = QUANTIZATIONS[quantization]
    if _ENDS.fullmatch(name):
        quantization = meant.ends
    elif _ADDED.fullmatch(name):
        quantization = meant.added or quantization
    return quantization if quantization and group_of(columns, quantization) else ""


def _encoded(weight: Tensor, quantization: str, bias: Tensor | None = None) -> EncodedLinear:
    encoding, _, zero_point, *_ = QUANTIZATIONS[quantization]
    group = group_of(weight.shape[1], quantization)
    packed, scales, offsets = encode_weight(weight, encoding, group, zero_point=zero_point)
    return EncodedLinear(packed, scales, encoding, offsets, bias)


def _replace(model: Module, name: str, by: Module) -> None:
    parent, _, attribute = name.rpartition(".")
    setattr(model.get_submodule(parent), attribute, by)


def encode_linears(
    model: Module,
    weights: dict[str, Tensor],
    quantization: str,
    device: torch.device,
    ties: Mapping[str, str] | None = None,
) -> dict[str, Tensor]:
    """Put :class:`EncodedLinear` in place of a model's linear maps; return the weights that remain.

    An embedding that an encoded head is tied to is encoded with it.

    Args:
        model: as its configuration describes it.
        weights: by the model's names, on any device; each is encoded on its way to ``device``. Those that are none of the
            model's, or of other shapes, remain, and so do biases whose weight is not among them.
        quantization: a name in :data:`QUANTIZATIONS`.
        device: where the model is to be.
        ties: names of weights that are another one, with the name of that one.

    Returns:
        on ``device``, in the shapes in which they were given.
    """
    rest, ties = dict(weights), ties or {}
    for name, module in list(model.named_modules()):
        key = f"{name}.weight"
        if isinstance(module, EncodedLinear) and module.bias is None and f"{name}.bias" in rest:
            # Its weight came before.
            module.bias = rest.pop(f"{name}.bias").to(device)
        source = ties.get(key, key)
        if not isinstance(module, Linear | Conv1D) or name.rpartition(".")[2] in KEPT or source not in rest:
            continue
        weight = rest[source]
        if weight.shape != module.weight.shape or not weight.is_floating_point():
            continue
        weight = weight if isinstance(module, Linear) else weight.t()
        table = source.removesuffix(".weight")
        found = _quantization_of(name, weight.shape[1], quantization)
        if not found or (source != key and (len(ties) > 1 or not isinstance(model.get_submodule(table), Embedding))):
            continue
        bias = rest.pop(f"{name}.bias", None)
        encoded = _encoded(weight.to(device), found, None if bias is None else bias.to(device))
        del rest[source]
        _replace(model, name, encoded)
        if source != key:
            _replace(model, table, EncodedEmbedding(encoded.packed, encoded.scales, encoded.encoding, weight.dtype))
    return {key: value.to(device) for key, value in rest.items()}
