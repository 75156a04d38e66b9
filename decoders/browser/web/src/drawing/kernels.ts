/** A number that says where a buffer lies in the memory of the kernels. */
export type Pointer = number;

/** What the kernels export: see `kernels/index.ts`. */
interface Exports {
  memory: WebAssembly.Memory;
  mark(): Pointer;
  release(at: Pointer): void;
  take(bytes: number): Pointer;
  open(
    left: Pointer,
    right: Pointer,
    leftShown: Pointer,
    rightShown: Pointer,
    width: number,
    height: number,
    estimator: number,
  ): void;
  draw(time: number, bend: Pointer, side: Pointer, target: Pointer): void;
  addFace(
    points: Pointer,
    head: Pointer,
    mouth: Pointer,
    columns: number,
    rows: number,
    cell: number,
    eyes: number,
    leans: number,
    left: number,
    top: number,
    right: number,
    bottom: number,
    width: number,
    vectors: Pointer,
    side: Pointer,
  ): void;
  convert(
    luma: Pointer,
    cb: Pointer,
    cr: Pointer,
    width: number,
    height: number,
    red: number,
    blue: number,
    fullRange: boolean,
    target: Pointer,
  ): void;
  resample(
    picture: Pointer,
    width: number,
    height: number,
    target: Pointer,
    toWidth: number,
    toHeight: number,
  ): void;
  raiseTexture(
    picture: Pointer,
    width: number,
    height: number,
    gains: Pointer,
    rows: number,
    columns: number,
    side: number,
    sigma: number,
  ): void;
  split(
    picture: Pointer,
    width: number,
    height: number,
    gains: Pointer,
    rows: number,
    columns: number,
    side: number,
    target: Pointer,
    halfWidth: number,
    halfHeight: number,
  ): void;
  restore(
    picture: Pointer,
    width: number,
    height: number,
    drawn: Pointer,
    columns: number,
    rows: number,
    target: Pointer,
  ): void;
  dissolve(left: Pointer, right: Pointer, count: number, time: number, target: Pointer): void;
  hold(
    picture: Pointer,
    width: number,
    height: number,
    bend: Pointer,
    target: Pointer,
  ): void;
}

/** The kernels, with typed arrays in place of their memory. */
export class Kernels {
  private constructor(readonly call: Exports) {}

  static async load(code: BufferSource): Promise<Kernels> {
    const { instance } = await WebAssembly.instantiate(code, {});
    return new Kernels(instance.exports as unknown as Exports);
  }

  /** A buffer with a copy of `data`. */
  put(data: Uint8Array | Float32Array): Pointer {
    const at = this.call.take(data.byteLength);
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    new Uint8Array(this.call.memory.buffer, at, data.byteLength).set(bytes);
    return at;
  }

  /** A copy of `size` bytes. */
  get(at: Pointer, size: number): Uint8Array<ArrayBuffer> {
    return new Uint8Array(this.call.memory.buffer, at, size).slice();
  }

  /** Runs `work`, and gives back the buffers that it took. */
  scoped<T>(work: () => T): T {
    const start = this.call.mark();
    try {
      return work();
    } finally {
      this.call.release(start);
    }
  }
}
