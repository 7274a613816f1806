"""``torch.version``: the version of PyTorch whose API this is, and of what it is built with."""

__version__ = "2.13.0"
debug = False
cuda = None
hip = None
xpu = None
git_version = "unknown"
