"""From AV1 to keyframes, and the generative models that restore them."""
