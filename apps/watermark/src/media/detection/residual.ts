import { GRID } from '../pattern.ts'
import { SAMPLES, SIDE, type SmallFrame } from './frames.ts'
import { type Placement, placed, UNMOVED } from './placement.ts'

/** The size of the neighbourhood whose mean is subtracted: anything wider than a few cells is content. */
const REACH = 2
/** The mark is at most two steps of 255. Stronger signals are content and must not outweigh the mark. */
const CLIP = 2

/**
 * The residual of frames after their content is removed: one number for each cell of the pattern. It is a sum over all
 * frames, because the mark does not move and the content does. These parts are removed as content:
 *
 * 1. Slow changes over the picture.
 * 2. What the nearest frame of the original also contains, if there is an original. Its share is fitted, so a wrong frame
 *    (of a clip that was cut) removes little and does no harm.
 * 3. Signals that are stronger than the mark can be.
 * 4. Signals that continue from one cell to the next.
 */
export class Residual {
  readonly #sum = new Float32Array(SAMPLES)
  readonly #energy = new Float32Array(SAMPLES)
  readonly #originals: readonly SmallFrame[]
  readonly #placement: Placement
  readonly #details = new Map<SmallFrame, SmallFrame>()
  #frames = 0

  /** The position of the originals' picture in the frames. */
  constructor(originals: readonly SmallFrame[] = [], placement: Placement = UNMOVED) {
    this.#originals = originals
    this.#placement = placement
  }

