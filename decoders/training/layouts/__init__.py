"""What a run takes of memory, which layout of processes fits, and what it costs."""
