"""Linear maps of pretrained models: transposed ones, those of encoded weights, and those with an adapter."""

from __future__ import annotations

import math
from typing import NamedTuple

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.ir.encodings import ENCODINGS
from webgpu_torch_core.operations.contraction.encoded_weights import encode_weight, encoded_linear
from webgpu_torch_nn import Linear, Module, Parameter, init


class Quantization(NamedTuple):
    """How weights are encoded.

    Attributes:
        encoding: of the numbers.
        group: how many neighbours of a row share a scale; 0 is all of them.
        offset: whether they share an offset, too.
    """

    encoding: str
    group: int = 0
    offset: bool = False


#: by the name that ``quantize=`` takes
QUANTIZATIONS: dict[str, Quantization] = {
    "int8": Quantization("int8"),
    "int4": Quantization("uint4", 32, True),
    "nf4": Quantization("nf4", 64),
    "fp8": Quantization("float8_e4m3fn"),
}
#: names of linear maps that stay as they are: small, and what they give is compared
KEPT = ("lm_head", "proj_out", "classifier", "score", "embed_out")


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
        scales: float32 [out, in / group].
        encoding: how the numbers are encoded.
        offsets: float32 [out, in / group], added after scaling, if there are any.
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


def group_of(columns: int, quantization: str) -> int:
    """Return how many neighbours of a row of ``columns`` numbers share a scale; 0 where such rows cannot be encoded."""
    encoding, group, _ = QUANTIZATIONS[quantization]
    fitting = math.gcd(columns, group) if group else columns
    return 0 if fitting % ENCODINGS[encoding].lanes else fitting


def check_quantization(name: str) -> None:
    """Raise ValueError unless ``quantize=`` takes the name."""
    if name not in QUANTIZATIONS:
        raise ValueError(f'quantize="{name}" is unknown; known are: {", ".join(QUANTIZATIONS)}')


def encode_linears(
    model: Module, weights: dict[str, Tensor], quantization: str, device: torch.device
) -> dict[str, Tensor]:
    """Put :class:`EncodedLinear` in place of a model's linear maps, heads excepted; return the weights that remain.

    Args:
        model: as its configuration describes it.
        weights: by the model's names, on any device; each is encoded on its way to ``device``.
        quantization: a name in :data:`QUANTIZATIONS`.
        device: where the model is to be.

    Returns:
        on ``device``, in the shapes in which they were given.
    """
    encoding, _, offset = QUANTIZATIONS[quantization]
    rest = dict(weights)
    for name, module in list(model.named_modules()):
        parent, _, attribute = name.rpartition(".")
        if not isinstance(module, Linear | Conv1D) or attribute in KEPT or f"{name}.weight" not in rest:
            continue
        weight = rest[f"{name}.weight"]
        weight = weight if isinstance(module, Linear) else weight.t()
        group = group_of(weight.shape[1], quantization)
        if not group:
            continue
        packed, scales, offsets = encode_weight(weight.to(device), encoding, group, offset)
        bias = rest.pop(f"{name}.bias", None)
        del rest[f"{name}.weight"]
        replaced = EncodedLinear(packed, scales, encoding, offsets, None if bias is None else bias.to(device))
        setattr(model.get_submodule(parent), attribute, replaced)
    return {key: value.to(device) for key, value in rest.items()}
