"""Training on shards: streamed, on any number of processes, with FSDP2 where it is asked for."""
