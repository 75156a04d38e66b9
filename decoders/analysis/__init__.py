"""What a stream shows, told from its scaffold and coded pictures without drawing its frames."""
