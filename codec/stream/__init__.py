"""What a stream is: header, packets, groups, container, index."""