  add(suspect: SmallFrame): void {
    const isMoved = this.#placement !== UNMOVED
    const frame = isMoved ? placed({ side: SIDE, samples: suspect }, this.#placement) : suspect
    const original = nearest(frame, this.#originals)
    // Cells that the suspect does not show count as unmarked.
    const whole =
      original === null || !isMoved ? frame : frame.map((v, i) => (Number.isNaN(v) ? (original[i] ?? 0) : v))
    const left = detailOf(whole)
    if (original !== null) takeAway(left, this.#detailOf(original))
    for (let i = 0; i < SAMPLES; i++) {
      const value = Number.isNaN(frame[i]) ? 0 : Math.max(-CLIP, Math.min(CLIP, left[i] as number))
      this.#sum[i] = (this.#sum[i] as number) + value
      this.#energy[i] = (this.#energy[i] as number) + value * value
    }
    this.#frames++
  }

  /** One number for each cell. Where there is much unrest, it is worth less. */
  cells(): Float32Array {
    const unrest = blurred(this.#energy)
    const cells = new Float32Array(GRID * GRID)
    for (let y = 0; y < SIDE; y++) {
      for (let x = 0; x < SIDE; x++) {
        const i = y * SIDE + x
        const cell = (y >> 1) * GRID + (x >> 1)
        const weight = 1 / (0.5 + (unrest[i] as number) / this.#frames)
        cells[cell] = (cells[cell] as number) + (this.#sum[i] as number) * weight
      }
    }
    return whitened(cells)
  }

  #detailOf(original: SmallFrame): SmallFrame {
    const detail = this.#details.get(original) ?? detailOf(original)
    this.#details.set(original, detail)
    return detail
  }
}

/** The part of the picture that changes within a few cells. */
export function detailOf(frame: SmallFrame): SmallFrame {
  const mean = blurred(frame)
  for (let i = 0; i < SAMPLES; i++) mean[i] = (frame[i] as number) - (mean[i] as number)
  return mean
}

function takeAway(left: SmallFrame, known: SmallFrame): void {
  let [both, own] = [0, 1e-6]
  for (let i = 0; i < SAMPLES; i++) {
    both += (left[i] as number) * (known[i] as number)
    own += (known[i] as number) * (known[i] as number)
  }
  const share = both / own
  for (let i = 0; i < SAMPLES; i++) left[i] = (left[i] as number) - share * (known[i] as number)
}

/** A few hundred samples tell frames apart; the step has no common factor with the side. */
const STEP = 37

/** The original that differs least from a frame, where the frame has samples. */
export function nearest(frame: SmallFrame, originals: readonly SmallFrame[]): SmallFrame | null {
  let found: SmallFrame | null = null
  let smallest = Number.POSITIVE_INFINITY
  for (const original of originals) {
    let distance = 0
    for (let i = 0; i < SAMPLES; i += STEP) {
      const difference = Math.abs((frame[i] as number) - (original[i] as number))
      if (!Number.isNaN(difference)) distance += difference
    }
    if (distance < smallest) {
      smallest = distance
      found = original
    }
  }
  return found
}

/** The mean of each sample's neighbourhood, by rows and then by columns. */
function blurred(frame: Float32Array): Float32Array {
  return blurredAlong(blurredAlong(frame, 1, SIDE), SIDE, 1)
}

function blurredAlong(frame: Float32Array, step: number, stride: number): Float32Array {
  const out = new Float32Array(SAMPLES)
  for (let line = 0; line < SIDE; line++) {
    const start = line * stride
    for (let i = 0; i < SIDE; i++) {
      const [from, to] = [Math.max(0, i - REACH), Math.min(SIDE - 1, i + REACH)]
      let sum = 0
      for (let at = from; at <= to; at++) sum += frame[start + at * step] as number
      out[start + i * step] = sum / (to - from + 1)
    }
  }
  return out
}

/** Half of the neighbours up to two cells away. Each also represents its opposite, because content has no direction. */
const NEIGHBOURS: readonly (readonly [x: number, y: number])[] = [
  ...[1, 2].map((x) => [x, 0] as const),
  ...[1, 2].flatMap((y) => [-2, -1, 0, 1, 2].map((x) => [x, y] as const)),
]

/**
 * Subtracts from each cell what its neighbours predict. Content continues from one cell to the next; the mark does
 * not, because its cells are random. The weight of the neighbours is fitted to this file.
 */
function whitened(cells: Float32Array): Float32Array {
  const size = NEIGHBOURS.length
  const around = new Float64Array(GRID * GRID * size)
  const matrix = new Float64Array(size * size)
  const right = new Float64Array(size)
  for (let i = 0; i < GRID * GRID; i++) {
    const pairs = around.subarray(i * size, (i + 1) * size)
    for (const [n, [dx, dy]] of NEIGHBOURS.entries()) {
      pairs[n] =
        cellAt(cells, (i % GRID) + dx, Math.floor(i / GRID) + dy) +
        cellAt(cells, (i % GRID) - dx, Math.floor(i / GRID) - dy)
    }
    observe(matrix, right, pairs, cells[i] as number, 1)
  }
  const shares = solved(matrix, right)
  if (shares === null) return cells
  return cells.map((cell, i) => {
    let told = 0
    for (let n = 0; n < size; n++) told += (around[i * size + n] as number) * (shares[n] as number)
    return cell - told
  })
}

/** Beyond an edge, the value at the edge is used. */
function cellAt(cells: Float32Array, x: number, y: number): number {
  const within = (at: number): number => Math.max(0, Math.min(GRID - 1, at))
  return cells[within(y) * GRID + within(x)] as number
}

/**
 * Solves a symmetric system of equations, by elimination. Null where the equations do not say enough. The matrix is
 * given by rows and used up.
 */
export function solved(matrix: Float64Array, right: Float64Array): Float64Array | null {
  const size = right.length
  const at = (row: number, column: number): number => matrix[row * size + column] as number
  const out = right.slice()
  for (let pivot = 0; pivot < size; pivot++) {
    const own = at(pivot, pivot)
    // Symmetric, and no row is a sum of squares that is negative: a pivot that small means that a row says nothing new.
    if (!(own > 1e-9)) return null
    for (let row = pivot + 1; row < size; row++) {
      const factor = at(row, pivot) / own
      if (factor === 0) continue
      for (let column = pivot; column < size; column++) {
        matrix[row * size + column] = at(row, column) - factor * at(pivot, column)
      }
      out[row] = (out[row] as number) - factor * (out[pivot] as number)
    }
  }
  for (let row = size - 1; row >= 0; row--) {
    let rest = out[row] as number
    for (let column = row + 1; column < size; column++) rest -= at(row, column) * (out[column] as number)
    out[row] = rest / at(row, row)
  }
  return out
}

/** Adds one observation to the equations of a fit by least squares. */
export function observe(
  matrix: Float64Array,
  right: Float64Array,
  factors: Float64Array,
  value: number,
  weight: number,
): void {
  const size = right.length
  for (let row = 0; row < size; row++) {
    const weighted = (factors[row] as number) * weight
    if (weighted === 0) continue
    right[row] = (right[row] as number) + weighted * value
    for (let column = 0; column < size; column++) {
      const i = row * size + column
      matrix[i] = (matrix[i] as number) + weighted * (factors[column] as number)
    }
  }
}
