"""gsvc on a wire: RTP over UDP, and plain bytes over TCP and WebSocket. docs/wire.md is the wire format."""
