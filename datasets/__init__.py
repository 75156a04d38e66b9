"""Video to measure and train with: test clips, and video with annotations."""
