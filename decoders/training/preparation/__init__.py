"""Shards to train on, out of any amount of video: a pipeline on Ray Data."""
