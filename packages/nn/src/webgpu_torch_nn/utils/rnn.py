"""Sequences of different lengths: padded to one length, or packed without padding for recurrent networks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.api.functional import pad
from webgpu_torch_core.record.devices import host_device

if TYPE_CHECKING:
    from typing import Self

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence",
    "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip


class PackedSequence_(NamedTuple):
    """The fields of :class:`PackedSequence`."""

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


def _mapped(value: Tensor | None, change: Callable[[Tensor], Tensor]) -> Tensor | None:
    return None if value is None else change(value)


class PackedSequence(PackedSequence_):
    """Sequences of different lengths without padding: all first steps, all second steps, and so on.

    Made by :func:`pack_padded_sequence` and :func:`pack_sequence`. ``data`` [rows, …] holds the steps; ``batch_sizes`` (int64,
    on the CPU) how many sequences have each step, longest first; ``sorted_indices`` and ``unsorted_indices`` how the sequences
    were sorted by length and how to undo that, None where they came sorted.
    """

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> Self:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            if not (isinstance(data, list | tuple) and len(data) == 2):
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        elif batch_sizes.device != host_device():
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually. They "
                "should be instantiated by functions like pack_sequence and pack_padded_sequences in nn.utils.rnn. "
                "https://pytorch.org/docs/stable/nn.html#torch.nn.utils.rnn.pack_sequence"
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Return the sequences on a device or with another element type; the sequence itself where nothing changes."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self

        def move(value: Tensor) -> Tensor:
            return value.to(data.device)

        return type(self)(
            data, self.batch_sizes, _mapped(self.sorted_indices, move), _mapped(self.unsorted_indices, move)
        )

    def cpu(self, *args: Any, **kwargs: Any) -> Self:
        """Return the sequences on the CPU."""
        return self.to(*args, **kwargs).to(device=host_device())

    def double(self) -> Self:
        """Return the sequences as float64."""
        return self.to(dtype=torch.float64)

    def float(self) -> Self:
        """Return the sequences as float32."""
        return self.to(dtype=torch.float32)

    def half(self) -> Self:
        """Return the sequences as float16."""
        return self.to(dtype=torch.float16)

    def long(self) -> Self:
        """Return the sequences as int64."""
        return self.to(dtype=torch.int64)

    def int(self) -> Self:
        """Return the sequences as int32."""
        return self.to(dtype=torch.int32)

    def short(self) -> Self:
        """Return the sequences as int16."""
        return self.to(dtype=torch.int16)

    def char(self) -> Self:
        """Return the sequences as int8."""
        return self.to(dtype=torch.int8)

    def byte(self) -> Self:
        """Return the sequences as uint8."""
        return self.to(dtype=torch.uint8)

    @property
    def is_cuda(self) -> bool:
        """False, as there is no CUDA device."""
        return False

    def is_pinned(self) -> bool:
        """Return False, as no memory is pinned."""
        return False


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Return the permutation that undoes another; None for None."""
    if permutation is None:
        return None
    places = torch.arange(permutation.numel(), dtype=permutation.dtype, device=permutation.device)
    return torch.empty_like(permutation).scatter(0, permutation, places)


def _checked_lengths(lengths: Tensor, batch: int) -> list[int]:
    if lengths.ndim != 1 or lengths.device != host_device():
        raise RuntimeError(
            f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.ndim}D {lengths.device.type} Long tensor"
        )
    values: list[int] = lengths.tolist()
    if len(values) != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(values)} (batch_size={batch})"
        )
    if values[-1] <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if any(before < after for before, after in pairwise(values)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you do not "
            "need ONNX exportability."
        )
    return values


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Return padded sequences packed.

    input [length, n, …], or [n, length, …] if ``batch_first``; lengths (1-d, on the CPU) must not increase unless
    ``enforce_sorted`` is False, which sorts the sequences by length.

    Raises:
        RuntimeError: lengths that increase, are not positive or are not one per sequence; an empty input.
    """
    sizes = torch.as_tensor(lengths, dtype=torch.int64)
    sorted_indices = None
    if not enforce_sorted:
        sizes, order = torch.sort(sizes, descending=True)
        sorted_indices = order.to(input.device)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    if input.numel() == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    steps = input.transpose(0, 1) if batch_first else input
    count = steps.shape[1]
    values = _checked_lengths(sizes, count)
    if values[0] > steps.shape[0]:
        raise RuntimeError(f"Expected lengths of at most {steps.shape[0]}, the padded length, but got {values[0]}")
    running = [sum(length > step for length in values) for step in range(values[0])]
    places = [step * count + number for step, size in enumerate(running) for number in range(size)]
    index = torch.tensor(places, dtype=torch.int64, device=input.device)
    data = steps.reshape(steps.shape[0] * count, *steps.shape[2:]).index_select(0, index)
    return PackedSequence(data, torch.tensor(running, dtype=torch.int64, device=host_device()), sorted_indices, None)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """Return packed sequences padded, [length, n, …] or [n, length, …] if ``batch_first``, and their lengths (on the CPU).

    Raises:
        ValueError: ``total_length`` is less than the longest sequence's.
    """
    running: list[int] = sequence.batch_sizes.tolist()
    length = len(running)
    if total_length is not None:
        if total_length < length:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {length}"
            )
        running += [0] * (total_length - length)
    count, data = running[0], sequence.data
    # One row of padding at the end is what all places without a step read.
    padding = data.detach().new_full((1, *data.shape[1:]), padding_value)
    places, start = [], 0
    for size in running:
        places += [start + number if number < size else data.shape[0] for number in range(count)]
        start += size
    index = torch.tensor(places, dtype=torch.int64, device=data.device)
    padded = torch.cat((data, padding)).index_select(0, index).reshape(len(running), count, *data.shape[1:])
    padded = padded.transpose(0, 1) if batch_first else padded
    lengths = torch.tensor([sum(size > number for size in running) for number in range(count)], device=host_device())
    if sequence.unsorted_indices is None:
        return padded, lengths
    order = sequence.unsorted_indices
    return padded.index_select(0 if batch_first else 1, order), lengths[order.cpu()]


def pad_sequence(
    sequences: Tensor | Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Return sequences [length, …] of different lengths as one tensor [longest, n, …], or [n, longest, …] if ``batch_first``.

    Raises:
        RuntimeError: no sequences, another ``padding_side`` than "left" or "right".
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    sequences = tuple(sequences)
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    for number, each in enumerate(sequences):
        if not isinstance(each, Tensor):
            raise TypeError(f"expected Tensor as element {number} in argument 0, but got {type(each).__name__}")
    longest = max(each.size(0) for each in sequences)
    kind, rest = sequences[0].dtype, sequences[0].shape[1:]
    padded = []
    for each in sequences:
        missing, place = longest - each.shape[0], (each.shape[0], *rest)
        if each.shape != place:
            # Written into its place as PyTorch does it: sizes of 1 repeat.
            each = each.new_empty(place).copy_(each)
        amounts = [0, 0] * (each.ndim - 1) + ([missing, 0] if padding_side == "left" else [0, missing])
        padded.append(pad(each.to(kind), amounts, value=padding_value))
    return torch.stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """Return the sequences that :func:`pad_sequence` joined, of these lengths."""
    sequences = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [sequences[number, :length].clone() for number, length in enumerate(lengths.tolist())]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Return sequences [length, …] packed; longest first unless ``enforce_sorted`` is False."""
    lengths = torch.tensor([each.size(0) for each in sequences], device=host_device())
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Return the sequences that :func:`pack_sequence` packed."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
