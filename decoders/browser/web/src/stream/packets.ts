import { BitstreamError, LimitError, TruncatedStreamError } from "../errors.js";
import { LIMITS } from "../limits.js";
import { concat, crc32c, Cutter } from "./bytes.js";
import { HEADER_BYTES, type Header, parseHeader } from "./header.js";

export enum PacketType {
  END = 0,
  INTRA = 1,
  INTER = 2,
  SHOT = 3,
}

/** One packet of a stream (section 3). */
export interface Packet {
  type: number;
  /** Frames that it completes; 0 unless it is a picture packet. */
  frames: number;
  payload: Uint8Array;
}

export function isPicture(packet: Packet): boolean {
  return packet.type >= PacketType.INTRA && packet.type <= PacketType.SHOT;
}

/** Reads one packet. Throws BitstreamError for an invalid one, TruncatedStreamError for a part. */
export function readPacket(from: Cutter): Packet {
  const start = from.position;
  const tag = from.varint();
  const type = tag % 16;
  const length = Math.floor(tag / 16);
  if (length > LIMITS.packetBytes) throw new LimitError(`a packet of ${length} bytes is too long`);
  const frames = from.varint();
  if (frames > LIMITS.interval) throw new LimitError(`a packet of ${frames} frames is too long`);
  const payload = from.take(length);
  const body = from.data.subarray(start, from.position);
  const crc = from.take(4);
  const sum = crc[0]! + crc[1]! * 2 ** 8 + crc[2]! * 2 ** 16 + crc[3]! * 2 ** 24;
  if (crc32c(body) !== sum) {
    throw new BitstreamError("a packet is damaged (CRC-32C mismatch): copy the file again");
  }
  const packet = { type, frames, payload };
  if (type > PacketType.SHOT && type < 8) {
    throw new BitstreamError(`packet type ${type} is not known: install a newer gsvc`);
  }
  if (isPicture(packet) === (frames === 0)) {
    throw new BitstreamError(`a packet of type ${type} has ${frames} frames`);
  }
  return packet;
}

/** The packets of a stream whose bytes arrive piece by piece. */
export class PacketReader {
  header: Header | undefined;
  /** Whether the END packet was read. */
  ended = false;
  private waiting: Uint8Array[] = [];
  private waitingBytes = 0;
  private needed = HEADER_BYTES;
  private frames = 0;
  private pictures = 0;

  /** `isJoined`: the stream may begin anywhere, so that its end cannot count its pictures. */
  constructor(private readonly isJoined = false) {}

  push(data: Uint8Array): void {
    if (this.ended && data.length) {
      throw new BitstreamError("there are bytes after the end of the stream: cut them off");
    }
    this.waiting.push(data);
    this.waitingBytes += data.length;
  }

  /** The next packet; undefined until more bytes arrive. Throws BitstreamError. */
  next(): Packet | undefined {
    if (this.ended || this.waitingBytes < this.needed) return undefined;
    const cutter = new Cutter(concat(this.waiting));
    this.waiting = [cutter.data];
    if (!this.header) {
      this.header = parseHeader(cutter.take(HEADER_BYTES));
      this.keep(cutter);
    }
    const start = cutter.position;
    try {
      const packet = readPacket(cutter);
      this.keep(cutter);
      this.count(packet);
      return packet;
    } catch (error) {
      if (!(error instanceof TruncatedStreamError)) throw error;
      // Join the pieces again only when half as much has come.
      this.needed = this.waitingBytes + Math.max(1, (cutter.data.length - start) >> 1);
      if (this.waitingBytes < 64) this.needed = this.waitingBytes + 1;
      return undefined;
    }
  }

  /** To be called when no more bytes will come. Throws BitstreamError unless the stream is whole. */
  close(): void {
    this.needed = 0;
    if (!this.header) parseHeader(concat(this.waiting));
    if (!this.ended) {
      throw new TruncatedStreamError(
        "the stream ends early: its tail is missing, copy the file again",
      );
    }
  }

  private keep(cutter: Cutter): void {
    this.waiting = [cutter.data.subarray(cutter.position)];
    this.waitingBytes = cutter.left;
    this.needed = 1;
  }

  private count(packet: Packet): void {
    this.frames += packet.frames;
    if (this.frames > LIMITS.frames) throw new LimitError("the stream has too many frames");
    if (isPicture(packet)) this.pictures++;
    if (packet.type !== PacketType.END) return;
    const declared = new Cutter(packet.payload).varint();
    if (declared !== this.pictures && !this.isJoined) {
      throw new BitstreamError(
        `the stream has ${this.pictures} pictures, its end says ${declared}: packets were lost`,
      );
    }
    if (this.waitingBytes) {
      throw new BitstreamError("there are bytes after the end of the stream: cut them off");
    }
    this.ended = true;
  }
}
