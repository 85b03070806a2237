import { observe, solved } from './linear.ts'
import { GRID } from './pattern.ts'

/** Half of the neighbours up to two cells away; each stands for its opposite too, as content has no direction. */
const NEIGHBOURS: readonly (readonly [x: number, y: number])[] = [
  ...[1, 2].map((x) => [x, 0] as const),
  ...[1, 2].flatMap((y) => [-2, -1, 0, 1, 2].map((x) => [x, y] as const)),
]

/**
 * Takes away from each cell what its neighbours tell about it. Content goes on from one cell to the next, and the mark
 * does not: its cells are thrown like coins. How much a neighbour tells is fitted to this very file.
 */
export function whitened(cells: Float32Array): Float32Array {
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

/** Beyond an edge is what is at the edge. */
function cellAt(cells: Float32Array, x: number, y: number): number {
  const within = (at: number): number => Math.max(0, Math.min(GRID - 1, at))
  return cells[within(y) * GRID + within(x)] as number
}
