"""What a thread records for a device and has not run: kernels on a tape, and the nodes that gradients follow.

``tape`` is what was recorded and not computed yet; ``engine`` gives every thread its tape of a device and runs tapes as
plans; ``runs`` is one execution of a plan, which may stop and go on; ``interrupts`` holds signals back while buffers are
overwritten; ``devices`` names devices and keeps the engine of each; ``node`` and ``grad_mode`` are the gradients' side.
"""
