import { BitstreamError, TruncatedStreamError } from "../errors.js";

const TABLE = Int32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0x82f63b78 : 0);
  return crc;
});

/** CRC-32C (Castagnoli) of bytes, as an unsigned number. */
export function crc32c(data: Uint8Array): number {
  let crc = -1;
  for (const byte of data) crc = (crc >>> 8) ^ TABLE[(crc ^ byte) & 255]!;
  return ~crc >>> 0;
}

/** Reads bytes from the front. */
export class Cutter {
  constructor(
    readonly data: Uint8Array,
    public position = 0,
  ) {}

  get left(): number {
    return this.data.length - this.position;
  }

  take(count: number): Uint8Array {
    if (count > this.left) throw new TruncatedStreamError("the stream ends early");
    this.position += count;
    return this.data.subarray(this.position - count, this.position);
  }

  /** An unsigned integer in LEB128, at most 5 bytes. */
  varint(): number {
    let value = 0;
    for (let place = 1; place < 2 ** 35; place *= 128) {
      const byte = this.take(1)[0]!;
      value += (byte & 127) * place;
      if (byte < 128) return value;
    }
    throw new BitstreamError("a varint has more than 5 bytes: the stream is damaged");
  }

  rest(): Uint8Array {
    return this.take(this.left);
  }
}

/** An unsigned integer in LEB128. */
export function varint(value: number): number[] {
  return value < 128 ? [value] : [(value % 128) | 128, ...varint(Math.floor(value / 128))];
}

export function concat(parts: readonly ArrayLike<number>[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
