/** What one caller, or all together, may take of a server. */
export interface HttpLimits {
  /** Maximum size of a request body; larger uploads need their own route. */
  bodyBytesMax: number
  /** From the headers of a request to its last byte, on routes that do not ask for more. */
  requestMs: number
  /** From the connection to the last header. */
  headersMs: number
  /** How long nothing may move on a connection, in neither direction. */
  quietMs: number
  connectionsMax: number
  /** Event streams that may be open at once: per caller, per address, and in total. */
  streamsPerCallerMax: number
  streamsPerAddressMax: number
  streamsMax: number
  /** How far the number of a stream may be behind that of the newest event. A stream further behind gets a gap. */
  streamBehindMax: number
  topicsPerStreamMax: number
  /** How often open streams are re-authorized. */
  streamCheckMs: number
  /** Secrets that were wrong, from one address, per minute. */
  wrongSecretsPerMinute: number
}

/** The default limits of the server. */
export const HTTP_LIMITS: HttpLimits = {
  bodyBytesMax: 2_000_000,
  requestMs: 30_000,
  headersMs: 10_000,
  quietMs: 60_000,
  connectionsMax: 20_000,
  streamsPerCallerMax: 20,
  streamsPerAddressMax: 100,
  streamsMax: 10_000,
  streamBehindMax: 100_000,
  topicsPerStreamMax: 50,
  streamCheckMs: 30_000,
  wrongSecretsPerMinute: 20,
}
