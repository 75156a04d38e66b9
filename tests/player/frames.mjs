// Draws a stream's frames from decoded pictures: node frames.mjs STREAM PICTURES FRAMES
// PICTURES are the coded pictures in RGBA, one after another; FRAMES is written likewise.
import { readFileSync, writeFileSync } from "node:fs";
import * as gsvc from "../../decoders/browser/page/gsvc.js";

const [stream, pictures, target] = process.argv.slice(2);
const data = readFileSync(pictures);
let at = 0;
const given = {
  async decode(unit, [width, height]) {
    at += 4 * width * height;
    return new Uint8Array(data.subarray(at - 4 * width * height, at));
  },
};

const code = readFileSync(new URL("../../decoders/browser/page/kernels.wasm", import.meta.url));
const packets = new gsvc.PacketReader();
packets.push(readFileSync(stream));
const frames = [];
let decoder;
for (let packet = packets.next(); packet; packet = packets.next()) {
  decoder ??= new gsvc.Decoder(packets.header, await gsvc.Kernels.load(code), given);
  if (!gsvc.isPicture(packet)) continue;
  for await (const frame of decoder.frames(packet)) {
    console.log(frame.pts);
    frames.push(frame.draw());
  }
}
writeFileSync(target, Buffer.concat(frames));
