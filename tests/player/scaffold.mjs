// Parses streams with the player's parser: node scaffold.mjs STREAM ... prints, for each, the hashes
// of its scaffold and of its AV1 units in one line of JSON, or the error.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import * as gsvc from "../../decoders/browser/page/gsvc.js";

/** The bytes that `gsvc.codec.bitstream.stream_info` hashes. */
class Digest {
  hash = createHash("sha256");

  number(value) {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(BigInt(value));
    this.hash.update(bytes);
  }

  array(values, shape) {
    for (const value of [shape.length, ...shape, ...values]) this.number(value);
  }

  sample(sample, header) {
    this.number(sample.offset);
    const { segmentation, people, correction } = sample;
    if (segmentation) {
      this.array(segmentation.labels, segmentation.shape);
      this.array(segmentation.vectors, [8, 2]);
    } else [-1, -1].forEach((value) => this.number(value));
    this.number(people ? people.length : -1);
    for (const person of people ?? []) {
      this.number(person.identity);
      this.number(Number(person.movesPicture));
      this.array(person.points, [17, 2]);
      this.array(person.visible, [17]);
    }
    this.number(correction ? correction.blockLog2 : -1);
    if (!correction) return;
    this.array(correction.sides, correction.shape);
    this.array(correction.vectors, [...correction.shape, 2]);
  }

  face({ start, end, stepLog2, bends }, slot) {
    this.number(slot);
    this.array(start, [10]);
    this.array(end, [10]);
    this.number(stepLog2);
    this.array(bends.flat(), [bends.length, 10]);
  }

  interval({ ticks, samples, texture, camera, guide, faces, brightness, place, dissolves }) {
    this.array(ticks, [ticks.length]);
    this.number(samples.length);
    for (const sample of samples) this.sample(sample);
    if (texture) {
      this.number(texture.blockLog2);
      this.array(texture.gains, texture.shape);
    }
    if (camera) {
      this.number(camera.stepLog2);
      this.array(camera.corners, [camera.corners.length / 6, 3, 2]);
    }
    if (guide) this.number(guide - 1);
    (faces ?? []).forEach((face, slot) => face && this.face(face, slot));
    for (const steps of brightness ?? []) this.number(steps);
    if (place !== gsvc.Place.BETWEEN) this.number(place);
    if (dissolves) this.number(-2);
  }
}

export function parse(data, chunk = data.length) {
  const packets = new gsvc.PacketReader();
  const scaffold = new Digest();
  const units = createHash("sha256");
  let groups;
  for (let at = 0; at < data.length; at += chunk) {
    packets.push(data.subarray(at, at + chunk));
    for (let packet = packets.next(); packet; packet = packets.next()) {
      if (!gsvc.isPicture(packet)) continue;
      groups ??= new gsvc.GroupReader(packets.header);
      const parsed = groups.read(packet);
      parsed.intervals.forEach((interval) => scaffold.interval(interval));
      for (const unit of parsed.units) units.update(gsvc.temporalUnit(unit, parsed.codedSize));
    }
  }
  packets.close();
  return { scaffold: scaffold.hash.digest("hex"), units: units.digest("hex") };
}

function outcome(data, chunk) {
  try {
    return parse(data, chunk);
  } catch (error) {
    if (!(error instanceof gsvc.BitstreamError)) throw error;
    return { error: error.message };
  }
}

// Standard input: for each stream its length in four bytes, big-endian, and its bytes.
if (process.argv.length > 2) {
  for (const path of process.argv.slice(2)) {
    console.log(JSON.stringify(outcome(readFileSync(path))));
  }
} else {
  const all = readFileSync(0);
  for (let at = 0; at < all.length; ) {
    const size = all.readUInt32BE(at);
    console.log(JSON.stringify(outcome(all.subarray(at + 4, at + 4 + size))));
    at += 4 + size;
  }
}
