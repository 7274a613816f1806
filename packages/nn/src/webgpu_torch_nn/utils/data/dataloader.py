"""Batches of a data set."""

from __future__ import annotations

import itertools
import multiprocessing
import multiprocessing.context
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from webgpu_torch_core.notices import warn

from webgpu_torch_nn.utils.data.collate import default_collate, default_convert
from webgpu_torch_nn.utils.data.dataset import IterableDataset
from webgpu_torch_nn.utils.data.iteration import MultiProcessIterator, SingleProcessIterator
from webgpu_torch_nn.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler

_Sample = TypeVar("_Sample", covariant=True)
_FIXED = frozenset(("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"))


class _Endless:
    """The sampler of streams, whose samples have no index."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


class DataLoader(Generic[_Sample]):
    """Iterate over a data set in batches, in PyTorch's order for a seed.

    Workers are processes made as Python's ``multiprocessing`` makes them by default, or by
    ``multiprocessing_context``. They compute on the host only; their batches arrive as tensors on the CPU. Every worker
    seeds its random streams with a base seed, drawn from ``generator``, plus its number.

    Args:
        dataset: has ``__getitem__`` and ``__len__``, or is an ``IterableDataset``.
        batch_size: samples per batch; None gives single samples.
        shuffle: visit in random order, drawn as PyTorch draws it.
        sampler: gives the indices instead; excludes ``shuffle``.
        batch_sampler: gives lists of indices; excludes ``batch_size``, ``shuffle``, ``sampler`` and ``drop_last``.
        num_workers: how many processes fetch batches; 0 fetches in the calling thread.
        collate_fn: joins a list of samples; :func:`default_collate` if None.
        pin_memory: accepted and without effect, since a WebGPU upload always goes through a staging buffer.
        drop_last: leave out a last batch that is not full.
        timeout: how many seconds to wait for a batch of a worker; 0 waits for ever.
        worker_init_fn: called in every worker with its number, before it fetches.
        multiprocessing_context: how workers start: ``"fork"``, ``"spawn"``, ``"forkserver"`` or a context.
        generator: draws the order and the base seed.
        prefetch_factor: how many batches every worker is asked for ahead; 2 if None.
        persistent_workers: keep the workers for the next pass.
        pin_memory_device: accepted and without effect.
        in_order: give the workers' batches in the order of the indices, not as they come.

    Raises:
        ValueError: the arguments contradict each other; the message says which.
        RuntimeError: while iterating: a worker died or took too long. What a worker raises is raised with the type it
            had and the worker's traceback as text.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        _check_choice(dataset, batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        sampler = _usual_sampler(dataset, shuffle, generator) if sampler is None else sampler
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        elif batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler: Any = sampler
        self.batch_sampler: Any = batch_sampler
        self.generator = generator
        self._joins = batch_sampler is not None
        self.collate_fn = collate_fn if collate_fn is not None else default_collate if self._joins else default_convert
        self.persistent_workers = persistent_workers
        #: the length of a stream as len() was told
        self._announced: int | None = None
        self._iterator: Any = None
        self._initialized = True
        self.check_worker_number_rationality()

    def __setattr__(self, attr: str, val: Any) -> None:
        if attr in _FIXED and self.__dict__.get("_initialized"):
            raise ValueError(f"{attr} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(attr, val)

    @property
    def multiprocessing_context(self) -> Any:
        """How workers start: a context of :mod:`multiprocessing`, or None for Python's default."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, multiprocessing_context: Any) -> None:
        context = multiprocessing_context
        if context is not None and self.num_workers == 0:
            raise ValueError(
                "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
                f"num_workers={self.num_workers}"
            )
        if isinstance(context, str):
            methods = multiprocessing.get_all_start_methods()
            if context not in methods:
                raise ValueError(
                    f"multiprocessing_context option should specify a valid start method in {methods!r}, but got "
                    f"multiprocessing_context={context!r}"
                )
            context = multiprocessing.get_context(context)
        if context is not None and not isinstance(context, multiprocessing.context.BaseContext):
            raise TypeError(
                "multiprocessing_context option should be a valid context object or a string specifying the start "
                f"method, but got multiprocessing_context={context}"
            )
        self._context = context

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._joins else self.sampler

    def __iter__(self) -> Iterator[Any]:
        if self.num_workers == 0:
            return SingleProcessIterator(self)
        if not self.persistent_workers:
            return MultiProcessIterator(self)
        if self._iterator is None:
            self._iterator = MultiProcessIterator(self)
        else:
            self._iterator.restart(self)
        return self._iterator

    def __len__(self) -> int:
        if not isinstance(self.dataset, IterableDataset):
            return len(self._index_sampler)
        dataset: Any = self.dataset
        length = self._announced = len(dataset)
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)

    def check_worker_number_rationality(self) -> None:
        """Warn if there are more workers than processors that this process may use."""
        if not self.num_workers:
            return
        affinity: Any = getattr(os, "sched_getaffinity", None)
        processors = len(affinity(0)) if affinity is not None else os.cpu_count()
        if processors is None or self.num_workers > processors:
            warn(
                f"This DataLoader will create {self.num_workers} worker processes in total. Our suggested max number "
                f"of worker in current system is {processors}, which is smaller than what this DataLoader is going to "
                "create, please be aware that excessive worker creation might get DataLoader running slow or even freeze, "
                "lower the worker number to avoid potential slowness/freeze if necessary.",
            )


def _usual_sampler(dataset: Any, shuffle: bool | None, generator: Any) -> Iterable[Any]:
    if isinstance(dataset, IterableDataset):
        return _Endless()
    return RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)


def _check_workers(num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool) -> None:
    if num_workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to enable "
            "multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_choice(
    dataset: Any, batch_size: int | None, shuffle: bool | None, sampler: Any, batch_sampler: Any, drop_last: bool
) -> None:
    if isinstance(dataset, IterableDataset):
        given = (("shuffle", shuffle or None), ("sampler", sampler), ("batch_sampler", batch_sampler))
        for name, value in given:
            if value is not None:
                raise ValueError(
                    f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
                )
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last")
    if batch_size is None and batch_sampler is None and drop_last:
        raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
