"""Compiles the encoder, a small library of C++ that runs recorded commands on a thread of its own, into a wheel that asks for it.

    WEBGPU_TORCH_ENCODER=1 python -m build --wheel     a wheel of this platform, with the encoder
    python -m build --wheel                            a wheel of all platforms, without
    python hatch_build.py                              compiles it beside the sources, for who works on them

The compiler is the command in CXX, or c++.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = HERE / "native" / "encoder.cpp"
FOLDER = "webgpu_torch_backend_wgpu/gpu"
NAME = {"darwin": "libencoder.dylib"}.get(sys.platform, "libencoder.so")
#: libraries of C++ are taken in, so that it loads where there is none of them
OPTIONS = ["-O2", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread"]
STATIC = [] if sys.platform == "darwin" else ["-static-libstdc++", "-static-libgcc", "-s"]


def compile_encoder(target: Path) -> None:
    """Compile the encoder.

    Raises:
        RuntimeError: there is no compiler, or it refuses.
    """
    command = [*shlex.split(os.environ.get("CXX", "c++")), *OPTIONS, *STATIC, "-o", str(target), str(SOURCE)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise RuntimeError(f"the encoder needs a compiler of C++17, in CXX or named c++: {error}") from error
    if done.returncode:
        raise RuntimeError(f"{shlex.join(command)} ended with {done.returncode}:\n{done.stderr}")


def main() -> int:
    """Compile the encoder beside the sources, as a whole: a process may have loaded the one that is there."""
    target = HERE / "src" / FOLDER / NAME
    made = target.with_suffix(".new")
    try:
        compile_encoder(made)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    made.replace(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
else:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface

    class EncoderHook(BuildHookInterface):
        """Puts the encoder into a wheel of this platform."""

        def initialize(self, version: str, build_data: dict[str, object]) -> None:
            """Compile it where it is asked for."""
            if os.environ.get("WEBGPU_TORCH_ENCODER", "0") == "0" or version == "editable":
                return
            folder = Path(tempfile.mkdtemp())
            compile_encoder(folder / NAME)
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform}"
            build_data["force_include"] = {str(folder / NAME): f"{FOLDER}/{NAME}"}
