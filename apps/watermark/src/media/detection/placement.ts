/**
 * The position of the source's picture in the suspect: a point (u, v) of the source is at (a u + b v + c, d u + e v +
 * f) of the suspect. Both pictures reach from -1 to 1.
 */
export type Placement = readonly [a: number, b: number, c: number, d: number, e: number, f: number]

export const UNMOVED: Placement = [1, 0, 0, 0, 1, 0]

/** A square picture of brightness, `side` samples wide. */
export interface Square {
  side: number
  samples: Float32Array
}

/** The suspect at one sample of the source: the brightness, and its change in both directions. */
export interface Seen {
  value: number
  alongX: number
  alongY: number
}

/** Reads between samples. False where the suspect does not reach. */
export function see({ side, samples }: Square, x: number, y: number, seen: Seen): boolean {
  if (!(x >= -1 && x <= 1 && y >= -1 && y <= 1)) return false
  const column = Math.max(0, Math.min(side - 1, ((x + 1) * side - 1) / 2))
  const row = Math.max(0, Math.min(side - 1, ((y + 1) * side - 1) / 2))
  const left = Math.min(side - 2, Math.floor(column))
  const top = Math.min(side - 2, Math.floor(row))
  const [fx, fy] = [column - left, row - top]
  const i = top * side + left
  const [nw, ne] = [samples[i] as number, samples[i + 1] as number]
  const [sw, se] = [samples[i + side] as number, samples[i + side + 1] as number]
  const north = nw + (ne - nw) * fx
  const south = sw + (se - sw) * fx
  seen.value = north + (south - north) * fy
  seen.alongX = (((ne - nw) * (1 - fy) + (se - sw) * fy) * side) / 2
  seen.alongY = ((south - north) * side) / 2
  return true
}

/** The suspect as the source has it; NaN where it does not reach. */
export function placed(suspect: Square, [a, b, c, d, e, f]: Placement): Float32Array {
  const { side } = suspect
  const out = new Float32Array(side * side)
  const seen: Seen = { value: 0, alongX: 0, alongY: 0 }
  for (let i = 0; i < out.length; i++) {
    const u = middle(i % side, side)
    const v = middle(Math.floor(i / side), side)
    out[i] = see(suspect, a * u + b * v + c, d * u + e * v + f, seen) ? seen.value : Number.NaN
  }
  return out
}

/** Of a sample, between -1 and 1. */
export const middle = (index: number, side: number): number => (2 * index + 1) / side - 1

export function halved({ side, samples }: Square): Square {
  const half = side / 2
  const out = new Float32Array(half * half)
  for (let i = 0; i < out.length; i++) {
    const at = Math.floor(i / half) * 2 * side + (i % half) * 2
    const above = (samples[at] as number) + (samples[at + 1] as number)
    const below = (samples[at + side] as number) + (samples[at + side + 1] as number)
    out[i] = (above + below) / 4
  }
  return { side: half, samples: out }
}
