"""The kernels that a set of programs produces on several adapters, kept to be compared with.

    python tests/backend_wgpu/golden/record.py                print what differs from the record
    python tests/backend_wgpu/golden/record.py PROFILE ...    the same for these adapters only
    python tests/backend_wgpu/golden/record.py --write        make the record anew

A change that claims to leave every kernel as it is proves it by the first; one that changes them shows there how.
``index.txt`` names each program's kernels in order, ``sources.xz`` holds the WGSL, each text once.
"""

from __future__ import annotations

import difflib
import hashlib
import lzma
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from profiles import PROFILES
from webgpu_torch_backend_wgpu.backend import WgpuBackend
from webgpu_torch_backend_wgpu.gpu.checking import CheckingRuntime
from webgpu_torch_backend_wgpu.program import Pass, Program
from webgpu_torch_core.backend.interface import Launch, Plan, Step
from webgpu_torch_core.record.runs import Run
from webgpu_torch_core.record.tape import Value

FOLDER = Path(__file__).parent
INDEX, SOURCES = FOLDER / "index.txt", FOLDER / "sources.xz"
_SEPARATOR = "\n//// "


def backend() -> WgpuBackend:
    """Return the backend over checking devices of all profiles, in the place of the process's own."""
    from webgpu_torch_core.backend.plugins import registry

    registry.load()
    if not isinstance(registry.backends["webgpu"], WgpuBackend) or not _BACKENDS:
        _BACKENDS.append(WgpuBackend(CheckingRuntime(list(PROFILES.values()))))
        registry.backends["webgpu"] = _BACKENDS[0]
    return _BACKENDS[0]


_BACKENDS: list[WgpuBackend] = []


def opened(profile: str) -> tuple[int, Any]:
    """Return the number of a profile and its device, for whose limits networks are sized."""
    from programs import CONFIG
    from webgpu_torch_core.backend.plugins import registry

    # Four storage buffers are too few to scatter into a table of 50257 rows that is bound in parts.
    few = PROFILES[profile].limits.max_storage_buffers_per_shader_stage < 8
    CONFIG["vocab_size"] = 32000 if few else 50257
    index = list(PROFILES).index(profile)
    backend()
    return index, registry.device("webgpu", index)


def programs(profile: str) -> Iterator[tuple[str, list[Program], list[str]]]:
    """Return (program, the kernels it runs, the rules they break) for every program on the adapter of a profile."""
    from programs import PROGRAMS

    index, device = opened(profile)
    generate, advance, single, broken = device.compiler.generate, device.advance, device.single, device.gpu.broken
    generated: dict[Any, Program] = {}
    kernels: dict[Any, None] = {}

    def remembering(kernel: Any, capabilities: Any) -> Program:
        generated[kernel] = generate(kernel, capabilities)
        return generated[kernel]

    def note(plan: Plan) -> None:
        kernels.update(dict.fromkeys(each.kernel for each in plan.steps if isinstance(each, Step)))

    def noting(run: Run) -> None:
        note(run.plan)
        advance(run)

    def noting_launches(plan: Plan, sizes: Sequence[int]) -> Launch | None:
        launch = single(plan, sizes)

        def noted(values: Sequence[Value], parameters: Sequence[float | int]) -> list[Any]:
            note(plan)
            return launch(values, parameters)

        return None if launch is None else noted

    device.compiler.generate, device.advance, device.single = remembering, noting, noting_launches
    device.gpu.strict = False
    for name, program in PROGRAMS.items():
        kernels.clear()
        broken.clear()
        program(f"webgpu:{index}")
        device.synchronize()
        yield name, [generated[each] for each in kernels], list(broken)


def described(entry: Pass, scratch: tuple[int, ...]) -> str:
    """Return one line for a pass: the hash of its text, its workgroups, bindings, scratch and name."""
    bindings = ",".join(
        f"{each.kind}{each.index}{'w' if each.writes else 'r'}{each.part or ''}" for each in entry.bindings
    )
    return f"{digest(entry.source)} {'x'.join(map(str, entry.workgroups))} {bindings} {list(scratch)} {entry.name}"


def digest(source: str) -> str:
    """Return the short hash by which the index names a text."""
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def recorded(profiles: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the lines of the index and the texts by hash for the adapters of some profiles, as generated now."""
    lines: list[str] = []
    sources: dict[str, str] = {}
    for profile in profiles:
        for program, found, broken in programs(profile):
            lines.append(f"# {profile} {program}")
            lines += [f"broken: {each}" for each in broken]
            for made in found:
                for entry in made.passes:
                    lines.append(described(entry, made.scratch))
                    sources[digest(entry.source)] = entry.source
    return lines, sources


def kept(profiles: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the lines of the index for the adapters of some profiles and all texts by hash, as recorded."""
    texts = lzma.decompress(SOURCES.read_bytes()).decode().split(_SEPARATOR)[1:]
    lines, profile = [], ""
    for line in INDEX.read_text().splitlines():
        profile = line.split()[1] if line.startswith("# ") else profile
        if profile in profiles:
            lines.append(line)
    return lines, {digest(text): text for text in texts}


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
    # What other processes kept would not be generated again, and what this one makes is not to be kept: a thread writes it, later.
    os.environ["WEBGPU_TORCH_CACHE"] = os.devnull
    if sys.argv[1:] == ["--write"]:
        found = recorded(list(PROFILES))
        write(*found)
        print(f"{len(found[0])} lines, {len(found[1])} texts, {SOURCES.stat().st_size} bytes compressed")
        return 0
    profiles = sys.argv[1:] or list(PROFILES)
    unknown = [each for each in profiles if each not in PROFILES]
    if unknown:
        sys.exit(f"there is no profile {unknown[0]!r}; there are {', '.join(PROFILES)}")
    lines = list(differences(kept(profiles), recorded(profiles)))
    print("\n".join(lines) or "every kernel is as recorded")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
