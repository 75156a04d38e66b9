"""Live streams over UDP (RTP), TCP and WebSocket. docs/wire.md is the wire format."""
