import type { PictureDecoder } from "./decoder.js";
import type { Picture, Renderer, Yuv } from "./drawing/renderer.js";
import { BitstreamError } from "./errors.js";
import { expandChroma, yuvFromRgb } from "./rgb.js";
import { codecString } from "./stream/av1.js";

/** Milliseconds after which a picture that did not come is counted as damaged. */
const PATIENCE = 10_000;

/** Decodes AV1 with the browser's decoder (WebCodecs). */
export class BrowserPictures implements PictureDecoder {
  private readonly decoders = new Map<number, VideoDecoder>();
  private count = 0;
  private pending: { give: (frame: VideoFrame) => void; fail: (why: Error) => void } | undefined;

  /** Whether this browser decodes AV1 by WebCodecs, which it offers over https and on localhost. */
  static async isSupported(): Promise<boolean> {
    if (typeof VideoDecoder === "undefined") return false;
    const { supported } = await VideoDecoder.isConfigSupported({ codec: "av01.0.08M.08" });
    return supported === true;
  }

  async decode(
    unit: Uint8Array<ArrayBuffer>,
    size: readonly [number, number],
    sequence: Uint8Array | undefined,
    slot: number,
    renderer: Renderer,
    companded: boolean,
  ): Promise<Picture> {
    if (sequence) this.configure(sequence, slot);
    const decoder = this.decoders.get(slot);
    if (!decoder) throw new BitstreamError("a picture lacks the intra picture it builds on");
    const type = sequence ? "key" : "delta";
    const chunk = new EncodedVideoChunk({ type, timestamp: this.count++, data: unit });
    const frame = await this.output(decoder, chunk);
    try {
      const { visibleRect } = frame;
      if (visibleRect?.width !== size[0] || visibleRect.height !== size[1]) {
        throw new BitstreamError("a coded picture is not the one that its packet declares");
      }
      const yuv = await planes(frame);
      if (yuv && companded) expandChroma(yuv);
      return yuv ? renderer.converted(yuv) : await pixels(frame); // of 10 bits, say
    } finally {
      frame.close();
    }
  }

  close(): void {
    for (const slot of this.decoders.keys()) this.end(slot);
  }

  private end(slot: number): void {
    const decoder = this.decoders.get(slot);
    if (decoder && decoder.state !== "closed") decoder.close();
    this.decoders.delete(slot);
  }

  private configure(sequence: Uint8Array, slot: number): void {
    this.end(slot);
    const decoder = new VideoDecoder({
      output: (frame) => (this.pending ? this.pending.give(frame) : frame.close()),
      error: (error) => this.pending?.fail(error),
    });
    const codec = codecString(sequence);
    this.decoders.set(slot, decoder);
    decoder.configure({ codec, optimizeForLatency: true, hardwareAcceleration: "prefer-software" });
  }

  private async output(decoder: VideoDecoder, chunk: EncodedVideoChunk): Promise<VideoFrame> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    try {
      return await new Promise<VideoFrame>((give, fail) => {
        this.pending = { give, fail };
        timer = setTimeout(() => fail(new Error("nothing came")), PATIENCE);
        decoder.decode(chunk);
      });
    } catch (error) {
      this.close();
      throw new BitstreamError(`a coded picture does not decode (${(error as Error).message})`);
    } finally {
      clearTimeout(timer);
      this.pending = undefined;
    }
  }
}

/** The planes of a picture of 8 bits. */
async function planes(frame: VideoFrame): Promise<Yuv | undefined> {
  const { width, height } = frame.visibleRect!;
  if (frame.format === "I420" || frame.format === "NV12") {
    const size = width * height;
    const layout = [{ offset: 0, stride: width }];
    if (frame.format === "NV12") layout.push({ offset: size, stride: width });
    else for (const n of [0, 1]) layout.push({ offset: size + (n * size) / 4, stride: width / 2 });
    const data = new Uint8Array((size * 3) / 2);
    await frame.copyTo(data, { layout });
    if (frame.format === "NV12") separate(data, size);
    return { width, height, data };
  }
  return frame.format?.includes("X") ? yuvFromRgb(await pixels(frame), width, height) : undefined;
}

/** A picture in RGBA, as the browser shows it. */
async function pixels(frame: VideoFrame): Promise<Picture> {
  const { width, height } = frame.visibleRect!;
  const rgba = new Uint8Array(4 * width * height);
  await frame.copyTo(rgba, { format: "RGBA" } as VideoFrameCopyToOptions);
  return rgba;
}

/** Chroma samples in turn, from `start` on, as two planes. */
function separate(data: Uint8Array, start: number): void {
  const both = data.slice(start);
  const count = both.length / 2;
  for (let n = 0; n < count; n++) {
    data[start + n] = both[2 * n]!;
    data[start + count + n] = both[2 * n + 1]!;
  }
}
