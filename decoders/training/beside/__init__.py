"""The job that trains the restorer beside everything else on a machine."""
