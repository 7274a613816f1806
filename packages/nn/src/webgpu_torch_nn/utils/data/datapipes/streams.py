"""Streams of one source: its samples changed, chosen, gathered into batches, out of order."""

from __future__ import annotations

import copy as copying
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import Any

import webgpu_torch_core as torch

from ..collate import default_collate
from ..sampler import SequentialSampler
from .datapipe import DataChunk, IterDataPipe, MapDataPipe, functional_datapipe


def lengths(pipe: object, *sources: object) -> list[int]:
    """Return the lengths of a pipe's sources.

    Raises:
        TypeError: one has none.
    """
    if not all(isinstance(each, Sized) for each in sources):
        raise TypeError(f"{type(pipe).__name__} instance doesn't have valid length")
    return [len(each) for each in sources if isinstance(each, Sized)]


class IterableWrapper(IterDataPipe):
    """The samples of anything iterable; copied first, so that a run cannot change it, unless ``deepcopy`` is false."""

    def __init__(self, iterable: Iterable[object], deepcopy: bool = True) -> None:
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self) -> Iterator[object]:
        source = self.iterable
        if self.deepcopy:
            try:
                source = copying.deepcopy(source)
            except TypeError:
                pass  # A generator cannot be copied.
        yield from source

    def __len__(self) -> int:
        return lengths(self, self.iterable)[0]


class _OfOne(IterDataPipe):
    """A pipe over one other."""

    def __init__(self, datapipe: IterDataPipe) -> None:
        self.datapipe = datapipe

    def __len__(self) -> int:
        return lengths(self, self.datapipe)[0]


def columns_of(given: object) -> list[str]:
    """Return the columns that one or several keys (or indices) name."""
    found: list[Any] = list(given) if isinstance(given, (list, tuple)) else [given]
    return found


@functional_datapipe("map")
class Mapper(_OfOne):
    """A function of each sample, or of some of its columns.

    Args:
        datapipe: the source.
        fn: the function.
        input_col: index or key of the column it takes, or several.
        output_col: where its result goes; the (first) input's column if None.
    """

    def __init__(
        self, datapipe: IterDataPipe, fn: Callable[..., object], input_col: object = None, output_col: object = None
    ) -> None:
        super().__init__(datapipe)
        if input_col is None and output_col is not None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        self.fn, self.input_col = fn, input_col
        if isinstance(output_col, (list, tuple)) and len(output_col) > 1:
            raise ValueError("`output_col` must be a single-element list or tuple")
        self.output_col = None if output_col is None else columns_of(output_col)[0]

    def _apply_fn(self, sample: object) -> object:
        if self.input_col is None:
            return self.fn(sample)
        # What has columns: a tuple, a list or a dictionary.
        data: Any = sample
        columns = columns_of(self.input_col)
        result = self.fn(*(data[each] for each in columns))
        kept: Any = list(data) if isinstance(data, tuple) else copying.copy(data)
        if self.output_col is None:
            kept[columns[0]] = result
            for each in sorted(columns[1:], reverse=True):
                del kept[each]
        elif self.output_col == -1:
            kept.append(result)
        else:
            kept[self.output_col] = result
        return tuple(kept) if isinstance(data, tuple) else kept

    def __iter__(self) -> Iterator[object]:
        for data in self.datapipe:
            yield self._apply_fn(data)


@functional_datapipe("collate")
class Collator(Mapper):
    """Each batch as tensors, by a function such as :func:`default_collate`."""

    def __init__(
        self, datapipe: IterDataPipe, conversion: object = None, collate_fn: Callable[..., object] | None = None
    ) -> None:
        super().__init__(datapipe, collate_fn or (conversion if callable(conversion) else default_collate))


