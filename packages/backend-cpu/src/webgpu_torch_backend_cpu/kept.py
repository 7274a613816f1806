"""Files that the next process finds: what was printed or compiled here, and plans."""

from webgpu_torch_core.files.kept import KeptFiles

files = KeptFiles("cpu")
