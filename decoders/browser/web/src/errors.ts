/** What is wrong with a stream, in the words that Python's decoder uses. */
export class BitstreamError extends Error {}

/** The stream asks for more than its limits permit. */
export class LimitError extends BitstreamError {}

/** The stream ends before its END packet: more of it may be on its way. */
export class TruncatedStreamError extends BitstreamError {}
