"""Search for a group's plan: candidates, probes, and the lambda or rate that decides."""
