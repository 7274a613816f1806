"""Tables of rows in integers."""

from __future__ import annotations

import webgpu_torch_core as torch
import webgpu_torch_nn as nn
from webgpu_torch import _empty_per_channel_affine_quantized
from webgpu_torch._holding import Answer
from webgpu_torch_core import Tensor

from .utils import _quantize_weight


class EmbeddingPackedParams(nn.Module):
    """A table as operations take it.

    Args:
        num_embeddings, embedding_dim: rows, and numbers in each.
        dtype: ``torch.quint8``.

    Raises:
        NotImplementedError: another type.
    """

    _version = 1

    def __init__(self, num_embeddings: int, embedding_dim: int, dtype: torch.dtype = torch.quint8) -> None:
        super().__init__()
        if dtype is not torch.quint8:
            raise NotImplementedError("Unsupported dtype on quantized embedding! Supports quint8.")
        self.dtype = dtype
        self.set_weight(
            _empty_per_channel_affine_quantized(
                [num_embeddings, embedding_dim], scales=torch.ones(num_embeddings), zero_points=torch.zeros(num_embeddings), axis=0,
                dtype=dtype,
            )
        )  # fmt: skip

    def set_weight(self, weight: Answer) -> None:
        """Take the table ``[rows, numbers]``, quantised with a scale for each row."""
        self._packed_weight: Answer = weight

    def _weight(self) -> Answer:
        return self._packed_weight

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of any shape as it is."""
        return x

    def _save_to_state_dict(self, destination: dict[str, Answer], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_weight"] = self._weight()

    def _load_from_state_dict(self, state_dict: dict[str, Answer], prefix: str, *rest: Answer) -> None:
        self.dtype = state_dict.pop(prefix + "dtype")
        self.set_weight(state_dict.pop(prefix + "_packed_weight"))
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def __repr__(self) -> str:
        return repr(self._weight())


class Embedding(nn.Module):
    """:class:`torch.nn.Embedding` with a table in integers, of which the rows asked for are made numbers.

    Args:
        num_embeddings, embedding_dim: rows, and numbers in each.
        dtype: ``torch.quint8``.
    """

    _version = 1

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False, _weight: Answer = None,
        dtype: torch.dtype = torch.quint8,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_embeddings, self.embedding_dim, self.dtype = num_embeddings, embedding_dim, dtype
        self._packed_params = EmbeddingPackedParams(num_embeddings, embedding_dim, dtype)
        if _weight is not None:
            self._packed_params.set_weight(_weight)

    def forward(self, indices: Tensor) -> Tensor:
        """Return rows ``[..., numbers]`` for their numbers ``[...]``, as float32."""
        table = self.weight()
        scheme, places = table.per_channel, indices.flatten()
        scales, zeros = (each.to(places.device)[places].unsqueeze(1) for each in (scheme.scales, scheme.zero_points))
        rows = (table._held[places].to(torch.float32) - zeros) * scales
        return rows.reshape(*indices.shape, self.embedding_dim)

    def _get_name(self) -> str:
        return "QuantizedEmbedding"

    def extra_repr(self) -> str:
        """Return what the text of the module says."""
        return (
            f"num_embeddings={self.num_embeddings}, embedding_dim={self.embedding_dim}, dtype={self.dtype}, "
            f"qscheme={self.weight().qscheme()}"
        )

    def set_weight(self, w: Answer) -> None:
        """Take the table ``[rows, numbers]``, quantised with a scale for each row."""
        self._packed_params.set_weight(w)

    def weight(self) -> Answer:
        """Return the table ``[rows, numbers]``, quantised."""
        return self._packed_params._weight()

    @classmethod
    def from_float(cls, mod: Answer, use_precomputed_fake_quant: bool = False) -> Embedding:
        """Return the module for one of floating-point numbers.

        Raises:
            AssertionError: its weight is to have another scheme than ``torch.per_channel_affine_float_qparams``.
        """
        own = getattr(mod, "weight_fake_quant", None)
        observer = mod.qconfig.weight() if own is None else own
        if observer.qscheme is not torch.per_channel_affine_float_qparams:
            raise AssertionError("Embedding quantization is only supported with float_qparams_weight_only_qconfig.")
        observer(mod.weight)
        weight = _quantize_weight(mod.weight.detach().float(), observer)
        return cls(mod.num_embeddings, mod.embedding_dim, _weight=weight, dtype=observer.dtype)
