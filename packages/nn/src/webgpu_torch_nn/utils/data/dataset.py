"""Data sets: things with a length that give a sample for an index, and streams of samples."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.notices import warn
from webgpu_torch_core.record.devices import host_device

_Sample = TypeVar("_Sample", covariant=True)


class Dataset(Generic[_Sample]):
    """Base class of data sets that map an index to a sample; subclasses define ``__getitem__`` and ``__len__``.

    A subclass may define ``__getitems__`` too, which takes a list of indices and returns a list of samples: the loader
    then fetches a batch in one call.
    """

    def __getitem__(self, index: Any) -> _Sample:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[_Sample]):
    """Base class of data sets that are a stream of samples; subclasses define ``__iter__``.

    Every worker of a loader iterates over a copy of its own: :func:`get_worker_info` tells it which part to give.
    """

    def __iter__(self) -> Iterator[_Sample]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other: Dataset[Any]) -> ChainDataset[Any]:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset["tuple[Tensor, ...]"]):
    """The slices of several tensors along their first dimension, which has the same size in all.

    Raises:
        AssertionError: the sizes differ.
    """

    def __init__(self, *tensors: Tensor) -> None:
        if any(tensor.size(0) != tensors[0].size(0) for tensor in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].size(0)


def _items(dataset: Any, indices: list[Any]) -> list[Any]:
    """Return a data set's samples at the given indices, in one call where it can."""
    fetch_many = getattr(dataset, "__getitems__", None)
    if not callable(fetch_many):
        return [dataset[index] for index in indices]
    samples: Any = fetch_many(indices)
    return samples


class StackDataset(Dataset[Any]):
    """Several data sets of one length side by side: samples are tuples, or dictionaries of the names given.

    Raises:
        ValueError: no data set, data sets of different lengths, or some with a name and some without.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or"
                "``dict``- (via ``kwargs``) like input/output, but both types are given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets: Any = args or kwargs
        lengths = {len(dataset) for dataset in (args or kwargs.values())}
        if len(lengths) > 1:
            raise ValueError("Size mismatch between datasets")
        self._length = lengths.pop()

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        named = isinstance(self.datasets, dict)
        columns = [_items(dataset, indices) for dataset in (self.datasets.values() if named else self.datasets)]
        for column in columns:
            if len(column) != len(indices):
                raise ValueError(f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(column)}")
        rows = zip(*columns, strict=True)
        return [dict(zip(self.datasets, row, strict=True)) for row in rows] if named else list(rows)

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[_Sample]):
    """Several data sets one after the other.

    Raises:
        AssertionError: there is no data set, or one is a stream.
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """Return where each data set ends."""
        return list(itertools.accumulate(len(dataset) for dataset in sequence))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> _Sample:
        if idx < 0:
            if -idx > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            idx += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, idx)
        return self.datasets[which][idx - (self.cumulative_sizes[which - 1] if which else 0)]


class ChainDataset(IterableDataset[_Sample]):
    """Several streams one after the other.

    Raises:
        AssertionError: while iterating or counting, if one is no stream.
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def _streams(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield dataset

    def __iter__(self) -> Iterator[_Sample]:
        for dataset in self._streams():
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._streams())


class Subset(Dataset[_Sample]):
    """The samples of a data set at the given indices.

    Raises:
        NotImplementedError: a subclass defines ``__getitem__`` but not ``__getitems__``, which the loader calls.
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices
        own = type(self)
        if own.__getitem__ is not Subset.__getitem__ and own.__getitems__ is Subset.__getitems__:
            raise NotImplementedError(
                f"{own.__name__} overrides __getitem__ but not __getitems__, which DataLoader calls; also override "
                "it, for example: def __getitems__(self, indices): return [self.__getitem__(idx) for idx in indices]"
            )

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return _items(self.dataset, [self.indices[index] for index in indices])

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Any, lengths: Sequence[int | float], generator: Any = None) -> list[Subset[Any]]:
    """Split a data set at random into subsets of the given lengths, or of fractions that add up to 1.

    With fractions the samples left over by rounding down go one each to the first subsets.

    Raises:
        ValueError: the lengths do not add up to the data set's, or a fraction is outside [0, 1].
    """
    counts = _counts_of_fractions(lengths, len(dataset)) if _are_fractions(lengths) else list(lengths)
    if sum(counts) != len(dataset):
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = torch.randperm(len(dataset), generator=generator, device=host_device()).tolist()
    ends = itertools.accumulate(counts)
    return [Subset(dataset, order[end - count : end]) for end, count in zip(ends, counts, strict=True)]


def _are_fractions(lengths: Sequence[int | float]) -> bool:
    return math.isclose(sum(lengths), 1) and sum(lengths) <= 1


def _counts_of_fractions(fractions: Sequence[int | float], total: int) -> list[int]:
    for index, fraction in enumerate(fractions):
        if fraction < 0 or fraction > 1:
            raise ValueError(f"Fraction at index {index} is not between 0 and 1")
    counts = [math.floor(total * fraction) for fraction in fractions]
    for index in range(total - sum(counts)):
        counts[index % len(counts)] += 1
    for index, count in enumerate(counts):
        if count == 0:
            warn(f"Length of split at index {index} is 0. This might result in an empty dataset.")
    return counts
