"""What a tensor is: storage, layout, its place in the gradient graph, how it prints and nests."""