@functional_datapipe("filter")
class Filter(_OfOne):
    """The samples, or those with the column, that a function says yes to."""

    def __init__(self, datapipe: IterDataPipe, filter_fn: Callable[..., bool], input_col: object = None) -> None:
        super().__init__(datapipe)
        self.filter_fn, self.input_col = filter_fn, input_col

    def __iter__(self) -> Iterator[object]:
        for sample in self.datapipe:
            data: Any = sample
            given = [data] if self.input_col is None else [data[each] for each in columns_of(self.input_col)]
            verdict = self.filter_fn(*given)
            if not isinstance(verdict, (bool, torch.Tensor)):
                raise ValueError(
                    f"Boolean output is required for `filter_fn` of FilterIterDataPipe, got {type(verdict)}"
                )
            if verdict:
                yield data

    def __len__(self) -> int:
        raise TypeError(f"{type(self).__name__} instance doesn't have valid length")


@functional_datapipe("batch")
class Batcher(_OfOne):
    """Lists of ``batch_size`` samples, the last one shorter unless it is dropped."""

    def __init__(
        self,
        datapipe: IterDataPipe,
        batch_size: int,
        drop_last: bool = False,
        wrapper_class: type[DataChunk] = DataChunk,
    ) -> None:
        super().__init__(datapipe)
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.batch_size, self.drop_last, self.wrapper_class = batch_size, drop_last, wrapper_class

    def __iter__(self) -> Iterator[DataChunk]:
        batch: list[object] = []
        for each in self.datapipe:
            batch.append(each)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)

    def __len__(self) -> int:
        count = lengths(self, self.datapipe)[0]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


@functional_datapipe("unbatch")
class UnBatcher(_OfOne):
    """The samples of batches, of as many levels as told; -1: of all."""

    def __init__(self, datapipe: IterDataPipe, unbatch_level: int = 1) -> None:
        super().__init__(datapipe)
        self.unbatch_level = unbatch_level

    def __iter__(self) -> Iterator[object]:
        if self.unbatch_level < -1:
            raise ValueError("unbatch_level must be -1 or >= 0")
        for each in self.datapipe:
            yield from self._opened(each, self.unbatch_level)

    def _opened(self, value: object, level: int) -> Iterator[object]:
        if level == 0 or (level == -1 and not isinstance(value, (list, DataChunk))):
            yield value
            return
        if not isinstance(value, (list, DataChunk)):
            raise IndexError(f"unbatch_level {self.unbatch_level} exceeds the depth of the DataPipe")
        for each in value:
            yield from self._opened(each, level if level == -1 else level - 1)

    def __len__(self) -> int:
        raise TypeError(f"{type(self).__name__} instance doesn't have valid length")


