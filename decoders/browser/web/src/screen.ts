/** The canvas that frames are shown on. */
export class Screen {
  private readonly context: CanvasRenderingContext2D;

  constructor(private readonly canvas: HTMLCanvasElement) {
    this.context = canvas.getContext("2d", { alpha: false })!;
  }

  /** `aspect`: width of a pixel over its height. */
  resize(width: number, height: number, aspect: number): void {
    this.canvas.width = width;
    this.canvas.height = height;
    if (aspect === 1) return;
    // Pixels that are not square: the canvas is as large as it can be in its own shape.
    const shape = (width * aspect) / height;
    this.canvas.style.objectFit = "fill";
    this.canvas.style.aspectRatio = String(shape);
    this.canvas.style.width = `min(100%, (100vh - 3.2em) * ${shape})`;
    this.canvas.style.height = "auto";
  }

  show(picture: ArrayBuffer): void {
    const { width, height } = this.canvas;
    this.context.putImageData(new ImageData(new Uint8ClampedArray(picture), width, height), 0, 0);
  }
}
