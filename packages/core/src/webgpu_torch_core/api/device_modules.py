"""What ``torch.cuda`` is for CUDA devices, for those of any backend."""

from __future__ import annotations

from collections import OrderedDict
from types import ModuleType

from ..backend.interface import Device as OpenedDevice
from ..backend.plugins import registry
from ..operations.random.generator import default_generator
from ..record.devices import canonical_device, engine_for, engines, is_lost, lost_devices
from ..record.devices import device as Device
from ..record.devices import synchronize as synchronize_device
from ..tensors.tensor import Tensor


class DeviceModule(ModuleType):
    """Functions about the devices of one type; a device is named by its index, as ``"type:index"``, or not: the first."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"torch.{kind}", f"Devices of type ``{kind}``, as ``torch.cuda`` speaks of CUDA ones.")
        self._kind = kind

    def _place(self, device: Device | int | str | None) -> Device:
        if device is None:
            return canonical_device(self._kind)
        return canonical_device(f"{self._kind}:{device}" if isinstance(device, int) else device)

    def _opened(self, device: Device | int | str | None) -> OpenedDevice:
        return engine_for(self._place(device)).device

    def device_count(self) -> int:
        """Return how many devices there are."""
        return registry.device_count(self._kind)

    def is_available(self) -> bool:
        """Return whether there is a device and it works: False after one was lost, until it is used again or reset."""
        return self.device_count() > 0 and not lost_devices(self._kind)

    def reset(self) -> None:
        """Open devices that were lost again; tensors that lived there stay lost."""
        for each in lost_devices(self._kind):
            engine_for(each)

    async def open(self) -> None:
        """Open the first device, and again where it was lost: before the first tensor, where only coroutines can wait.

        Raises:
            RuntimeError: there is no device, or it cannot be opened.
        """
        place = self._place(None)
        if all(each.device.name != str(place) or is_lost(each) for each in engines()):
            await registry.backend(self._kind).prepare()
            engine_for(place)

    def current_device(self) -> int:
        """Return the index of the device that the type's name without one means."""
        return 0

    def get_device_name(self, device: Device | int | str | None = None) -> str:
        """Return the adapter's name."""
        return self._opened(device).description().get("adapter", "unknown")

    def synchronize(self, device: Device | int | str | None = None) -> None:
        """Run what is pending and wait until it is done; raise what failed."""
        synchronize_device(self._place(device))

    def memory_allocated(self, device: Device | int | str | None = None) -> int:
        """Return the bytes in buffers that are in use."""
        return self._opened(device).memory_allocated()

    def max_memory_allocated(self, device: Device | int | str | None = None) -> int:
        """Return the most bytes that were in use at once."""
        return self._opened(device).max_memory_allocated()

    def memory_reserved(self, device: Device | int | str | None = None) -> int:
        """Return the bytes obtained from the driver."""
        return self._opened(device).memory_reserved()

    def max_memory_reserved(self, device: Device | int | str | None = None) -> int:
        """Return the most bytes that were obtained from the driver at once."""
        return self._opened(device).max_memory_reserved()

    def reset_peak_memory_stats(self, device: Device | int | str | None = None) -> None:
        """Count the most bytes in use, and obtained, anew from now on."""
        self._opened(device).reset_peak_memory_stats()

    def memory_stats(self, device: Device | int | str | None = None) -> OrderedDict[str, int]:
        """Return the bytes in use and obtained, now and at most, and how many buffers are in use, by PyTorch's names for them."""
        opened = self._opened(device)
        return OrderedDict(
            {
                "active.all.current": opened.live_buffers(),
                "allocated_bytes.all.current": opened.memory_allocated(),
                "allocated_bytes.all.peak": opened.max_memory_allocated(),
                "reserved_bytes.all.current": opened.memory_reserved(),
                "reserved_bytes.all.peak": opened.max_memory_reserved(),
            }
        )

    def empty_cache(self) -> None:
        """Give unused buffers back to the driver."""
        for index in range(self.device_count()):
            self._opened(index).empty_cache()

    def manual_seed(self, seed: int) -> None:
        """Start the devices' random streams from a seed."""
        for index in range(self.device_count()):
            default_generator(self._place(index)).manual_seed(seed)

    manual_seed_all = manual_seed

    def get_rng_state(self, device: Device | int | str | None = None) -> Tensor:
        """Return the state of a device's random stream, a tensor of bytes of one dimension on the CPU."""
        return default_generator(self._place(device)).get_state()

    def set_rng_state(self, new_state: Tensor, device: Device | int | str | None = None) -> None:
        """Set the state of a device's random stream to one of :meth:`get_rng_state`, a tensor of bytes of one dimension."""
        default_generator(self._place(device)).set_state(new_state)


_modules: dict[str, DeviceModule] = {}


def device_module(kind: str) -> DeviceModule:
    """Return the functions about the devices of one type; the same object every time."""
    return _modules.setdefault(kind, DeviceModule(kind))
