import type { InferenceSession, Tensor } from "onnxruntime-web";
import type { Kernels } from "./drawing/kernels.js";
import type { Picture } from "./drawing/renderer.js";
import type { Geometry } from "./scaffold/geometry.js";
import { gainsOf, type Texture } from "./scaffold/layers/texture.js";

/** What a restorer is told of a key picture. */
export interface Key {
  readonly texture: Texture | undefined;
  /** How it is to be restored, 0 for as usual. */
  readonly guide: number;
  /** Its quantiser, 1 to 70. */
  readonly crf: number;
  /** The side at which it was coded, in eighths of the display's. */
  readonly eighths: number;
  /** Its temporal layer, 0 to 3. */
  readonly layer: number;
}

/** What sides at half the size are multiples of: the network works at a quarter of that, too. */
const MULTIPLE = 4;
/** Of a strip at half the size, for the network's memory. */
const MOST_PIXELS = 1 << 18;
/** Rows at half the size that a row may depend on. */
const REACH = 64;
/** Standard deviation, in cells of 2x2 pixels at half the size, of the area with the same grid. */
const WIDE = 3;
const INPUTS = 13;
/** Colours, and by how much fine detail is raised. */
const CHANNELS = 4;
const LAYERS = 4;
const COARSEST_CRF = 70;

/** In the order in which they are tried. WebGPU cannot split a row into so many parts. */
const PROVIDERS = [{ name: "webgpu", forceCpuNodeNames: ["/Split"] }, "wasm"] as const;

type Runtime = typeof import("onnxruntime-web");

/** The restorer's network, run by onnxruntime-web: by WebGPU where there is any. */
export class Restorer {
  private constructor(
    private readonly kernels: Kernels,
    private readonly runtime: Runtime,
    private readonly session: InferenceSession,
    /** Its usual mixture. */
    private readonly usual: number,
    /** What a stream's `model_id` is that was made for it. */
    readonly id: number,
  ) {}

  /** Loads what stands beside this module: runtime and network. Throws Error where one is missing. */
  static async load(kernels: Kernels): Promise<Restorer> {
    if (!("Suspending" in WebAssembly)) throw new Error("this browser lacks WebAssembly's JSPI");
    const network = await (await answer("restorer.onnx")).arrayBuffer();
    const { usual } = (await (await answer("restorer.json")).json()) as { usual: number };
    const runtime = (await import(addressOf("ort.js"))) as Runtime;
    const code = (await answer("ort.wasm.gz")).body!.pipeThrough(new DecompressionStream("gzip"));
    runtime.env.wasm.wasmBinary = await new Response(code).arrayBuffer();
    const session = await opened(runtime, network);
    const digest = await crypto.subtle.digest("SHA-256", network);
    return new Restorer(kernels, runtime, session, usual, new DataView(digest).getUint32(0));
  }

  /** The picture as `key` would have it restored; one call after the other. */
  async restored(picture: Picture, geometry: Geometry, key: Key): Promise<Picture> {
    const mixture = key.guide ? key.guide - 1 : this.usual;
    if (!mixture) return picture;
    const strength = mixture <= 5 ? 0.5 : 1;
    const share = ((mixture - 1) % 5) / 4;
    const weights = [strength * (1 - share), strength * share];
    const { width, height } = geometry;
    const [columns, rows] = [width, height].map((side) => MULTIPLE * Math.ceil(side / (2 * MULTIPLE)));
    const inputs = this.inputs(picture, geometry, key.texture, columns!, rows!);
    const half = [Math.ceil(width / 2), Math.ceil(height / 2)] as const;
    const mixed = new Float32Array(CHANNELS * half[0] * half[1]);
    const step = Math.max(REACH, MULTIPLE * Math.floor(Math.floor(MOST_PIXELS / columns!) / MULTIPLE));
    for (let top = 0; top < rows!; top += step) {
      const [first, last] = [Math.max(0, top - REACH), Math.min(rows!, top + step + REACH)];
      const strip = inputs.map((plane) => plane.subarray(first * columns!, last * columns!));
      const drawn = await this.drawn(strip, columns!, last - first, key);
      const end = Math.min(top + step, half[1]);
      for (let y = top; y < end; y++) {
        mixRow(drawn, (y - first) * columns!, columns! * (last - first), weights, mixed, y * half[0], half[0]);
      }
    }
    removeLattice(mixed, half[0], half[1]);
    return this.kernels.scoped(() => {
      const target = this.kernels.call.take(picture.length);
      const [from, added] = [this.kernels.put(picture), this.kernels.put(mixed)];
      this.kernels.call.restore(from, width, height, added, half[0], half[1], target);
      return this.kernels.get(target, picture.length);
    });
  }

  /** The planes that the network is given. */
  private inputs(
    picture: Picture,
    geometry: Geometry,
    texture: Texture | undefined,
    columns: number,
    rows: number,
  ): Float32Array[] {
    const { width, height } = geometry;
    const plane = 4 * columns * rows;
    const bytes = this.kernels.scoped(() => {
      const target = this.kernels.call.take(INPUTS * plane);
      const from = this.kernels.put(picture);
      const gains = texture ? this.kernels.put(gainsOf(texture)) : 0;
      const [down, across] = texture?.shape ?? [0, 0];
      const side = texture ? geometry.blockSide(texture.blockLog2) : 0;
      this.kernels.call.split(from, width, height, gains, down, across, side, target, columns, rows);
      return this.kernels.get(target, INPUTS * plane);
    });
    return Array.from({ length: INPUTS }, (_, n) => new Float32Array(bytes.buffer, n * plane, columns * rows));
  }

