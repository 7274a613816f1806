"""Starts the processes of a program, as ``torchrun``: ``python -m webgpu_torch.distributed.run [OPTIONS] SCRIPT [ARGUMENTS]``.

One process runs in this one. Several are started by ``mpiexec``, which comes with an implementation of MPI.
"""

from __future__ import annotations

import argparse
import os
import runpy
import shutil
import subprocess
import sys
import uuid
from collections.abc import Sequence

__all__ = ["main"]


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="torch.distributed.run", description=__doc__)
    parser.add_argument("--nproc-per-node", "--nproc_per_node", default="1", help="how many processes to start")
    parser.add_argument("--nnodes", default="1", help="how many machines there are: 1")
    parser.add_argument("--node-rank", "--node_rank", type=int, default=0)
    parser.add_argument("--standalone", action="store_true")
    parser.add_argument("--master-addr", "--master_addr", default="127.0.0.1")
    parser.add_argument("--master-port", "--master_port", default="29500")
    for name in (
        "rdzv-backend",
        "rdzv-endpoint",
        "rdzv-id",
        "rdzv-conf",
        "max-restarts",
        "monitor-interval",
        "log-dir",
        "tee",
    ):
        parser.add_argument(f"--{name}", f"--{name.replace('-', '_')}", help="taken and ignored")
    parser.add_argument("-m", "--module", action="store_true", help="run a module, not a file")
    parser.add_argument("--started", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    return parser.parse_args(given)


def _place(options: argparse.Namespace) -> tuple[int, int]:
    """Return this process's rank and how many there are."""
    if not options.started:
        return 0, 1
    # An extra: here several processes were asked for.
    from .transports import MPI

    world = MPI.world()
    return world.rank, world.size


def main(args: Sequence[str] | None = None) -> None:
    """Run a program in one process, or start several.

    Args:
        args: the command line, this process's own by default.

    Raises:
        SystemExit: the program ended so; there is no ``mpiexec`` for several processes, or several machines are asked for.
    """
    options = _arguments(args)
    count = 1 if options.nproc_per_node in ("auto", "cpu", "gpu") else int(options.nproc_per_node)
    if options.nnodes not in ("1", "1:1"):
        raise SystemExit(
            f"--nnodes {options.nnodes}: start the processes of several machines with mpiexec, which knows them"
        )
    if count > 1 and not options.started:
        launcher = shutil.which("mpiexec")
        if launcher is None:
            raise SystemExit(f"{count} processes are started by mpiexec, which is not installed: pip install mpich")
        own = list(sys.argv[1:] if args is None else args)
        raise SystemExit(
            subprocess.call(
                [launcher, "-n", str(count), sys.executable, "-m", "webgpu_torch.distributed.run", "--started", *own]
            )
        )
    rank, size = _place(options)
    os.environ |= {
        "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size), "GROUP_RANK": "0",
        "MASTER_ADDR": options.master_addr, "MASTER_PORT": options.master_port, "TORCHELASTIC_RUN_ID": uuid.uuid4().hex,
        "TORCHELASTIC_RESTART_COUNT": "0",
    }  # fmt: skip
    sys.argv = [options.script, *options.arguments]
    if options.module:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(options.script, run_name="__main__", alter_sys=True)
        return
    sys.path.insert(0, os.path.dirname(os.path.abspath(options.script)))
    runpy.run_path(options.script, run_name="__main__")


if __name__ == "__main__":
    main()
