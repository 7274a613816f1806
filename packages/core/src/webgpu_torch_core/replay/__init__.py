"""Calls recorded once and replayed: functions given to ``torch.compile``, operations called again alike.

``capture`` decides what is recorded and replayed; ``guards`` describes what a function depends on; ``recording`` is what a call did
and how it is done again, ``results`` what it returned, ``numbers`` the host's numbers in it; ``recipes`` is the same for single
operations.
"""
