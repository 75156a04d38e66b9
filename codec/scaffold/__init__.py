"""The scaffold: what is sent of the frames between coded pictures, and how it is coded."""
