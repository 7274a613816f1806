"""The kernels that a set of programs produces on several adapters, kept to be compared with.

    python tests/backend_wgpu/golden/record.py            print what differs from the record
    python tests/backend_wgpu/golden/record.py --write    make the record anew

A change that claims to leave every kernel as it is proves it by the first; one that changes them shows there how.
``index.txt`` names each program's kernels in order, ``sources.xz`` holds the WGSL, each text once.
"""

from __future__ import annotations

import difflib
import hashlib
import lzma
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from profiles import PROFILES
from webgpu_torch_backend_wgpu.codegen import generate
from webgpu_torch_backend_wgpu.limits import maximum_bindings
from webgpu_torch_backend_wgpu.program import Capabilities, Pass
from webgpu_torch_core.backend import Backend, Device, Plan, Step
from webgpu_torch_core.dtypes import ALL_DTYPES, complex64, float64

FOLDER = Path(__file__).parent
INDEX, SOURCES = FOLDER / "index.txt", FOLDER / "sources.xz"
_SEPARATOR = "\n//// "


class RecordingDevice(Device):
    """Notes the kernels it is given, computes nothing and reads zeros."""

    asynchronous = True

    def __init__(self, index: int, capabilities: Capabilities) -> None:
        self.name = f"webgpu:{index}"
        self.dtypes = frozenset(ALL_DTYPES) - {float64, complex64}
        self.capabilities = capabilities
        self.maximum_bindings = maximum_bindings(capabilities)
        #: every kernel once, in the order of their first run
        self.kernels: dict[Any, None] = {}

    def allocate(self, nbytes: int) -> Any:
        return object()

    def write(self, buffer: Any, data: memoryview) -> None:
        pass

    def read(self, buffer: Any, nbytes: int) -> bytearray:
        return bytearray(nbytes)

    def run(self, plan: Plan, externals: Sequence[Any], parameters: Sequence[float | int]) -> None:
        self.kernels.update(dict.fromkeys(each.kernel for each in plan.steps if isinstance(each, Step)))

    def synchronize(self) -> None:
        pass


class RecordingBackend(Backend):
    """One recording device per profile."""

    device_type = "webgpu"

    def device_count(self) -> int:
        return len(PROFILES)

    def open(self, index: int) -> RecordingDevice:
        return RecordingDevice(index, list(PROFILES.values())[index])


def kernels(profile: str) -> Iterator[tuple[str, list[Any]]]:
    """Return (program, its kernels) for a profile. Takes the place of the process's WebGPU backend."""
    from programs import PROGRAMS
    from webgpu_torch_core.plugins import registry

    registry.load()
    if not isinstance(registry.backends.get("webgpu"), RecordingBackend):
        registry.backends["webgpu"] = RecordingBackend()
    index = list(PROFILES).index(profile)
    device = registry.device("webgpu", index)
    assert isinstance(device, RecordingDevice)
    for name, program in PROGRAMS.items():
        device.kernels.clear()
        program(f"webgpu:{index}")
        yield name, list(device.kernels)


def described(entry: Pass, scratch: tuple[int, ...]) -> str:
    """Return one line for a pass: the hash of its text, its workgroups, bindings, scratch and name."""
    bindings = ",".join(
        f"{each.kind}{each.index}{'w' if each.writes else 'r'}{each.part or ''}" for each in entry.bindings
    )
    return f"{digest(entry.source)} {'x'.join(map(str, entry.workgroups))} {bindings} {list(scratch)} {entry.name}"


def digest(source: str) -> str:
    """Return the short hash by which the index names a text."""
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def recorded() -> tuple[list[str], dict[str, str]]:
    """Return the lines of the index and the texts by hash, as generated now."""
    lines: list[str] = []
    sources: dict[str, str] = {}
    for profile, capabilities in PROFILES.items():
        for program, found in kernels(profile):
            lines.append(f"# {profile} {program}")
            for kernel in found:
                made = generate(kernel, capabilities)
                for entry in made.passes:
                    lines.append(described(entry, made.scratch))
                    sources[digest(entry.source)] = entry.source
    return lines, sources


def kept() -> tuple[list[str], dict[str, str]]:
    """Return the lines of the index and the texts by hash, as recorded."""
    texts = lzma.decompress(SOURCES.read_bytes()).decode().split(_SEPARATOR)[1:]
    return INDEX.read_text().splitlines(), {digest(text): text for text in texts}


def write(lines: list[str], sources: dict[str, str]) -> None:
    """Make these the record."""
    INDEX.write_text("\n".join(lines) + "\n")
    # Similar texts side by side compress well.
    text = "".join(_SEPARATOR + each for each in sorted(sources.values()))
    SOURCES.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


def differences(
    old: tuple[list[str], dict[str, str]], new: tuple[list[str], dict[str, str]], context: int = 3
) -> Iterator[str]:
    """Return how two records differ: changed lines of the index, then each changed text once."""
    shown: set[tuple[str, str]] = set()
    matcher = difflib.SequenceMatcher(None, old[0], new[0], autojunk=False)
    for kind, first, last, begin, end in matcher.get_opcodes():
        if kind == "equal":
            continue
        before, after = old[0][first:last], new[0][begin:end]
        yield from (f"- {line}" for line in before)
        yield from (f"+ {line}" for line in after)
        for one, other in zip(before, after, strict=False):
            pair = one.split()[0], other.split()[0]
            if pair[0] == pair[1] or pair in shown or "#" in pair:
                continue
            shown.add(pair)
            texts = old[1].get(pair[0], "").splitlines(), new[1].get(pair[1], "").splitlines()
            yield from difflib.unified_diff(*texts, *pair, lineterm="", n=context)


def main() -> int:
    """Print the differences, or write the record anew."""
    found = recorded()
    if "--write" in sys.argv[1:]:
        write(*found)
        print(f"{len(found[0])} lines, {len(found[1])} texts, {SOURCES.stat().st_size} bytes compressed")
        return 0
    lines = list(differences(kept(), found))
    print("\n".join(lines) or "every kernel is as recorded")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
