"""What starts processes again, as ``torch.distributed.elastic``: only the marks that programs put on their main functions."""
