"""Fetching one batch: the same code in the calling process and in workers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from webgpu_torch_nn.utils.data.collate import default_collate
from webgpu_torch_nn.utils.data.dataset import IterableDataset, Subset, TensorDataset

Fetcher = Callable[[Any], Any]


def _slices(dataset: Any, indices: Any) -> list[Any] | None:
    """Return ``default_collate`` of a tensor data set's samples by one indexing of each tensor.

    None where that would not be the same: another data set, or indices that are not plain and in range.
    """
    while type(dataset) is Subset:
        indices = [dataset.indices[index] for index in indices]
        dataset = dataset.dataset
    if type(dataset) is not TensorDataset:
        return None
    count = len(dataset)
    if any(type(index) is not int or not -count <= index < count for index in indices):
        return None
    return [tensor[indices] for tensor in dataset.tensors]


def _map_fetcher(dataset: Any, joins: bool, collate_fn: Callable[[Any], Any]) -> Fetcher:
    fetch_many = getattr(dataset, "__getitems__", None)

    def fetch(index: Any) -> Any:
        if not joins:
            return collate_fn(dataset[index])
        if collate_fn is default_collate:
            found = _slices(dataset, index)
            if found is not None:
                return found
        return collate_fn(fetch_many(index) if fetch_many else [dataset[each] for each in index])

    return fetch


def _stream_fetcher(dataset: Any, joins: bool, collate_fn: Callable[[Any], Any], drop_last: bool) -> Fetcher:
    samples = iter(dataset)
    ended = False

    def fetch(index: Any) -> Any:
        nonlocal ended
        if ended:
            raise StopIteration
        if not joins:
            return collate_fn(next(samples))
        batch = list(itertools.islice(samples, len(index)))
        ended = len(batch) < len(index)
        if not batch or (ended and drop_last):
            raise StopIteration
        return collate_fn(batch)

    return fetch


def make_fetcher(dataset: Any, joins: bool, collate_fn: Callable[[Any], Any], drop_last: bool) -> Fetcher:
    """Return a function from an index to a sample, or from a list of indices (``joins``) to a batch.

    Of a stream's indices only their number counts; the function raises StopIteration at the stream's end.
    """
    if isinstance(dataset, IterableDataset):
        return _stream_fetcher(dataset, joins, collate_fn, drop_last)
    return _map_fetcher(dataset, joins, collate_fn)
