"""How the compact refiner is made: footage, pairs coded by the real codec, losses, training, assessment."""
