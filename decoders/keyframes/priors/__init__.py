"""Published restoration networks that larger refiners draw on."""
