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
