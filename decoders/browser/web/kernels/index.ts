// Pixel kernels of the player, compiled to WebAssembly with SIMD (AssemblyScript).

export { mark, release, take } from "./memory";
export { open, draw } from "./draw";
export { addFace } from "./faces";
export { restore, split } from "./restoring";
export { convert, dissolve, hold, raiseTexture, resample } from "./pictures";
