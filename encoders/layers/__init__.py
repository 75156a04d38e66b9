"""What each scaffold layer takes from the video, one module each."""
