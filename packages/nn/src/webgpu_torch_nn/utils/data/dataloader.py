"""Batches of a data set."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import webgpu_torch_core as torch

from webgpu_torch_nn.utils.data.collate import default_collate
from webgpu_torch_nn.utils.data.dataset import IterableDataset
from webgpu_torch_nn.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler


def _as_it_is(batch: Any) -> Any:
    """The collation of single samples, which are not joined."""
    return batch


class DataLoader:
    """Iterate over a data set in batches.

    Args:
        dataset: has ``__getitem__`` and ``__len__``, or is an :class:`IterableDataset`.
        batch_size: samples per batch; None gives single samples.
        shuffle: visit in random order, drawn as PyTorch draws it.
        sampler: gives the indices instead; excludes ``shuffle``.
        batch_sampler: gives lists of indices; excludes ``batch_size``, ``shuffle``, ``sampler`` and ``drop_last``.
        num_workers: must be 0, loading happens in the calling thread.
        collate_fn: joins a list of samples; :func:`default_collate` if None.
        pin_memory: accepted and without effect, since a WebGPU upload always goes through a staging buffer.
        drop_last: leave out a last batch that is not full.
        generator: draws the order.

    Raises:
        ValueError: the arguments contradict each other; the message says which.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[list[int]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
    ) -> None:
        if num_workers != 0:
            raise ValueError(
                f"num_workers={num_workers} is not supported: samples are loaded in the calling thread; use "
                "num_workers=0"
            )
        if prefetch_factor is not None or persistent_workers or timeout != 0:
            raise ValueError("prefetch_factor, persistent_workers and timeout need num_workers > 0")
        self._check(dataset, batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.dataset = dataset
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.drop_last = drop_last
        self._streams = isinstance(dataset, IterableDataset)
        if sampler is None and not self._streams:
            sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        self.sampler: Any = sampler
        if batch_sampler is not None:
            batch_size = None
        elif batch_size is not None and not self._streams:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.batch_sampler: Any = batch_sampler
        joins = batch_sampler is not None or batch_size is not None
        self.collate_fn = collate_fn if collate_fn is not None else default_collate if joins else _as_it_is

    @staticmethod
    def _check(
        dataset: Any, batch_size: int | None, shuffle: bool | None, sampler: Any, batch_sampler: Any, drop_last: bool
    ) -> None:
        if isinstance(dataset, IterableDataset):
            for name, value in (("shuffle", shuffle), ("sampler", sampler), ("batch_sampler", batch_sampler)):
                if value:
                    raise ValueError(
                        f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
                    )
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise ValueError(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
            )
        if batch_size is None and batch_sampler is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")

    def __iter__(self) -> Iterator[Any]:
        # PyTorch draws a seed for the workers at every pass, also when there are none; the order that follows
        # depends on it.
        torch.empty((), dtype=torch.int64).random_(generator=self.generator)
        return self._stream() if self._streams else self._indexed()

    def _indexed(self) -> Iterator[Any]:
        if self.batch_sampler is None:
            for index in self.sampler:
                yield self.collate_fn(self.dataset[index])
            return
        fetch_many = getattr(self.dataset, "__getitems__", None)
        for indices in self.batch_sampler:
            samples = fetch_many(indices) if fetch_many else [self.dataset[index] for index in indices]
            yield self.collate_fn(samples)

    def _stream(self) -> Iterator[Any]:
        samples = iter(self.dataset)
        if self.batch_size is None:
            yield from map(self.collate_fn, samples)
            return
        while batch := list(itertools.islice(samples, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield self.collate_fn(batch)

    def __len__(self) -> int:
        if not self._streams:
            return len(self.sampler if self.batch_sampler is None else self.batch_sampler)
        length = len(self.dataset)
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)