  /** What the network draws: planes of each output's channels, one output after another. */
  private async drawn(
    strip: readonly Float32Array[],
    columns: number,
    rows: number,
    { crf, eighths, layer }: Key,
  ): Promise<Float32Array> {
    const picture = new Float32Array(INPUTS * columns * rows);
    strip.forEach((plane, n) => picture.set(plane, n * columns * rows));
    const scaled = [Math.min(1, crf / COARSEST_CRF), Math.min(1, eighths / 8)].map((x) => 4 * x - 3);
    const layers = Array.from({ length: LAYERS }, (_, n) => Number(n === layer));
    const conditions = Float32Array.of(...scaled, ...layers);
    return run(this.runtime, this.session, picture, columns, conditions);
  }
}

/** The network by the first provider that runs it: some are there and fail. */
async function opened(runtime: Runtime, network: ArrayBuffer): Promise<InferenceSession> {
  let why: unknown;
  for (const provider of PROVIDERS) {
    try {
      const options = { executionProviders: [provider], logSeverityLevel: 4 } as const;
      const session = await runtime.InferenceSession.create(network, options);
      const nothing = new Float32Array(INPUTS * MULTIPLE * MULTIPLE);
      await run(runtime, session, nothing, MULTIPLE, new Float32Array(2 + LAYERS));
      return session;
    } catch (error) {
      why = error;
    }
  }
  throw why;
}

async function run(
  { Tensor }: Runtime,
  session: InferenceSession,
  picture: Float32Array,
  columns: number,
  conditions: Float32Array,
): Promise<Float32Array> {
  const rows = picture.length / (INPUTS * columns);
  const given = {
    picture: new Tensor("float32", picture, [1, INPUTS, rows, columns]),
    conditions: new Tensor("float32", conditions, [1, 2 + LAYERS]),
  };
  const { drawn } = (await session.run(given)) as { drawn: Tensor };
  return drawn.data as Float32Array;
}

/** The weighted sum of outputs in a row: from planes to four numbers a pixel. */
function mixRow(
  drawn: Float32Array,
  from: number,
  plane: number,
  weights: readonly number[],
  mixed: Float32Array,
  to: number,
  count: number,
): void {
  weights.forEach((weight, output) => {
    for (let c = 0; c < CHANNELS; c++) {
      const start = (CHANNELS * output + c) * plane + from;
      for (let x = 0; x < count; x++) mixed[CHANNELS * (to + x) + c]! += weight * drawn[start + x]!;
    }
  });
}

/** Removes what repeats every two pixels over a wide area: a grid that the network leaves. */
function removeLattice(mixed: Float32Array, width: number, height: number): void {
  const [columns, rows] = [Math.ceil(width / 2), Math.ceil(height / 2)];
  for (let c = 0; c < CHANNELS; c++) {
    const plane = Float32Array.from({ length: width * height }, (_, at) => mixed[CHANNELS * at + c]!);
    const smooth = blurred(plane, width, height, 1);
    const fine = plane.map((value, at) => value - smooth[at]!); // no slopes
    // Beyond an odd side, what lies before its last pixel.
    const inside = (at: number, side: number) => (at < side ? at : side - 2);
    const apart = [0, 1, 2, 3].map((n) =>
      Float32Array.from({ length: columns * rows }, (_, cell) => {
        const y = inside(2 * Math.floor(cell / columns) + (n >> 1), height);
        return fine[y * width + inside(2 * (cell % columns) + (n & 1), width)]!;
      }),
    );
    const means = apart[0]!.map((_, cell) => apart.reduce((sum, one) => sum + one[cell]!, 0) / 4);
    apart.forEach((values, n) => {
      const wide = blurred(values.map((value, cell) => value - means[cell]!), columns, rows, WIDE);
      for (let y = n >> 1; y < height; y += 2) {
        for (let x = n & 1; x < width; x += 2) {
          mixed[CHANNELS * (y * width + x) + c]! -= wide[(y >> 1) * columns + (x >> 1)]!;
        }
      }
    });
  }
}

/** A plane under a Gaussian, its edges repeated. */
function blurred(plane: Float32Array, width: number, height: number, spread: number): Float32Array {
  const reach = 3 * spread;
  const weights = Array.from({ length: 2 * reach + 1 }, (_, n) => Math.exp(-((n - reach) ** 2) / (2 * spread ** 2)));
  const sum = weights.reduce((a, b) => a + b);
  const along = (from: Float32Array, count: number, step: number, lines: number, apart: number) => {
    const to = new Float32Array(from.length);
    for (let line = 0; line < lines; line++) {
      for (let at = 0; at < count; at++) {
        let value = 0;
        for (let n = 0; n <= 2 * reach; n++) {
          const beside = Math.min(count - 1, Math.max(0, at + n - reach));
          value += weights[n]! * from[line * apart + beside * step]!;
        }
        to[line * apart + at * step] = value / sum;
      }
    }
    return to;
  };
  return along(along(plane, width, 1, height, width), height, width, width, 1);
}

function addressOf(name: string): string {
  return new URL(name, import.meta.url).href;
}

async function answer(name: string): Promise<Response> {
  const got = await fetch(addressOf(name));
  if (!got.ok) throw new Error(`the server has no ${name}`);
  return got;
}
