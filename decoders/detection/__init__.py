"""What a stream shows, told from its scaffold and keyframes without drawing its frames."""