@functional_datapipe("groupby")
class Grouper(_OfOne):
    """Lists of samples for which a function returns the same, of at most ``group_size`` each."""

    def __init__(
        self, datapipe: IterDataPipe, group_key_fn: Callable[[object], object], *, keep_key: bool = False, buffer_size: int = 10000,
        group_size: int | None = None, guaranteed_group_size: int | None = None, drop_remaining: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(datapipe)
        self.group_key_fn, self.keep_key, self.buffer_size = group_key_fn, keep_key, buffer_size
        self.group_size, self.drop_remaining = group_size, drop_remaining
        self.guaranteed_group_size = group_size if guaranteed_group_size is None else guaranteed_group_size

    def __iter__(self) -> Iterator[object]:
        groups: defaultdict[object, list[object]] = defaultdict(list)
        held = 0

        def give(key: object) -> object:
            members = groups.pop(key)
            return (key, members) if self.keep_key else members

        for each in self.datapipe:
            key = self.group_key_fn(each)
            groups[key].append(each)
            held += 1
            if self.group_size is not None and len(groups[key]) == self.group_size:
                held -= len(groups[key])
                yield give(key)
            if held == self.buffer_size:
                largest = max(groups, key=lambda key: len(groups[key]))
                enough = self.guaranteed_group_size is None or len(groups[largest]) >= self.guaranteed_group_size
                if not enough and not self.drop_remaining:
                    raise RuntimeError(
                        "Failed to group items: the buffer is full of groups that are too small", str(groups)
                    )
                held -= len(groups[largest])
                given = give(largest)
                if enough:
                    yield given
        for key in list(groups):
            yield give(key)

    def __len__(self) -> int:
        raise TypeError(f"{type(self).__name__} instance doesn't have valid length")


@functional_datapipe("shuffle")
class Shuffler(_OfOne):
    """The samples out of order: each is drawn from a buffer of the next ``buffer_size``."""

    def __init__(self, datapipe: IterDataPipe, *, buffer_size: int = 10000, unbatch_level: int = 0) -> None:
        super().__init__(UnBatcher(datapipe, unbatch_level) if unbatch_level else datapipe)
        if buffer_size <= 0:
            raise AssertionError("buffer_size should be larger than 0")
        self.buffer_size, self._enabled, self._seed = buffer_size, True, None

    def set_shuffle(self, shuffle: bool = True) -> Shuffler:
        """Turn it on or off."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int | None) -> Shuffler:
        """Set the seed of the next run; PyTorch's generator gives one otherwise."""
        self._seed = seed
        return self

    def __iter__(self) -> Iterator[object]:
        if not self._enabled:
            yield from self.datapipe
            return
        seed, self._seed = self._seed, None
        generator = random.Random(int(torch.empty((), dtype=torch.int64).random_().item()) if seed is None else seed)
        buffer: list[object] = []
        for each in self.datapipe:
            if len(buffer) == self.buffer_size:
                place = generator.randint(0, len(buffer) - 1)
                found, buffer[place] = buffer[place], each
                yield found
            else:
                buffer.append(each)
        while buffer:
            yield buffer.pop(generator.randint(0, len(buffer) - 1))


class Sampler(_OfOne):
    """What a sampler of a pipe's places gives."""

    def __init__(
        self, datapipe: IterDataPipe, sampler: Callable[..., Iterable[object]] = SequentialSampler, sampler_args: Sequence[object] = (),
        sampler_kwargs: dict[str, object] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(datapipe)
        self.sampler = sampler(*(sampler_args or ()), data_source=datapipe, **(sampler_kwargs or {}))

    def __iter__(self) -> Iterator[object]:
        return iter(self.sampler)


@functional_datapipe("sharding_filter")
class ShardingFilter(_OfOne):
    """Every n-th sample, of which :meth:`apply_sharding` says n and where to begin."""

    def __init__(self, source_datapipe: IterDataPipe, sharding_group_filter: object = None) -> None:
        super().__init__(source_datapipe)
        del sharding_group_filter
        self.num_of_instances, self.instance_id = 1, 0

    def apply_sharding(self, num_of_instances: int, instance_id: int, sharding_group: object = None) -> None:
        """Take sample ``instance_id`` and every ``num_of_instances``-th after it.

        Raises:
            ValueError: ``instance_id`` is not below ``num_of_instances``.
        """
        if instance_id >= num_of_instances:
            raise ValueError(f"instance_id({instance_id}) should be smaller than num_of_instances({num_of_instances})")
        self.num_of_instances, self.instance_id = num_of_instances, instance_id

    def __iter__(self) -> Iterator[object]:
        for place, each in enumerate(self.datapipe):
            if place % self.num_of_instances == self.instance_id:
                yield each

    def __len__(self) -> int:
        return len(range(self.instance_id, lengths(self, self.datapipe)[0], self.num_of_instances))


def apply_sharding(datapipe: object, num_of_instances: int, instance_id: int, sharding_group: object = None) -> object:
    """Tell the sharding filters below a pipe which samples are theirs, and return the pipe."""
    if isinstance(datapipe, ShardingFilter):
        datapipe.apply_sharding(num_of_instances, instance_id, sharding_group)
    inner = vars(datapipe)
    for each in (inner.get("datapipe"), *inner.get("datapipes", ())):
        if isinstance(each, (IterDataPipe, MapDataPipe)):
            apply_sharding(each, num_of_instances, instance_id, sharding_group)
    return datapipe
