"""Frames between keyframes: motion, estimated and sent, and pictures moved by it."""
