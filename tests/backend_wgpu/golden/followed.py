"""Checks every kernel of the recorded programs on one adapter: what follows from other sizes is what would be generated.

python followed.py PROFILE      prints the kernels of which that does not hold, and exits with 1 if there are any
"""

from __future__ import annotations

import sys
from typing import Any

from webgpu_torch_backend_wgpu.codegen import generate
from webgpu_torch_backend_wgpu.codegen.resizing import CHOSEN, FORMS, Generator
from webgpu_torch_backend_wgpu.program import Capabilities, Program


def kernels(profile: str) -> dict[Any, Capabilities]:
    """Return the kernels that are generated for the programs."""
    from programs import PROGRAMS
    from record import opened

    index, device = opened(profile)
    generated, found = device.compiler.generate, {}

    def remembering(kernel: Any, capabilities: Capabilities) -> Program:
        found[kernel] = capabilities
        return generated(kernel, capabilities)

    device.compiler.generate = remembering
    device.gpu.strict = False
    for program in PROGRAMS.values():
        program(f"webgpu:{index}")
        device.synchronize()
    return found


def told(program: Program) -> object:
    """Return all that a program says."""
    passes = [(each.name, each.source, each.workgroups, each.bindings, each.pieces) for each in program.passes]
    return passes, program.scratch, program.seconds


def main(profile: str) -> int:
    """Give every kernel three times: it is generated, followed, and filled in."""
    wrong = []
    for kernel, capabilities in kernels(profile).items():
        # Those whose way is chosen take long to follow, and are drawn elsewhere.
        if not isinstance(kernel, FORMS) or isinstance(kernel, CHOSEN):
            continue
        generator, wanted = Generator(), told(generate(kernel, capabilities))
        if any(told(generator.generate(kernel, capabilities)) != wanted for _ in range(3)) or generator.filled != 1:
            wrong.append(kernel)
    for kernel in wrong:
        print(f"{kernel.name} ({kernel.form}): {kernel}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
