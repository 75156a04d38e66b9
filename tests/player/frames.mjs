// Draws a stream's frames from decoded pictures: node frames.mjs STREAM PICTURES FRAMES [ID USUAL DRAWN GIVEN]
// PICTURES are the coded pictures in RGBA, one after another; FRAMES is written likewise. Pictures are
// restored by what a network named ID draws, as in DRAWN; GIVEN is what it was given, conditions first.
import { readFileSync, writeFileSync } from "node:fs";
import * as gsvc from "../../decoders/browser/page/gsvc.js";

const [stream, pictures, target, id, usual, drawn, given] = process.argv.slice(2);
const data = readFileSync(pictures);
let at = 0;
const decoded = {
  async decode(unit, [width, height]) {
    at += 4 * width * height;
    return new Uint8Array(data.subarray(at - 4 * width * height, at));
  },
};

const network = {
  drawn: drawn ? new Float32Array(readFileSync(drawn).buffer) : undefined,
  given: [],
  async run({ picture, conditions }) {
    this.given.push(conditions, picture);
    const count = (12 * picture.length) / 13;
    const data = this.drawn.subarray(0, count);
    this.drawn = this.drawn.subarray(count);
    return { drawn: { data } };
  },
};
// A tensor is its numbers.
const runtime = { Tensor: function (kind, data) { return data; } };

const code = readFileSync(new URL("../../decoders/browser/page/kernels.wasm", import.meta.url));
const packets = new gsvc.PacketReader();
packets.push(readFileSync(stream));
const frames = [];
const kernels = await gsvc.Kernels.load(code);
let decoder;
for (let packet = packets.next(); packet; packet = packets.next()) {
  decoder ??= new gsvc.Decoder(packets.header, kernels, decoded);
  if (drawn) decoder.restorer = new gsvc.Restorer(kernels, runtime, network, Number(usual), Number(id));
  if (!gsvc.isPicture(packet)) continue;
  for await (const frame of decoder.frames(packet)) {
    console.log(frame.pts);
    frames.push(await frame.draw());
  }
}
writeFileSync(target, Buffer.concat(frames));
if (given) writeFileSync(given, Buffer.concat(network.given.map((one) => new Uint8Array(one.buffer))));
