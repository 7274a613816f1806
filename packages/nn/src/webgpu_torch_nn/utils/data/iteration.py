"""One pass over a loader's data: in this process, or with workers."""

from __future__ import annotations

import itertools
import multiprocessing
import select
import signal
import sys
import time
import weakref
from collections.abc import Iterator
from multiprocessing import connection
from typing import TYPE_CHECKING, Any

from webgpu_torch_core.backend import profiling
from webgpu_torch_core.notices import warn

from webgpu_torch_nn.utils.data import transport
from webgpu_torch_nn.utils.data._seeds import draw_seed
from webgpu_torch_nn.utils.data.dataset import IterableDataset
from webgpu_torch_nn.utils.data.worker import END, FAILURE, RESUME, TASK, Job, work

if TYPE_CHECKING:
    from webgpu_torch_nn.utils.data.dataloader import DataLoader

#: how long a worker may take to notice that it should end, in seconds
PATIENCE = 5.0


class _BaseDataLoaderIter:
    """Draws the workers' seed and gives the indices; what the two kinds of passes share."""

    #: what profiles call the wait for a batch, as PyTorch's do
    _profile_name: str

    def __init__(self, loader: DataLoader) -> None:
        self._dataset = loader.dataset
        self._index_sampler = loader._index_sampler
        self._announced = loader._announced
        # In PyTorch's order: what a sampler draws depends on it.
        self._indices: Iterator[Any] = iter(self._index_sampler)
        seed = draw_seed(loader.generator)
        self._job = Job(
            loader.dataset, loader._joins, loader.collate_fn, loader.drop_last, seed, loader.worker_init_fn, 0,
            loader.num_workers,
        )  # fmt: skip
        self._yielded = 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __next__(self) -> Any:
        batch = profiling.timed(self._profile_name, self._next_batch)
        self._yielded += 1
        announced = self._announced
        if isinstance(self._dataset, IterableDataset) and announced is not None and self._yielded > announced:
            warn(
                f"Length of IterableDataset {self._dataset} was reported to be {announced} (when accessing "
                f"len(dataloader)), but {self._yielded} samples have been fetched. For multiprocessing data-loading, this "
                "happens where workers each give the whole stream; get_worker_info tells them which part is theirs.",
            )
        return batch

    def _next_batch(self) -> Any:
        raise NotImplementedError


class SingleProcessIterator(_BaseDataLoaderIter):
    """Fetches each batch when it is asked for."""

    _profile_name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"

    def __init__(self, loader: DataLoader) -> None:
        super().__init__(loader)
        self._fetch = self._job.fetcher()

    def _next_batch(self) -> Any:
        return self._fetch(next(self._indices))


class _Worker:
    """A worker process and this end of the pipe to it."""

    def __init__(self, context: Any, job: Job, siblings: list[_Worker]) -> None:
        self.channel, theirs = context.Pipe()
        # A forked worker has copies of this process's ends of all pipes; while it held them, nobody would see them close.
        forks = context.get_start_method() == "fork"
        inherited = [self.channel, *(each.channel for each in siblings)] if forks else []
        self.process = context.Process(target=work, args=(theirs, inherited, job), daemon=True)
        self.process.start()
        theirs.close()
        #: whether it has more to give in this pass
        self.active = True

    def send(self, message: Any) -> None:
        """Send a message; if the worker is gone, waiting for its answer tells."""
        try:
            self.channel.send(message)
        except OSError:
            pass

    def stop(self) -> None:
        """Ask it to end, unless its pipe is full: then it is not listening."""
        if sys.platform == "win32" or select.select([], [self.channel], [], 0)[1]:
            self.send(None)
        self.channel.close()

    def join(self, deadline: float) -> None:
        """Wait until it has ended; end it if it takes too long."""
        self.process.join(max(deadline - time.monotonic(), 0))
        if self.process.is_alive():
            self.process.terminate()
            self.process.join(PATIENCE)


def _end(workers: list[_Worker]) -> None:
    """Take workers out of a list and end them."""
    ending = [*workers]
    workers.clear()
    for worker in ending:
        worker.stop()
    deadline = time.monotonic() + PATIENCE
    for worker in ending:
        worker.join(deadline)


