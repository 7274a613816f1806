"""PyTorch's CPU random streams: the Mersenne Twister, and how many words each distribution takes from it.

Every distribution is split in two: the *words* it consumes (functions ending in ``_words`` here), which must come
from one sequential generator, and the transform of those words (:mod:`webgpu_torch_core.random_streams.distributions`), which
has no order and may as well run on a device.

The generator is MT19937 (Matsumoto and Nishimura, "Mersenne Twister: a 623-dimensionally equidistributed uniform
pseudorandom number generator", 1998). CPython's own generator is the same machine, which gives us words at C speed.
"""

from __future__ import annotations

import os
import struct
from _random import Random
from array import array
from collections.abc import Sequence
from functools import lru_cache

from webgpu_torch_core.ir.dtypes import dtype, float64

DEFAULT_SEED = 67280421310721
"""The seed of a generator that was never seeded, as in PyTorch."""

STATE_BYTES = 5056
"""Bytes of :meth:`MersenneTwister.get_state`."""

_STATE_WORDS = 624
_WORDS_AT_ONCE = 1 << 20
# PyTorch's record: seed, left, seeded, next, 624 words in 64 bits each, two unused doubles around the cached
# double normal, its flag, four bytes of padding, the cached float normal, its flag, three bytes of padding.
_STATE_LAYOUT = struct.Struct(f"<QiiQ{_STATE_WORDS}Qdddi4xfB3x")


def unsigned_seed(seed: int) -> int:
    """Return ``seed`` as the unsigned 64-bit number PyTorch keeps: a negative seed counts down from ``2**64``.

    Raises ValueError unless ``-2**63 <= seed < 2**64``.
    """
    if not -(1 << 63) <= seed < 1 << 64:
        raise ValueError("Overflow when unpacking long long")
    return seed & 0xFFFFFFFFFFFFFFFF


# Programs begin the same few streams over and over, and making a state takes longer than taking some thousand words.
@lru_cache(maxsize=16)
def _first_state(word: int) -> tuple[int, ...]:
    """Return the state of a fresh stream of a 32-bit seed, as CPython's generator takes it."""
    state = [word]
    for index in range(1, _STATE_WORDS):
        word = (1812433253 * (word ^ (word >> 30)) + index) & 0xFFFFFFFF
        state.append(word)
    return (*state, _STATE_WORDS)


