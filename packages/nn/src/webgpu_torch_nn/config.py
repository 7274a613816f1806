"""The environment variables that this package reads: those by which a launcher tells a process its place."""

from __future__ import annotations

from webgpu_torch_core.config import Variable

RANK = Variable("RANK", "which of the processes of a program this is")
WORLD_SIZE = Variable("WORLD_SIZE", "how many processes a program has")
LOCAL_RANK = Variable("LOCAL_RANK", "which of this machine's processes this is")
MASTER_ADDR = Variable("MASTER_ADDR", "the machine that processes meet at")
MASTER_PORT = Variable("MASTER_PORT", "its port")
TORCHELASTIC_RUN_ID = Variable(
    "TORCHELASTIC_RUN_ID", "the run that a launcher started; `torch.distributed.run` sets it"
)