class MultiProcessIterator(_BaseDataLoaderIter):
    """Hands indices to workers in turn, some batches ahead, and gives their batches in the order of the indices."""

    _profile_name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"

    def __init__(self, loader: DataLoader) -> None:
        super().__init__(loader)
        self._timeout = loader.timeout
        self._in_order = loader.in_order
        self._persistent = loader.persistent_workers
        self._limit = (loader.prefetch_factor or 0) * loader.num_workers
        self._workers: list[_Worker] = []
        # No method of this object's: when a cycle is collected the pipes may have gone before it, and their numbers be others' by then.
        weakref.finalize(self, _end, self._workers).atexit = False
        context = loader.multiprocessing_context or multiprocessing.get_context()
        try:
            for number in range(loader.num_workers):
                self._workers.append(_Worker(context, self._job.numbered(number), self._workers))
        except BaseException:
            self._shut_down()
            raise
        self._begin()

    def _begin(self) -> None:
        """Start a pass over the indices."""
        self._indices = iter(self._index_sampler)
        self._yielded = 0
        self._given = 0
        self._wanted = 0
        #: the worker of each task that was given out and whose batch was not returned yet
        self._tasks: dict[int, int] = {}
        self._arrived: dict[int, tuple[int, Any]] = {}
        self._turn = itertools.cycle(range(len(self._workers)))
        for _ in range(self._limit):
            self._give()

    def restart(self, loader: DataLoader) -> None:
        """Start another pass with the same workers."""
        self._announced = loader._announced
        for worker in self._workers:
            worker.active = True
            worker.send((RESUME, -1, None))
        waiting = len(self._workers)
        while waiting:
            # Batches nobody took of the pass before come first.
            kind, _, _ = self._receive()
            waiting -= kind == RESUME
        self._begin()

    def _give(self) -> None:
        """Hand the next indices to the worker whose turn it is."""
        try:
            index = next(self._indices)
        except StopIteration:
            return
        share = max(self._limit // max(sum(worker.active for worker in self._workers), 1), 1)
        for number in itertools.islice(self._turn, len(self._workers)):
            busy = not self._in_order and self._outstanding(number) >= share
            if self._workers[number].active and not busy:
                self._workers[number].send((TASK, self._given, index))
                self._tasks[self._given] = number
                self._given += 1
                return

    def _outstanding(self, worker: int) -> int:
        return sum(each == worker for task, each in self._tasks.items() if task not in self._arrived)

    def _next_batch(self) -> Any:
        while True:
            # Tasks of workers whose stream has ended will not be answered.
            while self._wanted < self._given and not self._expected(self._wanted):
                self._tasks.pop(self._wanted, None)
                self._wanted += 1
            if self._wanted >= self._given:
                if not self._persistent:
                    self._shut_down()
                raise StopIteration
            if self._wanted in self._arrived:
                return self._return(self._wanted)
            kind, task, content = self._receive()
            if kind == END:
                self._workers[self._tasks.pop(task)].active = False
                self._give()
                continue
            self._arrived[task] = (kind, content)
            if not self._in_order:
                return self._return(task)

    def _expected(self, task: int) -> bool:
        return task in self._arrived or (task in self._tasks and self._workers[self._tasks[task]].active)

    def _return(self, task: int) -> Any:
        kind, content = self._arrived.pop(task)
        del self._tasks[task]
        if task == self._wanted:
            self._wanted += 1
        self._give()
        if kind == FAILURE:
            content.reraise()
        return content

    def _receive(self) -> Any:
        """Wait for a message of any worker.

        Raises:
            RuntimeError: the time is over, or a worker has died.
        """
        active = [worker for worker in self._workers if worker.active]
        channels: list[Any] = [worker.channel for worker in active]
        ready = connection.wait([*channels, *(worker.process.sentinel for worker in active)], self._timeout or None)
        if not ready:
            raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")
        for channel in channels:
            if channel in ready:
                try:
                    return transport.receive(channel)
                except (EOFError, OSError):
                    # It died in the middle of a message.
                    continue
        dead = [worker for worker in active if worker.process.sentinel in ready or worker.channel in ready]
        raise self._died([worker.process for worker in dead])

    def _died(self, processes: list[Any]) -> RuntimeError:
        for process in processes:
            process.join(PATIENCE)
        pids = ", ".join(str(process.pid) for process in processes)
        error = RuntimeError(f"DataLoader worker (pid(s) {pids}) exited unexpectedly")
        for process in processes:
            if process.exitcode is not None and process.exitcode < 0:
                name = signal.strsignal(-process.exitcode)
                error.__cause__ = RuntimeError(f"DataLoader worker (pid {process.pid}) is killed by signal: {name}.")
        for worker in self._workers:
            worker.active = worker.active and worker.process not in processes
        return error

    def _shut_down(self) -> None:
        _end(self._workers)
