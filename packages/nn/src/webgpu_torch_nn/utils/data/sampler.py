"""Samplers: the order in which a loader visits a data set, drawn from PyTorch's random streams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

import webgpu_torch_core as torch
from webgpu_torch_core.record.devices import host_device

from webgpu_torch_nn.distributed.groups import get_rank, get_world_size
from webgpu_torch_nn.utils.data._seeds import draw_seed

_Index = TypeVar("_Index", covariant=True)


class Sampler(Generic[_Index]):
    """Base class of samplers; subclasses define ``__iter__``, which gives indices or lists of indices."""

    def __iter__(self) -> Iterator[_Index]:
        raise NotImplementedError


class SequentialSampler(Sampler[int]):
    """Every index in order."""

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Every index in random order, or ``num_samples`` independent draws with ``replacement``.

    Without a generator, one is made whose seed is drawn from the default generator.

    Raises:
        ValueError: ``num_samples`` is not a positive integer.
    """

    def __init__(
        self, data_source: Any, replacement: bool = False, num_samples: int | None = None, generator: Any = None
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={self.num_samples}")

    @property
    def num_samples(self) -> int:
        """How many indices one pass gives; a data set may grow between passes."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        count, wanted, generator = len(self.data_source), self.num_samples, self.generator
        if generator is None:
            generator = torch.Generator(host_device())
            generator.manual_seed(draw_seed())
        place = host_device()
        if self.replacement:
            # PyTorch draws in blocks of 32, so the same blocks give the same numbers.
            for start in range(0, wanted, 32):
                size = (min(32, wanted - start),)
                drawn = torch.randint(high=count, size=size, dtype=torch.int64, generator=generator, device=place)
                yield from drawn.tolist()
            return
        for _ in range(wanted // count):
            yield from torch.randperm(count, generator=generator, device=place).tolist()
        # Drawn even if nothing of it is wanted, as PyTorch does: the generator moves on.
        yield from torch.randperm(count, generator=generator, device=place).tolist()[: wanted % count]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order."""

    def __init__(self, indices: Sequence[int], generator: Any = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        order = torch.randperm(len(self.indices), generator=self.generator, device=host_device())
        for position in order.tolist():
            yield self.indices[position]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """``num_samples`` indices drawn with the given probabilities, which need not add up to 1."""

    def __init__(
        self, weights: Sequence[float], num_samples: int, replacement: bool = True, generator: Any = None
    ) -> None:
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.weights = torch.as_tensor(weights, dtype=torch.float64, device=host_device())
        if self.weights.ndim != 1:
            raise ValueError(
                f"weights should be a 1d sequence but given weights have shape {tuple(self.weights.shape)}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = torch.multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)
        yield from drawn.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler["list[int]"]):
    """Lists of ``batch_size`` indices of another sampler; the last, shorter one is kept unless ``drop_last``.

    Raises:
        ValueError: an argument is of the wrong kind.
    """

    def __init__(self, sampler: Any, batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        batch: list[int] = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        whole, rest = divmod(len(self.sampler), self.batch_size)
        return whole if self.drop_last or rest == 0 else whole + 1


class DistributedSampler(Sampler[int]):
    """The share of a data set that one of several processes visits; every process gets the same number of indices.

    Args:
        dataset: what is shared out; only its length matters.
        num_replicas: how many processes there are, those of the default group if not given.
        rank: which of them this is, from 0, likewise.
        shuffle: visit in an order drawn anew for every epoch, see :meth:`set_epoch`.
        seed: draws the order; must be the same in all processes.
        drop_last: leave out the tail that does not divide, instead of repeating the first indices.

    Raises:
        ValueError: ``rank`` is not one of the processes; one of the two is missing, and there is no default group.
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        num_replicas = get_world_size() if num_replicas is None else num_replicas
        rank = get_rank() if rank is None else rank
        if rank >= num_replicas or rank < 0:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        whole, rest = divmod(len(dataset), num_replicas)
        self.num_samples = whole if drop_last or rest == 0 else whole + 1
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        if self.shuffle:
            place = host_device()
            generator = torch.Generator(place).manual_seed(self.seed + self.epoch)
            order = torch.randperm(count, generator=generator, device=place).tolist()
        else:
            order = list(range(count))
        # Repeated from the start as often as needed, or cut.
        order = (order * (self.total_size // max(count, 1) + 1))[: self.total_size]
        return iter(order[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Draw the order of another epoch from now on."""
        self.epoch = epoch
