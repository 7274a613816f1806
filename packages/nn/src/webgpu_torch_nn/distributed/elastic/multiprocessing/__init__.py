"""Processes of a launcher, as ``torch.distributed.elastic.multiprocessing``."""
