import { BitstreamError, LimitError } from "../errors.js";
import { MAX_UNIT_FRAMES } from "../limits.js";
import type { Unit } from "../scaffold/units.js";
import { concat, varint } from "./bytes.js";

const SEQUENCE_HEADER = 1;
const FRAME_HEADER = 3;
const FRAME = 6;
const USUAL_TOOLS = 0x3abe001;

function bits(value: number, count: number): number[] {
  return Array.from({ length: count }, (_, n) => Math.floor(value / 2 ** (count - 1 - n)) % 2);
}

/** The usual sequence header for pictures of a size (section 6). */
export function usualSequence(size: readonly [number, number]): Uint8Array {
  const most = size.map((side) => side - 1);
  const lengths = most.map((side) => Math.max(1, side.toString(2).length));
  const all = [
    ...bits(0, 29),
    ...lengths.flatMap((length) => bits(length - 1, 4)),
    ...most.flatMap((side, n) => bits(side, lengths[n]!)),
    ...bits(USUAL_TOOLS, 28),
  ];
  const bytes = new Uint8Array(Math.ceil(all.length / 8));
  all.forEach((bit, n) => (bytes[n >> 3]! |= bit << (7 - (n & 7))));
  return bytes;
}

/** A temporal unit for an AV1 decoder. Throws BitstreamError for one that would cost it more than
 * one picture of `size`. */
export function temporalUnit(unit: Unit, size: readonly [number, number]): Uint8Array<ArrayBuffer> {
  check(unit, size);
  const parts: ArrayLike<number>[] = [[0x12, 0]];
  const add = (kind: number, payload: ArrayLike<number>): void => {
    parts.push([(kind << 3) | 2], varint(payload.length), payload);
  };
  if (unit.sequence?.length) add(SEQUENCE_HEADER, unit.sequence);
  for (const frame of unit.frames) add(FRAME, frame);
  if (unit.slot !== undefined) add(FRAME_HEADER, [0x88 | (unit.slot << 4)]);
  return concat(parts);
}

function check(unit: Unit, size: readonly [number, number]): void {
  const shown = unit.frames.map((frame) => ((frame[0] ?? 0) & 0b1001_0000) !== 0);
  if (unit.slot !== undefined) shown.push(true);
  if (shown.length > MAX_UNIT_FRAMES) {
    throw new LimitError(`a coded picture has over ${MAX_UNIT_FRAMES} AV1 frames`);
  }
  if (!shown.at(-1)) throw new BitstreamError("a picture has no AV1 frame that is shown");
  if (shown.indexOf(true) < shown.length - 1) {
    throw new BitstreamError("a coded picture has an AV1 frame after the one that is shown");
  }
  if (!unit.sequence?.length) return;
  const declared = sequenceSize(new BitReader(unit.sequence.subarray(0, 64)));
  if (declared[0] !== size[0] || declared[1] !== size[1]) {
    throw new BitstreamError(
      `a picture is coded at ${declared.join("x")}, its packet says ${size.join("x")}`,
    );
  }
}

/** The `codecs` parameter that WebCodecs asks for: profile, level and tier, depth. */
export function codecString(sequence: Uint8Array): string {
  const reader = new BitReader(sequence);
  const profile = reader.take(3);
  const depth = profile === 2 ? 12 : 8;
  return `av01.${profile}.15M.${String(depth).padStart(2, "0")}`;
}

class BitReader {
  private at = 0;

  constructor(private readonly data: Uint8Array) {}

  take(count: number): number {
    let value = 0;
    for (let n = 0; n < count; n++, this.at++) {
      const byte = this.data[this.at >> 3];
      if (byte === undefined) throw new BitstreamError("an AV1 sequence header is cut short");
      value = value * 2 + ((byte >> (7 - (this.at & 7))) & 1);
    }
    return value;
  }
}

/** Width and height that a sequence header declares (AV1 specification, section 5.5.1). */
function sequenceSize(reader: BitReader): readonly [number, number] {
  reader.take(4);
  if (reader.take(1)) throw new BitstreamError("a coded picture is an AV1 still image");
  skipOperatingPoints(reader, skipTiming(reader));
  const lengths = [reader.take(4) + 1, reader.take(4) + 1] as const;
  return [reader.take(lengths[0]) + 1, reader.take(lengths[1]) + 1];
}

/** Returns the bits of a buffer delay; 0 without a decoder model. */
function skipTiming(reader: BitReader): number {
  if (!reader.take(1)) return 0;
  reader.take(64);
  if (reader.take(1)) {
    let zeros = 0;
    while (!reader.take(1)) zeros++;
    reader.take(zeros < 32 ? zeros : 0);
  }
  if (!reader.take(1)) return 0;
  const delayBits = reader.take(5) + 1;
  reader.take(42);
  return delayBits;
}

function skipOperatingPoints(reader: BitReader, delayBits: number): void {
  const hasDisplayDelay = reader.take(1);
  if (reader.take(5)) throw new BitstreamError("a coded picture has several operating points");
  reader.take(12);
  if (reader.take(5) > 7) reader.take(1);
  if (delayBits && reader.take(1)) reader.take(2 * delayBits + 1);
  if (hasDisplayDelay && reader.take(1)) reader.take(4);
}
