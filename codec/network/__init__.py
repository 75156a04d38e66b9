"""gsvc on a wire: RTP over UDP, and plain bytes over TCP and WebSocket. WIRE.md is the wire format."""
