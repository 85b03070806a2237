const SEED_DEFAULT = 1

/**
 * The seed of a random test. The same one unless asked, so that a build fails only for a reason of its own;
 * `REDRESS_SEED=random` looks further, and the seed of a failure is in its name, to be repeated.
 */
export function seedOf(): number {
  const given = process.env.REDRESS_SEED
  if (given === 'random') return Math.floor(Math.random() * 2 ** 31)
  return given === undefined ? SEED_DEFAULT : Number(given)
}
