/** Streams of gsvc: parser of packets and scaffold, and what draws the frames. */
export { Kernels } from "./drawing/kernels.js";
export { closingSample, isKey, Renderer } from "./drawing/renderer.js";
export { BitstreamError, LimitError, TruncatedStreamError } from "./errors.js";
export { Geometry } from "./scaffold/geometry.js";
export { Place } from "./scaffold/layout.js";
export { codecString, temporalUnit } from "./stream/av1.js";
export { GroupReader } from "./stream/group.js";
export type { Header } from "./stream/header.js";
export { isPicture, type Packet, PacketReader, PacketType } from "./stream/packets.js";
export { Decoder } from "./decoder.js";
export type { Frame } from "./decoder.js";
export { type Key, Restorer } from "./restorer.js";
export { Library } from "./library.js";
export { BrowserPictures } from "./webcodecs.js";