class MersenneTwister:
    """PyTorch's CPU generator: the same words, the same cached normal samples, the same saved state."""

    def __init__(self, seed: int = DEFAULT_SEED) -> None:
        self._engine = Random()
        self.next_double_normal_sample: float | None = None
        self.next_float_normal_sample: float | None = None
        self.manual_seed(seed)

    def manual_seed(self, seed: int) -> MersenneTwister:
        """Start the stream of ``seed`` and forget cached normal samples.

        Only the low 32 bits of the seed choose the stream; all 64 are remembered by :meth:`initial_seed`.
        Raises ValueError for a seed outside ``[-2**63, 2**64)``.
        """
        self._seed = unsigned_seed(seed)
        self._engine.setstate(_first_state(self._seed & 0xFFFFFFFF))
        # A fresh stream and one that just used up a block hold the same words, but PyTorch saves them differently.
        self._fresh = True
        self.next_double_normal_sample = None
        self.next_float_normal_sample = None
        return self

    def seed(self) -> int:
        """Seed the stream from the operating system's entropy and return that seed."""
        # 53 bits, so that the seed survives a trip through a double.
        seed = int.from_bytes(os.urandom(8), "little") & ((1 << 53) - 1)
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """Return the seed the stream was last started from."""
        return self._seed

    def words(self, count: int) -> array[int]:
        """Return the next ``count`` 32-bit words as an ``array('I')``."""
        result = array("I")
        while count > 0:
            self._fresh = False
            # The number of bits is a C int.
            part = min(count, _WORDS_AT_ONCE)
            result.frombytes(self._engine.getrandbits(32 * part).to_bytes(4 * part, "little"))
            count -= part
        return result

    def words64(self, count: int) -> array[int]:
        """Return the next ``count`` 64-bit words as an ``array('Q')``; of two 32-bit words the first is the high one."""
        words = self.words(2 * count)
        words[0::2], words[1::2] = words[1::2], words[0::2]
        result = array("Q")
        result.frombytes(words.tobytes())
        return result

    def random(self) -> int:
        """Return the next 32-bit word."""
        self._fresh = False
        return self._engine.getrandbits(32)

    def random64(self) -> int:
        """Return the next 64-bit word, made of two 32-bit words, the high one first."""
        return self.random() << 32 | self.random()

    def position(self) -> tuple[tuple[int, ...], int]:
        """Return the machine's 624 words and how many of them are used up, for another implementation to go on from."""
        *state, used = self._engine.getstate()
        return tuple(state), used

    def move_to(self, state: Sequence[int], used: int) -> None:
        """Go on from where another implementation stands that drew words from :meth:`position`."""
        self._engine.setstate((*state, used))
        self._fresh = False

    def clone_state(self) -> MersenneTwister:
        """Return an independent generator that continues as this one would."""
        copy = MersenneTwister.__new__(MersenneTwister)
        copy._engine = Random()
        copy.set_state(self.get_state())
        return copy

    def get_state(self) -> bytes:
        """Return the 5056 bytes that ``torch.get_rng_state()`` holds for the same stream."""
        *state, position = self._engine.getstate()
        left, following = (1, 0) if self._fresh else (_STATE_WORDS + 1 - position, position)
        double, single = self.next_double_normal_sample, self.next_float_normal_sample
        return _STATE_LAYOUT.pack(
            self._seed, left, 1, following, *state,
            0.0, double or 0.0, 0.0, double is not None,
            single or 0.0, single is not None,
        )  # fmt: skip

    def set_state(self, state: bytes | bytearray | memoryview) -> None:
        """Continue from a saved state, ours or PyTorch's.

        Raises RuntimeError when ``state`` has not 5056 bytes or is not a generator's state.
        """
        size = memoryview(state).nbytes
        if size != STATE_BYTES:
            raise RuntimeError(
                f"Expected a CPUGeneratorImplState of size {STATE_BYTES} but found the input RNG state size to be {size}"
            )
        seed, left, seeded, following, *rest = _STATE_LAYOUT.unpack(state)
        words = rest[:_STATE_WORDS]
        _, double, _, double_valid, single, single_valid = rest[_STATE_WORDS:]
        consistent = left == 1 or left + following == _STATE_WORDS + 1
        if not seeded or not 0 < left <= _STATE_WORDS or following > _STATE_WORDS or not consistent:
            raise RuntimeError(f"Invalid mt19937 state (seeded={seeded}, left={left}, next={following})")
        if max(words) >> 32:
            raise RuntimeError("Invalid mt19937 state (a state word exceeds 32 bits)")
        self._engine.setstate((*words, _STATE_WORDS if left == 1 else following))
        self._seed = seed
        self._fresh = left == 1 and following == 0
        self.next_double_normal_sample = double if double_valid else None
        self.next_float_normal_sample = single if single_valid else None


def uniform_words(generator: MersenneTwister, count: int, element: dtype | None = None) -> array[int]:
    """Return the words of ``count`` uniform draws.

    For ``float64`` an ``array('Q')``, of which a draw uses ``(word & (2**53 - 1)) * 2**-53``; for the other floating
    types an ``array('I')``, of which it uses ``(word & 0xffffff) * 2**-24``.
    """
    return generator.words64(count) if element is float64 else generator.words(count)


def integer_words(generator: MersenneTwister, count: int, span: int) -> array[int]:
    """Return the words of ``count`` draws from ``span`` integers; a draw is ``low + word % span``.

    Spans from ``2**28`` take 64-bit words (``array('Q')``), shorter ones 32-bit words (``array('I')``).
    """
    return generator.words64(count) if span >= 1 << 28 else generator.words(count)


def normal_words(generator: MersenneTwister, count: int, element: dtype) -> array[int]:
    """Return the words of ``count >= 16`` normal draws, 16 to a block, laid out for a Box-Muller transform.

    Block ``b`` fills the elements from ``16 * b``; where ``count`` is no multiple of 16, the last block fills the last
    16 elements, over what the block before it left there. In a block, words 0-7 give the radii and words 8-15 the
    angles; word ``j`` and word ``j + 8`` make elements ``j`` and ``j + 8``. Words are as in :func:`uniform_words`.
    """
    remainder = count % 16
    whole = uniform_words(generator, count - remainder, element)
    if remainder:
        # PyTorch first draws a word for every element (but not for the 16-bit types), then 16 more for the last block.
        if element.itemsize > 2:
            uniform_words(generator, remainder, element)
        whole += uniform_words(generator, 16, element)
    return whole
