"""gsvc with other people's networking."""
