// In a page of `gsvc serve`: decodes its stream frame by frame with the browser's AV1 decoder.
(async () => {
  const gsvc = await import(new URL("gsvc.js", location.href));
  const bytes = async (name) => new Uint8Array(await (await fetch(name)).arrayBuffer());
  const packets = new gsvc.PacketReader();
  packets.push(await bytes("stream.gsv"));
  let first = packets.next();
  const kernels = await gsvc.Kernels.load(await bytes("kernels.wasm"));
  const decoder = new gsvc.Decoder(packets.header, kernels, new gsvc.BrowserPictures());
  async function* all() {
    for (let packet = first; packet; packet = packets.next()) {
      if (gsvc.isPicture(packet)) yield* decoder.frames(packet);
    }
  }
  const frames = all();
  const text = (data) => {
    let parts = "";
    for (let at = 0; at < data.length; at += 8192) {
      parts += String.fromCharCode(...data.subarray(at, at + 8192));
    }
    return btoa(parts);
  };
  window.leaveOutFaces = () => {
    const read = decoder.groups.read.bind(decoder.groups);
    decoder.groups.read = (packet) => {
      const parsed = read(packet);
      for (const interval of parsed.intervals) interval.faces = undefined;
      return parsed;
    };
    return null;
  };
  window.restore = async () => {
    decoder.restorer = await gsvc.Restorer.load(kernels);
    return null;
  };
  // Its time, its pixels in RGBA as base64, and the milliseconds that it took.
  window.nextFrame = async (wantsPixels = true) => {
    const began = performance.now();
    const { value, done } = await frames.next();
    if (done) return null;
    const picture = await value.draw();
    const took = performance.now() - began;
    return { pts: value.pts, took, pixels: wantsPixels ? text(picture) : "" };
  };
  return packets.header;
})()
