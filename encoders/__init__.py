"""The edge: from video to key pictures and scaffold."""
