"""The compact refiner, which ships with gsvc."""
