"""What Dawn and a driver made of kernels' text, kept for the next process."""

from __future__ import annotations

import hashlib

from webgpu_torch_core.files.kept import KeptFiles

from .reports import Reports

_CACHE_DESCRIPTOR = 0x50007
_LOAD = "size_t(size_t, void const *, size_t, void *, void *, void *)"
_STORE = "void(size_t, void const *, size_t, void const *, void *, void *)"

files = KeptFiles("dawn")


class Blobs:
    """Gives Dawn what it kept: it asks for the size first, in whichever thread compiles.

    Args:
        reports: of the device; keeps an interrupt that hits a callback.
        identity: of the library; what another one made is not read.
    """

    def __init__(self, reports: Reports, identity: str) -> None:
        self._ffi = reports.ffi
        self._identity = identity.encode()
        # By Dawn's own keys: what it asks for the second time.
        self._found: dict[bytes, bytes] = {}
        self._load = reports.callback(_LOAD, self._loaded)
        self._store = reports.callback(_STORE, self._stored)

    def descriptor(self, following: object) -> object:
        """Return what a device's descriptor is chained to, which is chained to what follows."""
        made = self._ffi.new("WGPUDawnCacheDeviceDescriptor *")
        made.chain.sType, made.chain.next = _CACHE_DESCRIPTOR, following
        made.load.callback = self._ffi.cast("void *", self._load)
        made.store.callback = self._ffi.cast("void *", self._store)
        return made

    def _name(self, key: bytes) -> str:
        return hashlib.sha256(self._identity + key).hexdigest() + ".blob"

    def _loaded(self, key_size: int, key: object, size: int, into: object, *_: object) -> int:
        asked = bytes(self._ffi.buffer(key, key_size))
        found = self._found.pop(asked, None) or files.read(self._name(asked))
        if found is None:
            return 0
        if size < len(found):
            self._found[asked] = found
        else:
            self._ffi.memmove(into, found, len(found))
        return len(found)

    def _stored(self, key_size: int, key: object, size: int, value: object, *_: object) -> None:
        data = bytes(self._ffi.buffer(value, size))
        name = self._name(bytes(self._ffi.buffer(key, key_size)))
        files.write_later(lambda: (name, data))
