"""From operations to plans: what a thread records for a device, how it is run, and what is recorded to be run again.

``tape`` is what was recorded and not computed yet; ``engine`` gives every thread its tape of a device and runs tapes as
plans; ``runs`` is one execution of a plan, which may stop and go on; ``interrupts`` holds signals back while buffers are
overwritten.
"""
