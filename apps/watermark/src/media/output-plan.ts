/** How a kind of file is written. */
export interface OutputPlan {
  name: string
  codec: string
  width: number
  height: number
  /** The pixel format in which the pattern is added, and how many of its planes carry it. */
  pattern: { format: string; planes: number; flatBytes: number }
  /** Brings the source into a format that text can be drawn on, into the pattern's, and into the encoder's. */
  toDraw: string
  toMark: string
  toEncode: string
  encoder: readonly string[]
}
