"""The zip archives of ``torch.save``: uncompressed entries, one after another, in one folder."""

from __future__ import annotations

import io
import struct
import zipfile
from itertools import pairwise

from webgpu_torch_core.files.host_tensors import MemoryFile, brief
from webgpu_torch_core.files.pickle_machine import ArchiveError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from zipfile import ZipInfo

#: what PyTorch says first of damage; programs look for it
_FAILED = "PytorchStreamReader failed reading zip archive"


def read_directory(data: memoryview, label: str) -> dict[str, memoryview]:
    """Return the bytes of every entry of a zip archive, as views of ``data``.

    Raises:
        UnpicklingError: the archive is damaged, or is none of ``torch.save``; a RuntimeError, too.
    """
    # What zipfile lets through for records that contradict each other.
    damage = (
        zipfile.BadZipFile, struct.error, ValueError, NotImplementedError, EOFError, OSError, LookupError, OverflowError,
    )  # fmt: skip
    entries: dict[str, memoryview] = {}
    try:
        with zipfile.ZipFile(io.BufferedReader(MemoryFile(data))) as archive:
            listing = archive.infolist()
    except damage as error:
        raise ArchiveError(f"{label}: {_FAILED}: {error}") from None
    spans: list[tuple[int, int, str]] = []
    for info in listing:
        if info.filename in entries:
            raise ArchiveError(f"{label}: entry {brief(info.filename)} appears twice in the archive")
        if info.filename.partition("/")[0] != listing[0].filename.partition("/")[0]:
            raise ArchiveError(f"{label}: file in archive is not in a subdirectory: {brief(info.filename)}")
        first, last = _entry_span(data, info, label)
        entries[info.filename] = data[first:last]
        spans.append((info.header_offset, last, info.filename))
    _check_apart(spans, label)
    return entries


def _check_apart(spans: list[tuple[int, int, str]], label: str) -> None:
    """Raise unless entries, header and data, lie one after another: many entries over the same bytes would multiply them."""
    spans.sort()
    for (_, end, before), (start, _, name) in pairwise(spans):
        if start < end:
            raise ArchiveError(
                f"{label}: {_FAILED}: entry {brief(name)} at byte {start} overlaps entry {brief(before)}, which "
                f"ends at {end}"
            )


def _entry_span(data: memoryview, info: ZipInfo, label: str) -> tuple[int, int]:
    """Return where the bytes of an uncompressed entry are, found through its local header."""
    name, start = brief(info.filename), info.header_offset
    if info.compress_type != 0 or info.flag_bits & 1:
        raise ArchiveError(f"{label}: entry {name} is compressed or encrypted, which torch.save never does")
    header = bytes(data[start : start + 30]) if start >= 0 else b""
    if len(header) != 30 or header[:4] != b"PK\x03\x04":
        raise ArchiveError(f"{label}: {_FAILED}: entry {name} has no header at byte {start}")
    start += 30 + int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
    size = info.file_size
    if info.compress_size != size:
        raise ArchiveError(f"{label}: {_FAILED}: entry {name} of {size} bytes takes {info.compress_size}")
    if start + size > len(data):
        raise ArchiveError(f"{label}: truncated: entry {name} needs {size} bytes from byte {start} of {len(data)}")
    return start, start + size
