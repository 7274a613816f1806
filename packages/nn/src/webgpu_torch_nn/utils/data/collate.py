"""Joining samples into a batch, and turning arrays inside one sample into tensors."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor


def _refusal(what: Any) -> TypeError:
    return TypeError(
        f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {what}"
    )


def _like_mapping(original: Mapping[Any, Any], values: dict[Any, Any]) -> Any:
    """Return the values in a mapping of the original's type, or in a dictionary where that type cannot be made."""
    try:
        if isinstance(original, MutableMapping):
            # A copy keeps what a subclass carries besides its items.
            clone = copy.copy(original)
            clone.update(values)
            return clone
        return type(original)(values)  # type: ignore[call-arg]
    except TypeError:
        return values


def _like_sequence(original: Sequence[Any], values: list[Any]) -> Any:
    """Return the values in a sequence of the original's type, or in a list where that type cannot be made."""
    if isinstance(original, tuple):
        return type(original)(*values) if hasattr(original, "_fields") else values
    try:
        if isinstance(original, MutableSequence):
            clone = copy.copy(original)
            for index, value in enumerate(values):
                clone[index] = value
            return clone
        return type(original)(values)  # type: ignore[call-arg]
    except TypeError:
        return values


def _is_numpy(value: Any) -> bool:
    return type(value).__module__ == "numpy" and hasattr(value, "dtype")


def _join_numpy(batch: Sequence[Any]) -> Tensor:
    if batch[0].dtype.kind in "SUaO":
        raise _refusal(batch[0].dtype)
    return torch.stack([torch.as_tensor(sample) for sample in batch], 0)


def collate(batch: Sequence[Any], *, collate_fn_map: Mapping[Any, Callable[..., Any]] | None = None) -> Any:
    """Join samples; ``collate_fn_map`` says by type what joins those that are neither mapping nor sequence.

    Its functions are called with the batch and ``collate_fn_map=``; subclasses of a type count where they have no entry
    of their own, and the first that fits is taken.

    Raises:
        TypeError: a sample is of a type that cannot be joined.
        RuntimeError: sequences of different lengths.
    """
    first = batch[0]
    functions = collate_fn_map or {}
    found = functions.get(type(first))
    if found is None:
        found = next((function for kind, function in functions.items() if isinstance(first, kind)), None)
    if found is not None:
        return found(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        joined = {key: collate([each[key] for each in batch], collate_fn_map=collate_fn_map) for key in first}
        return _like_mapping(first, joined)
    if isinstance(first, Sequence):
        named = isinstance(first, tuple) and hasattr(first, "_fields")
        if not named and any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch, strict=False)]
        return _like_sequence(first, columns)
    if _is_numpy(first):
        return _join_numpy(batch)
    raise _refusal(type(first))


def _join_tensors(batch: Sequence[Tensor], *, collate_fn_map: Any = None) -> Tensor:
    return torch.stack(list(batch), 0)


def _join_floats(batch: Sequence[float], *, collate_fn_map: Any = None) -> Tensor:
    return torch.tensor(batch, dtype=torch.float64)


def _join_integers(batch: Sequence[int], *, collate_fn_map: Any = None) -> Tensor:
    return torch.tensor(batch)


def _keep(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Sequence[Any]:
    return batch


#: what :func:`default_collate` does by the type of the samples; entries may be added
default_collate_fn_map: dict[Any, Callable[..., Any]] = {
    Tensor: _join_tensors,
    float: _join_floats,
    int: _join_integers,
    str: _keep,
    bytes: _keep,
}


def default_collate(batch: Sequence[Any]) -> Any:
    """Join samples of one structure: tensors and numbers are stacked, mappings and sequences joined inside.

    Python's numbers become float64 and int64; strings and bytes stay a list of their values; a tuple becomes a list.

    Raises:
        TypeError: a sample is of a type that cannot be joined.
        RuntimeError: sequences of different lengths.
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def default_convert(data: Any) -> Any:
    """Turn NumPy arrays and numbers inside mappings and sequences into tensors; leave the rest as it is."""
    if isinstance(data, Tensor):
        return data
    if _is_numpy(data):
        return data if data.dtype.kind in "SUaO" else torch.as_tensor(data)
    if isinstance(data, Mapping):
        return _like_mapping(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _like_sequence(data, [default_convert(each) for each in data])
    return data
