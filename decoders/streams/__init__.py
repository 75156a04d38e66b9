"""From packets to frames in time: reconstruction, timeline, concealment, windows."""
