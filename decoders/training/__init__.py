"""Training of the compact refiner: footage, pairs coded by the real codec, losses, assessment."""
