"""Motion between two coded pictures: the decoder's estimate, and what the scaffold adds."""
