"""Python imports this at its start where the folder is on its path: every process that a package's tests start has its library, too."""

from __future__ import annotations

import importlib
import os

if os.environ["SIDE"] == "ours":
    importlib.import_module("webgpu_torch.as_torch")
else:
    importlib.import_module("run_jobs").name_operations()
