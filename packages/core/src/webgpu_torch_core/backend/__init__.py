"""What a device is to core: the interface that backends implement, how they are found, and device ``python``."""
