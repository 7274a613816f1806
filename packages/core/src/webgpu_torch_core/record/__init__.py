"""What has been recorded and not yet run: kernels that wait on each device, and the nodes that gradients follow."""
