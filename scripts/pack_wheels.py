"""Compresses wheels as well as the format allows: the same files, of which browsers and installers fetch fewer bytes.

    python scripts/pack_wheels.py dist/*.whl

Zopfli searches for the shortest stream of deflate, which every reader of ZIP files understands. RECORD holds hashes of what
is in a wheel, not of how it is stored, so it stays as it is.
"""

from __future__ import annotations

import struct
import sys
import zipfile
from pathlib import Path

import zopfli.zlib

#: of headers in a ZIP file: version 2.0; Unix, version 2.0
NEEDED, MADE_BY = 20, 3 << 8 | 20
#: how a name that is not ASCII is marked
UTF8 = 0x800
#: zlib's header and check sum around the stream
HEADER, CHECK = 2, 4


def compressed(data: bytes) -> tuple[int, bytes]:
    """Return the method of storing data that takes the least, and the stored bytes."""
    stream = zopfli.zlib.compress(data)[HEADER:-CHECK]
    return (zipfile.ZIP_DEFLATED, stream) if len(stream) < len(data) else (zipfile.ZIP_STORED, data)


def stamp(moment: tuple[int, int, int, int, int, int]) -> tuple[int, int]:
    """Return a time and date as ZIP files have them."""
    year, month, day, hour, minute, second = moment
    return hour << 11 | minute << 5 | second // 2, (year - 1980) << 9 | month << 5 | day


def packed(wheel: Path) -> bytes:
    """Return a wheel with the same files in the same order, packed well."""
    body, directory = bytearray(), bytearray()
    with zipfile.ZipFile(wheel) as archive:
        entries = archive.infolist()
        for entry in entries:
            data = archive.read(entry)
            name = entry.filename.encode()
            method, stored = compressed(data)
            flags = 0 if name.isascii() else UTF8
            common = struct.pack(
                "<5H3I2H",
                NEEDED,
                flags,
                method,
                *stamp(entry.date_time),
                entry.CRC,
                len(stored),
                len(data),
                len(name),
                0,
            )
            directory += b"PK\1\2" + struct.pack("<H", MADE_BY) + common
            directory += struct.pack("<3H2I", 0, 0, 0, entry.external_attr, len(body)) + name
            body += b"PK\3\4" + common + name + stored
    count = len(entries)
    end = struct.pack("<4H2IH", 0, 0, count, count, len(directory), len(body), 0)
    return bytes(body + directory + b"PK\5\6" + end)


def main() -> None:
    """Pack the wheels that are named, each in its place."""
    for path in map(Path, sys.argv[1:]):
        data = packed(path)
        print(f"{path.name}: {path.stat().st_size} -> {len(data)} bytes", flush=True)
        path.write_bytes(data)


if __name__ == "__main__":
    main()
