import { BitstreamError, LimitError, TruncatedStreamError } from "../errors.js";
import { LIMITS } from "../limits.js";
import { crc32c } from "./bytes.js";

export const HEADER_BYTES = 32;
const VERSION = 1;

const FIELDS = [
  ["width", 15],
  ["height", 15],
  ["pixel_aspect_num", 8],
  ["pixel_aspect_den", 8],
  ["color_primaries", 5],
  ["color_transfer", 5],
  ["color_matrix", 5],
  ["full_range", 1],
  ["time_base_num", 16],
  ["time_base_den", 20],
  ["frame_ticks_num", 20],
  ["frame_ticks_den", 12],
  ["level", 2],
  ["segmentation", 1],
  ["pose", 1],
  ["flow", 1],
  ["audio", 1],
  ["texture", 1],
  ["holds", 1],
  ["camera", 1],
  ["guide", 1],
  ["returns", 1],
  ["fitted", 1],
  ["motion_estimator", 2],
  ["seed", 16],
  ["model_id", 32],
] as const;

const POSITIVE: readonly Name[] = [
  "width",
  "height",
  "pixel_aspect_num",
  "pixel_aspect_den",
  "time_base_num",
  "time_base_den",
  "frame_ticks_num",
  "frame_ticks_den",
];

const NEWER = "serve it with a newer gsvc";

type Name = (typeof FIELDS)[number][0];

/** The fields of a stream's header (section 2), by their names in the stream format. */
export type Header = Record<Name, number>;

/** Parses and checks the 32 bytes that a stream begins with. */
export function parseHeader(data: Uint8Array): Header {
  checkMagic(data);
  const header = {} as Header;
  let at = 32;
  for (const [name, bits] of FIELDS) {
    header[name] = bitsOf(data, at, bits);
    at += bits;
  }
  check(header);
  return header;
}

function checkMagic(data: Uint8Array): void {
  const magic = [0x47, 0x53, 0x56];
  if (!data.length) throw new TruncatedStreamError("the stream is empty: there is nothing to play");
  if (magic.some((byte, n) => n < data.length && data[n] !== byte)) {
    throw new BitstreamError("not a gsvc stream: it does not begin with 'GSV'");
  }
  if (data.length < HEADER_BYTES) {
    throw new TruncatedStreamError("the stream ends inside its header: copy the file again");
  }
  if (data[3] !== VERSION) {
    throw new BitstreamError(
      `this is a stream of format version ${data[3]}, this player reads version ${VERSION}: ${NEWER}`,
    );
  }
  const crc = new DataView(data.buffer, data.byteOffset + 28, 4).getUint32(0, true);
  if (crc32c(data.subarray(0, 28)) !== crc) {
    throw new BitstreamError("the header is damaged (CRC-32C mismatch): copy the file again");
  }
}

function bitsOf(data: Uint8Array, start: number, count: number): number {
  let value = 0;
  for (let at = start; at < start + count; at++) {
    value = value * 2 + ((data[at >> 3]! >> (7 - (at & 7))) & 1);
  }
  return value;
}

function check(header: Header): void {
  for (const name of POSITIVE) {
    if (!header[name]) throw new BitstreamError(`the header's ${name} is zero`);
  }
  const { width, height } = header;
  if (width * height > LIMITS.pixels || Math.max(width, height) > LIMITS.side) {
    throw new LimitError(`pictures of ${width}x${height} exceed the limit`);
  }
}
