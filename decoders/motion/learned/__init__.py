"""Motion between two coded pictures by a network: better than DIS, at far more compute."""
