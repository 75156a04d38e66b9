// In a page of `gsvc serve`: a function that decodes a stream, given as base64, to its end. It returns
// the number of frames, or the error; any other than a BitstreamError is named CRASH.
(async () => {
  const gsvc = await import(new URL("gsvc.js", location.href));
  const code = await (await fetch("kernels.wasm")).arrayBuffer();
  window.decodeAll = async (text) => {
    const packets = new gsvc.PacketReader();
    const pictures = new gsvc.BrowserPictures();
    let frames = 0;
    try {
      packets.push(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)));
      let decoder;
      for (let packet = packets.next(); packet; packet = packets.next()) {
        decoder ??= new gsvc.Decoder(packets.header, await gsvc.Kernels.load(code), pictures);
        if (!gsvc.isPicture(packet)) continue;
        for await (const frame of decoder.frames(packet)) frames += (await frame.draw()).length > 0;
      }
      packets.close();
      return `${frames} frames`;
    } catch (error) {
      return error instanceof gsvc.BitstreamError ? error.message : `CRASH ${error}`;
    } finally {
      pictures.close();
    }
  };
})()
