"""The edge: from video to coded pictures and scaffold."""
