"""Video, audio and images in and out, through FFmpeg."""
