"""What runs in a worker process of a loader: fetch batches on the host and send them back.

A worker never touches the GPU: a process made by ``fork`` shares its parent's connection to the driver, which must not
be used from two processes. Batches travel as bytes through a pipe.
"""

from __future__ import annotations

import gc
import multiprocessing
import random
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing import connection
from queue import SimpleQueue
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core.record.devices import host_device

from webgpu_torch_nn.utils.data import transport
from webgpu_torch_nn.utils.data.dataset import IterableDataset
from webgpu_torch_nn.utils.data.fetching import Fetcher, make_fetcher

# The kinds of messages: a task to do, the next pass over the data begins, a batch, an exception, a stream's end.
TASK, RESUME, BATCH, FAILURE, END = range(5)


@dataclass(frozen=True)
class WorkerInfo:
    """What :func:`get_worker_info` tells.

    Attributes:
        id: which worker this is, from 0.
        num_workers: how many there are.
        seed: what this worker's random streams started from.
        dataset: the copy of the data set in this process.
        rng: None: a worker process has its own default generators.
        worker_method: "multiprocessing".
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: Any = None
    worker_method: str | None = "multiprocessing"


_information: list[WorkerInfo | None] = [None]


def get_worker_info() -> WorkerInfo | None:
    """Return what this worker of a :class:`DataLoader` is, or None outside of workers."""
    return _information[0]


@dataclass(frozen=True)
class Job:
    """All that a worker needs to know."""

    dataset: Any
    joins: bool
    collate_fn: Callable[[Any], Any]
    drop_last: bool
    base_seed: int
    init_fn: Callable[[int], Any] | None
    worker: int
    num_workers: int

    def numbered(self, worker: int) -> Job:
        """Return the job of one worker."""
        return replace(self, worker=worker)

    def fetcher(self) -> Fetcher:
        """Return what fetches batches, at a stream's beginning."""
        return make_fetcher(self.dataset, self.joins, self.collate_fn, self.drop_last)


class Failure:
    """An exception with its traceback as text, to be raised again in another process."""

    def __init__(self, error: BaseException, where: str) -> None:
        self.kind: Any = type(error)
        self.text = "".join(traceback.format_exception(error))
        self.where = where

    def reraise(self) -> None:
        """Raise an exception of the same type, or a RuntimeError if that type needs other arguments."""
        message: Any = f"Caught {self.kind.__name__} {self.where}.\nOriginal {self.text}"
        if self.kind is KeyError:
            message = _Verbatim(message)
        try:
            error = self.kind(message)
        except Exception:
            raise RuntimeError(str(message)) from None
        raise error


class _Verbatim(str):
    """Text that KeyError shows with its line breaks."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class _Outbox:
    """Sends messages from a thread, so that the next batch is fetched while the last one waits in the pipe."""

    def __init__(self, channel: Any, where: str) -> None:
        self._messages: SimpleQueue[Any] = SimpleQueue()
        self._where = where
        threading.Thread(target=self._send, args=(channel,), daemon=True).start()

    def put(self, kind: int, number: int, content: Any = None) -> None:
        """Pickle a message now, where an error can still be reported, and send it later."""
        try:
            message = transport.dump((kind, number, content))
        except Exception as error:
            failure = Failure(error, self._where)
            if kind == FAILURE:
                # The exception's type itself does not pickle.
                failure.kind, failure.text = RuntimeError, content.text
            message = transport.dump((FAILURE, number, failure))
        self._messages.put(message)

    def _send(self, channel: Any) -> None:
        while True:
            try:
                transport.send(channel, self._messages.get())
            except OSError:
                # The parent is gone, or wants no more.
                return


def _next_message(channel: Any) -> Any:
    """Return the parent's next message; None if there will be none."""
    parent = multiprocessing.parent_process()
    watched = [channel] if parent is None else [channel, parent.sentinel]
    try:
        return channel.recv() if channel in connection.wait(watched) else None
    except (EOFError, OSError):
        return None


def _seed(job: Job) -> int:
    """Start this process's random streams as PyTorch's workers do; return the seed."""
    seed = job.base_seed + job.worker
    random.seed(seed)
    torch.set_default_device(host_device())
    torch.manual_seed(seed)
    # The CPU backend brings NumPy; where neither is loaded, nobody draws from it.
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        words = [job.worker, job.base_seed & 0xFFFFFFFF, job.base_seed >> 32, 0]
        numpy.random.seed(numpy.random.SeedSequence(words).generate_state(4))
    return seed


def work(channel: Any, inherited: list[Any], job: Job) -> None:
    """Answer tasks that come through a channel until the parent says None or is gone."""
    # What was inherited must not be finalized here: it may belong to the GPU.
    gc.freeze()
    for each in inherited:
        each.close()
    where = f"in DataLoader worker process {job.worker}"
    outbox = _Outbox(channel, where)
    fetch: Fetcher | None = None
    broken: Failure | None = None
    try:
        try:
            _information[0] = WorkerInfo(job.worker, job.num_workers, _seed(job), job.dataset)
            if job.init_fn is not None:
                job.init_fn(job.worker)
            fetch = job.fetcher()
        except Exception as error:
            broken = Failure(error, where)
        ended = False
        while (message := _next_message(channel)) is not None:
            kind, number, index = message
            try:
                if kind == RESUME:
                    ended = False
                    fetch = job.fetcher() if broken is None else None
                    outbox.put(RESUME, number)
                elif not ended:
                    if fetch is None:
                        outbox.put(FAILURE, number, broken)
                    else:
                        outbox.put(BATCH, number, fetch(index))
            except Exception as error:
                if isinstance(error, StopIteration) and isinstance(job.dataset, IterableDataset):
                    ended = True
                    outbox.put(END, number)
                else:
                    outbox.put(FAILURE, number, Failure(error, where))
    except KeyboardInterrupt:
        # The parent got it too and tells.
        pass
