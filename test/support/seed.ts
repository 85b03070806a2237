/** The seed of a random test: another one each time, or the one that is to be repeated. */
export function seedOf(): number {
  const given = process.env.REDRESS_SEED
  return given === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(given)
}
