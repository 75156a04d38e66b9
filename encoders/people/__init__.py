"""People in a picture: where they are and how they stand."""
