"""``torch.Generator`` and the default generator of each device."""

from __future__ import annotations

from typing import Any

from ...ir.dtypes import uint8
from ...random_streams.streams import MersenneTwister
from ...record.context import context
from ...record.devices import canonical_device, device, host_device, on_host
from ..creation.factories import from_bytes


class Generator:
    """A stream of random numbers: PyTorch's mt19937 on the CPU, Threefry (seed and offset) elsewhere."""

    #: replays move it on
    _same_in_recordings = True
    __slots__ = ("_offset", "_seed", "device", "twister")

    def __init__(self, device: Any = "cpu") -> None:
        self.device = canonical_device(device)
        self.twister = MersenneTwister()
        self._seed = self.twister.initial_seed()
        self._offset = 0

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of a seed."""
        if not hasattr(seed, "__index__"):
            raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
        self.twister.manual_seed(int(seed))
        self._seed = self.twister.initial_seed()
        self._offset = 0
        return self

    def seed(self) -> int:
        """Start the stream of a seed from the operating system and return it."""
        number = self.twister.seed()
        self._seed, self._offset = number, 0
        return number

    def initial_seed(self) -> int:
        """Return the seed of the stream."""
        return self._seed

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (str(self.device), bytes(self.get_state().tolist()))

    def clone_state(self) -> Generator:
        """Return another generator that goes on as this one will."""
        copy = Generator(self.device)
        copy.set_state(self.get_state())
        return copy

    def graphsafe_get_state(self) -> Generator:
        """Return a generator in this one's state."""
        return self.clone_state()

    def graphsafe_set_state(self, state: Generator) -> Generator:
        """Take over another generator's state."""
        self.set_state(state.get_state())
        return self

    def next_draw(self) -> tuple[int, int]:
        """Return (seed, offset) of the next draw and move on."""
        offset = self._offset
        self._offset += 1
        if context.capture is not None:
            return context.capture.draw(self, offset)
        return self._seed, offset

    def host_stream(self) -> MersenneTwister:
        """Return the CPU's stream to draw from now; a function that does cannot be replayed."""
        if context.capture is not None:
            context.capture.broken = "it draws random numbers on the host"
        return self.twister

    def get_state(self) -> Any:
        """Return the state as a uint8 tensor."""
        data = (
            self.twister.get_state()
            if on_host(self.device)
            else (self._seed.to_bytes(8, "little") + self._offset.to_bytes(8, "little"))
        )
        return from_bytes(data, (len(data),), uint8, host_device())

    def set_state(self, new_state: Any) -> Generator:
        """Continue from a state :meth:`get_state` returned; returns the generator.

        Raises:
            TypeError: the state is no tensor of uint8.
            RuntimeError: it has another size than this device's states.
        """
        if getattr(getattr(new_state, "dtype", None), "name", None) != "uint8":
            if hasattr(new_state, "dtype"):
                raise TypeError("RNG state must be a torch.ByteTensor")
            raise TypeError(f"expected a torch.ByteTensor, but got {type(new_state).__name__}")
        data = bytes(new_state.tolist())
        if on_host(self.device):
            self.twister.set_state(data)
            self._seed = self.twister.initial_seed()
        elif len(data) == 16:
            self._seed, self._offset = int.from_bytes(data[:8], "little"), int.from_bytes(data[8:], "little")
        else:
            raise RuntimeError(f"RNG state is wrong size: expected 16 bytes for {self.device}, got {len(data)}")
        return self

    def position(self) -> tuple[MersenneTwister, int, int]:
        """Return where the stream stands, for :meth:`move_to`."""
        return self.twister.clone_state(), self._seed, self._offset

    def move_to(self, position: tuple[MersenneTwister, int, int]) -> None:
        """Continue from where the stream stood once."""
        twister, self._seed, self._offset = position
        self.twister = twister.clone_state()


def _restored(place: str, state: bytes) -> Generator:
    generator = Generator(place)
    generator.set_state(from_bytes(state, (len(state),), uint8, host_device()))
    return generator


_defaults: dict[device, Generator] = {}
_seed: list[int | None] = [None]


def default_generator(place: device) -> Generator:
    """Return the generator a device draws from unless told otherwise."""
    found = _defaults.get(place)
    if found is not None:
        return found
    cpu = canonical_device("cpu")
    if place != cpu and place == host_device():
        # The host has one stream, the CPU's, also where the interpreter draws from it.
        found = _defaults[place] = default_generator(cpu)
        return found
    found = _defaults[place] = Generator(place)
    if _seed[0] is not None:
        found.manual_seed(_seed[0])
    return found


def manual_seed(seed: int) -> Generator:
    """Start every device's stream from a seed and return the CPU's generator."""
    _seed[0] = int(seed)
    for each in _defaults.values():
        each.manual_seed(seed)
    return default_generator(canonical_device("cpu"))


def seed() -> int:
    """Start every device's stream from a random seed and return it."""
    number = default_generator(canonical_device("cpu")).seed()
    manual_seed(number)
    return number


def initial_seed() -> int:
    """Return the seed of the CPU's stream."""
    return default_generator(canonical_device("cpu")).initial_seed()


def get_rng_state() -> Any:
    """Return the state of the CPU's stream."""
    return default_generator(canonical_device("cpu")).get_state()


def set_rng_state(new_state: Any) -> None:
    """Continue the CPU's stream from a state."""
    default_generator(canonical_device("cpu")).set_state(new_state)


class fork_rng:
    """A context manager after which every device's stream goes on as if nothing had been drawn inside.

    ``enabled=False`` makes it do nothing. ``devices`` and ``device_type`` are accepted: all devices' streams are kept anyway.
    """

    def __init__(
        self, devices: Any = None, enabled: bool = True, _caller: str = "fork_rng", _devices_kw: str = "devices",
        device_type: str = "webgpu",
    ) -> None:  # fmt: skip
        self._enabled = enabled
        self._states: list[tuple[device, Any]] = []

    def __enter__(self) -> None:
        if self._enabled:
            default_generator(canonical_device("cpu"))
            self._states = [(place, each.get_state()) for place, each in _defaults.items()]

    def __exit__(self, *_: object) -> None:
        for place, state in self._states:
            default_generator(place).set_state(state)
        self._states = []
