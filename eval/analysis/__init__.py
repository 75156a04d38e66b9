"""How well machines see in what a codec left: detections and tracks against truth, over rate."""
