"""Streams of several sources, and several streams of one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from .datapipe import IterDataPipe, functional_datapipe
from .streams import lengths


class _OfSeveral(IterDataPipe):
    """A pipe over several others."""

    def __init__(self, *datapipes: IterDataPipe) -> None:
        if not datapipes:
            raise ValueError("Expected at least one DataPipe, but got nothing")
        if not all(isinstance(each, IterDataPipe) for each in datapipes):
            raise TypeError("Expected all inputs to be `IterDataPipe`")
        self.datapipes = datapipes


@functional_datapipe("concat")
class Concater(_OfSeveral):
    """The samples of several pipes, one pipe after the other."""

    def __iter__(self) -> Iterator[object]:
        for each in self.datapipes:
            yield from each

    def __len__(self) -> int:
        return sum(lengths(self, *self.datapipes))


@functional_datapipe("zip")
class Zipper(_OfSeveral):
    """Tuples of a sample of each pipe, until the shortest ends."""

    def __iter__(self) -> Iterator[tuple[object, ...]]:
        return zip(*self.datapipes, strict=False)

    def __len__(self) -> int:
        return min(lengths(self, *self.datapipes))


@functional_datapipe("mux")
class Multiplexer(_OfSeveral):
    """A sample of each pipe in turn, until the shortest ends."""

    def __iter__(self) -> Iterator[object]:
        for group in zip(*self.datapipes, strict=False):
            yield from group

    def __len__(self) -> int:
        return min(lengths(self, *self.datapipes)) * len(self.datapipes)


class _Shared:
    """One run through a pipe whose samples go to several others.

    Args:
        datapipe: the source.
        choose: takes a sample and returns the places of those that it goes to.
        count: how many others there are.
        buffer_size: how many samples may wait; less than 0: any number.
    """

    def __init__(
        self, datapipe: IterDataPipe, choose: Callable[[object], Sequence[int]], count: int, buffer_size: int
    ) -> None:
        self.datapipe, self.choose, self.buffer_size = datapipe, choose, buffer_size
        self.count = count
        self.waiting: list[deque[object]] = []
        self.running: Iterator[object] | None = None
        self.started: set[int] = set()

    def run(self, place: int) -> Iterator[object]:
        if self.running is None or place in self.started:
            self.running, self.started = iter(self.datapipe), set()
            self.waiting = [deque() for _ in range(self.count)]
        self.started.add(place)
        running, waiting = self.running, self.waiting
        while True:
            while waiting[place]:
                yield waiting[place].popleft()
            if running is not self.running:
                raise RuntimeError("This iterator has been invalidated: another was made of the same pipe")
            try:
                sample = next(running)
            except StopIteration:
                return
            for each in self.choose(sample):
                waiting[each].append(sample)
                if 0 <= self.buffer_size < len(waiting[each]) and each != place:
                    raise BufferError(
                        f"the buffer of {self.buffer_size} samples overflows: take from all pipes in turn"
                    )


class _Child(IterDataPipe):
    def __init__(self, shared: _Shared, place: int, sized: bool) -> None:
        self.shared, self.place, self.sized = shared, place, sized

    def __iter__(self) -> Iterator[object]:
        return self.shared.run(self.place)

    def __len__(self) -> int:
        if not self.sized:
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length")
        return lengths(self, self.shared.datapipe)[0]


@functional_datapipe("fork")
class Forker(IterDataPipe):
    """Several pipes with all samples of one."""

    def __new__(
        cls, datapipe: IterDataPipe, num_instances: int, buffer_size: int = 1000, copy: str | None = None
    ) -> object:
        if num_instances < 1:
            raise ValueError(f"Expected `num_instances` larger than 0, but {num_instances} is found")
        if num_instances == 1:
            return [datapipe]
        shared = _Shared(datapipe, lambda sample: range(num_instances), num_instances, buffer_size)
        return [_Child(shared, place, True) for place in range(num_instances)]


@functional_datapipe("demux")
class Demultiplexer(IterDataPipe):
    """Several pipes, to one of which a function sends each sample; None drops it."""

    def __new__(
        cls, datapipe: IterDataPipe, num_instances: int, classifier_fn: Callable[..., int | None], drop_none: bool = False,
        buffer_size: int = 1000,
    ) -> object:  # fmt: skip
        if num_instances < 1:
            raise ValueError(f"Expected `num_instances` larger than 0, but {num_instances} is found")

        def choose(sample: object) -> Sequence[int]:
            place = classifier_fn(sample)
            if place is None and drop_none:
                return ()
            if place is None or not 0 <= place < num_instances:
                raise ValueError(
                    f"Output of the classification fn should be between 0 and {num_instances - 1}. {place} is returned."
                )
            return (place,)

        shared = _Shared(datapipe, choose, num_instances, buffer_size)
        return [_Child(shared, place, False) for place in range(num_instances)]
