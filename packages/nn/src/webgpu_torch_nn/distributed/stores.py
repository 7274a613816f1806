"""Key-value stores that processes meet at, as ``torch.distributed`` has them; keys are texts, values bytes."""

from __future__ import annotations

import datetime
import io
import os
import pickle
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

try:
    import fcntl
except ImportError:  # Windows: one process at a time, then
    fcntl = None  # type: ignore[assignment]

TIMEOUT = datetime.timedelta(seconds=300)


class DistStoreError(RuntimeError):
    """A key that somebody waited for did not come."""


class Store:
    """What stores have in common; a store of its own kind overrides :meth:`_content`."""

    def __init__(self) -> None:
        self.timeout = TIMEOUT

    @contextmanager
    def _content(self) -> Iterator[dict[str, bytes]]:
        """Give the content, to read and to change; nobody else does meanwhile."""
        raise NotImplementedError("a store must say where its content is")
        yield {}

    def set(self, key: str, value: str | bytes) -> None:
        """Store a value under a key."""
        with self._content() as content:
            content[key] = _as_bytes(value)

    def get(self, key: str) -> bytes:
        """Return the value under a key, waiting for it.

        Raises:
            DistStoreError: it did not come within the store's timeout.
        """
        self.wait([key])
        with self._content() as content:
            return content[key]

    def add(self, key: str, amount: int) -> int:
        """Add to the number under a key, 0 where there is none, and return the sum."""
        with self._content() as content:
            total = int(content.get(key, b"0")) + amount
            content[key] = str(total).encode()
        return total

    def append(self, key: str, value: str | bytes) -> None:
        """Append to the value under a key, empty where there is none."""
        with self._content() as content:
            content[key] = content.get(key, b"") + _as_bytes(value)

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        """Store a value where the present one is the expected one, or nothing is stored and nothing expected; return what is there then."""
        expected, desired = _as_bytes(expected_value), _as_bytes(desired_value)
        with self._content() as content:
            present = content.get(key)
            if present == expected or (present is None and not expected):
                content[key] = desired
            return content.get(key, expected)

    def check(self, keys: Sequence[str]) -> bool:
        """Return whether all keys have values."""
        with self._content() as content:
            return all(each in content for each in keys)

    def delete_key(self, key: str) -> bool:
        """Remove a key; return whether it was there."""
        with self._content() as content:
            return content.pop(key, None) is not None

    def num_keys(self) -> int:
        """Return how many keys there are."""
        with self._content() as content:
            return len(content)

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Return the values under keys, waiting for them."""
        return [self.get(each) for each in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Store values under keys."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        """Return True: there are ``append``, ``multi_get`` and ``multi_set``."""
        return True

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        """Set how long :meth:`get` and :meth:`wait` wait."""
        self.timeout = timeout

    def wait(self, keys: Sequence[str], timeout: datetime.timedelta | None = None) -> None:
        """Wait until all keys have values.

        Raises:
            DistStoreError: they did not come in time.
        """
        limit = self.timeout if timeout is None else timeout
        end = time.monotonic() + limit.total_seconds()
        while not self.check(keys):
            if time.monotonic() >= end:
                milliseconds = int(limit.total_seconds() * 1000)
                raise DistStoreError(
                    f"wait timeout after {milliseconds}ms, keys: {', '.join(f'/{each}' for each in keys)}"
                )
            time.sleep(0.005)


def _as_bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


class HashStore(Store):
    """A store in this process's memory, for its threads."""

    def __init__(self) -> None:
        super().__init__()
        self._lock, self._values = threading.RLock(), dict[str, bytes]()

    @contextmanager
    def _content(self) -> Iterator[dict[str, bytes]]:
        with self._lock:
            yield self._values


class TCPStore(HashStore):
    """The store of a host and port; here one of this process's memory, the same for all who name the port.

    Args:
        host_name, port: its address; port 0 is a store of its own.
        world_size: taken and ignored.
        is_master: whether it is made here, not looked up.
        timeout: how long ``get`` and ``wait`` wait.

    Raises:
        NotImplementedError: it is another process's.
    """

    _known: dict[int, TCPStore] = {}

    def __init__(
        self, host_name: str, port: int, world_size: int | None = None, is_master: bool = False,
        timeout: datetime.timedelta = TIMEOUT, **options: object,
    ) -> None:  # fmt: skip
        super().__init__()
        del world_size, options
        if not is_master and port not in self._known:
            raise NotImplementedError(
                f"TCPStore({host_name!r}, {port}): no store of this process has that port, and stores of other processes are "
                "not reached. Use a FileStore, or let MPI start the processes."
            )
        self.host, self.port, self.timeout = host_name, port, timeout
        if is_master and port:
            self._known[port] = self
        else:
            shared = self._known.get(port, self)
            self._lock, self._values = shared._lock, shared._values


class FileStore(Store):
    """A store in a file, which processes of one machine share.

    Args:
        file_name: the file, made where there is none.
        world_size: taken and ignored.
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        del world_size
        self.path = file_name

    @contextmanager
    def _content(self) -> Iterator[dict[str, bytes]]:
        with _locked(self.path) as file:
            data = file.read()
            content: dict[str, bytes] = _read_content(data) if data else {}
            yield content
            written = pickle.dumps(content)
            if written != data:
                file.seek(0)
                file.write(written)
                file.truncate()


def _read_content(data: bytes) -> dict[str, bytes]:
    # Nothing but a dictionary of texts and bytes, which name no class.
    class Plain(pickle.Unpickler):
        def find_class(self, module_name: str, global_name: str, /) -> object:
            raise pickle.UnpicklingError(f"a store's file has no {module_name}.{global_name}")

    return Plain(io.BytesIO(data)).load()


@contextmanager
def _locked(path: str) -> Iterator[io.BufferedRandom]:
    """Open a file, made where there is none, while no other process has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "r+b") as file:
        if fcntl is not None:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX)
        yield file


class PrefixStore(Store):
    """A part of another store: all keys begin with a prefix and a slash.

    Args:
        prefix: what they begin with.
        store: the store.
    """

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__()
        self.prefix, self.underlying_store = prefix, store
        self.timeout = store.timeout

    @contextmanager
    def _content(self) -> Iterator[dict[str, bytes]]:
        start = f"{self.prefix}/"
        with self.underlying_store._content() as content:
            own = {key.removeprefix(start): value for key, value in content.items() if key.startswith(start)}
            yield own
            for key in [key for key in content if key.startswith(start)]:
                del content[key]
            content.update({start + key: value for key, value in own.items()})
