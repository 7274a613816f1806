"""The command line: ``webgpu-torch info``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    parser = argparse.ArgumentParser(prog="webgpu-torch", description="PyTorch's API on any GPU that speaks WebGPU.")
    commands = parser.add_subparsers(dest="command", required=True)
    info = commands.add_parser("info", help="list backends, devices, limits, versions and the origin of each plugin")
    info.add_argument("--numerics", action="store_true", help="measure the accuracy of the adapter's scalar functions")
    options = parser.parse_args(arguments)
    from webgpu_torch_core import plugins

    print(plugins.describe())
    if options.numerics:
        backend = plugins.registry.backend("webgpu")
        print(backend.numerics())  # type: ignore[attr-defined]
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
