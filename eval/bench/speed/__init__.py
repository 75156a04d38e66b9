"""How fast frames are restored and drawn on a device: `gsvc bench speed`."""
