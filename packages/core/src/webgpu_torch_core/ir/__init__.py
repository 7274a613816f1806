"""What is computed: element types, layouts, scalar expressions, kernels, and their definition in plain Python."""
