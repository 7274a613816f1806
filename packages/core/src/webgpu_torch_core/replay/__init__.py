"""Calls recorded once and replayed: functions given to ``torch.compile``, operations called again alike."""
