"""Reading and writing video, audio and images with FFmpeg (PyAV)."""
