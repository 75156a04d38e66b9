"""Session descriptions (SDP, RFC 8866) of streams over RTP."""

from base64 import b64encode

from gsvc.codec.network.address import Address
from gsvc.codec.network.rtp import CLOCK_RATE, PAYLOAD_TYPE
from gsvc.codec.stream.header import Header


def session_description(header: Header, address: Address) -> str:
    """SDP of the stream sent to `address`; its `config` is the 32-byte header in base64."""
    version = 6 if ":" in address.host else 4
    config = b64encode(header.to_bytes()).decode()
    lines = (
        "v=0",
        f"o=- 0 0 IN IP{version} {address.host}",
        "s=gsvc",
        f"c=IN IP{version} {address.host}",
        "t=0 0",
        f"m=video {address.port} RTP/AVPF {PAYLOAD_TYPE}",
        f"a=rtpmap:{PAYLOAD_TYPE} x-gsvc/{CLOCK_RATE}",
        f"a=fmtp:{PAYLOAD_TYPE} version=1; config={config}",
        f"a=rtcp-fb:{PAYLOAD_TYPE} nack",
        f"a=rtcp-fb:{PAYLOAD_TYPE} nack pli",
        "a=rtcp-mux",
        "a=sendonly",
    )
    return "\r\n".join(lines) + "\r\n"
