// Builds the player into ../page, which is kept in the repository and shipped with the package.
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const [target = "../page"] = process.argv.slice(2);
const options = {
  bundle: true,
  format: "esm",
  minify: true,
  target: "es2022",
  legalComments: "none",
  external: ["./gsvc.js"],
  outdir: target,
  entryPoints: ["src/gsvc.ts", "src/worker.ts", "src/player.ts"],
};

mkdirSync(target, { recursive: true });
await build(options);
for (const name of ["index.html", "player.css", "ort.licence.txt"]) copyFileSync(`static/${name}`, `${target}/${name}`);
// The runtime of the restorer, with WebGPU; its code is a quarter as large when packed.
const runtime = "node_modules/onnxruntime-web/dist";
copyFileSync(`${runtime}/ort.jspi.bundle.min.mjs`, `${target}/ort.js`);
const code = readFileSync(`${runtime}/ort-wasm-simd-threaded.jspi.wasm`);
writeFileSync(`${target}/ort.wasm.gz`, gzipSync(code, { level: 9 }));
execFileSync(process.execPath, [
  "node_modules/assemblyscript/bin/asc.js",
  ...["kernels/index.ts", "-o", `${target}/kernels.wasm`],
  ...["-O3", "--runtime", "stub", "--enable", "simd", "--noAssert", "--use", "abort="],
]);
