"""What a stream is, and the objects that write and read it: `Encoder` and `Decoder`."""
