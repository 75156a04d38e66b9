import { Decoder, startTime } from "./decoder.js";
import { BitstreamError, LimitError } from "./errors.js";
import { LIMITS } from "./limits.js";
import { Place } from "./scaffold/layout.js";
import { GroupReader } from "./stream/group.js";
import { isPicture, type Packet, PacketReader, PacketType } from "./stream/packets.js";

/** A picture packet of a stream. */
interface Entry {
  readonly packet: Packet;
  /** Number of its first frame, and time of the frame before it. */
  readonly first: number;
  readonly before: number;
  /** Index of the INTRA packet that it builds on. */
  readonly group: number;
  /** How many of its first frames also need the group before. */
  readonly lead: number;
}

/** The packets of a file, as far as they have arrived, and the times of their frames. */
export class Library {
  readonly entries: Entry[] = [];
  /** The time of each frame, in ticks. */
  readonly times: number[] = [];
  private readonly reader = new PacketReader();
  private groups: GroupReader | undefined;
  private held = 0;

  get header() {
    return this.reader.header;
  }

  /** Takes in more bytes. Throws BitstreamError. */
  push(data: Uint8Array): void {
    this.held += data.length;
    if (this.held > LIMITS.heldBytes) {
      throw new LimitError("the stream is too long for a browser: play it with gsvc play");
    }
    this.reader.push(data);
    for (let packet = this.reader.next(); packet; packet = this.reader.next()) {
      if (isPicture(packet)) this.add(packet);
    }
  }

  /** To be called at the end. Throws BitstreamError unless the stream is whole. */
  close(): void {
    this.reader.close();
  }

  private add(packet: Packet): void {
    const header = this.reader.header!;
    this.groups ??= new GroupReader(header);
    const spans = this.groups.readLayout(packet);
    const isIntra = packet.type === PacketType.INTRA;
    const goesOn = isIntra && spans[0]!.place === Place.BETWEEN;
    const lead = goesOn ? spans[0]!.ticks.length - 1 : 0;
    if (lead && !this.entries.length) {
      throw new BitstreamError("the stream does not begin with a key picture: it is damaged");
    }
    let time = this.times.at(-1) ?? startTime(header);
    const group = isIntra ? this.entries.length : this.entries.at(-1)!.group;
    this.entries.push({ packet, first: this.times.length, before: time, group, lead });
    for (const { ticks } of spans) for (const tick of ticks) this.times.push((time += tick));
  }

  /** Index of the entry that has a frame. */
  entryOf(frame: number): number {
    let found = 0;
    while (found + 1 < this.entries.length && this.entries[found + 1]!.first <= frame) found++;
    return found;
  }

  /** Where decoding must begin for a frame: the index of an entry, to which the decoder is set. */
  startFor(frame: number, decoder: Decoder): number {
    const entry = this.entries[this.entryOf(frame)]!;
    let start = entry.group;
    if (frame < entry.first + entry.lead) start = this.entries[start - 1]!.group;
    decoder.reset(this.entries[start]!.before);
    return start;
  }

  /** Number of the frame that is shown at a time, in ticks. */
  frameAt(time: number): number {
    let low = 0;
    let high = this.times.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.times[middle]! <= time) low = middle;
      else high = middle;
    }
    return low;
  }
}
