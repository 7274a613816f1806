"""Joining samples into a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor


def default_collate(batch: Sequence[Any]) -> Any:
    """Join samples of one structure: tensors and numbers are stacked, mappings and sequences joined inside.

    Strings and bytes stay a list of their values.

    Raises:
        TypeError: a sample is of a type that cannot be joined.
        RuntimeError: sequences of different lengths.
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return torch.stack(list(batch), 0)
    if hasattr(first, "__array__") and hasattr(first, "dtype"):
        return torch.stack([torch.as_tensor(sample) for sample in batch], 0)
    if isinstance(first, float):
        return torch.tensor(batch, dtype=torch.float64)
    if isinstance(first, (int, bool)):
        return torch.tensor(batch)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return {key: default_collate([sample[key] for sample in batch]) for key in first}
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(samples) for samples in zip(*batch, strict=True)))
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        return [default_collate(samples) for samples in zip(*batch, strict=True)]
    raise TypeError(
        f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {type(first)}"
    )
