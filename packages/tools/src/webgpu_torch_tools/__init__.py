"""What measures, checks and starts programs: ``torch.profiler``, ``torch.utils.benchmark``, ``torch.testing``, ``torch.multiprocessing``.

Also what the drop-in knows of PyTorch's private modules (``private_names.xz``), which pages do without.
"""
