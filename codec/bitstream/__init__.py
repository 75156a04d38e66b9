"""What a stream is: header, packets, container, index, groups, scaffold layers, range coder."""
