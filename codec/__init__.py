"""What a stream is: data types, syntax, entropy coding, container; and the Encoder and Decoder objects."""
