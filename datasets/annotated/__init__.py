"""Video with the truth of what is in it: boxes, identities, places on the ground."""
