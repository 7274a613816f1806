"""What measures, checks and starts programs: ``torch.profiler``, ``torch.utils.benchmark``, ``torch.testing``, ``torch.multiprocessing``."""
