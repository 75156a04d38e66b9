"""Where pixels go between two coded pictures."""
