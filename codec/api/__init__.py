"""What users of Python call: encoder, decoder, whole files, analysis, inspection, playing."""
