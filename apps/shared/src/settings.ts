import { RedressError } from 'redress'
import { z } from 'zod'

export type Environment = Readonly<Record<string, string | undefined>>

export const whole = (min: number, max: number, fallback: number) =>
  z.coerce.number().int().min(min).max(max).default(fallback)

export const place = z.string().min(1).optional()

/** For `storeUrl`. Another kind of URL would become a folder with a strange name. */
export const storePlace = z
  .string()
  .min(1)
  .refine((given) => !/^(?!s3:|file:)[a-z][a-z\d+.-]*:\/\//i.test(given), 'must be a folder, or s3://bucket/prefix')
  .optional()

/** Reads an app's variables. Reports all invalid values at once, by name. An empty variable counts as unset. */
export function readKnobs<Shape extends z.ZodObject>(knobs: Shape, env: Environment, appName: string): z.output<Shape> {
  const given = Object.fromEntries(
    Object.keys(knobs.shape).flatMap((name) => {
      const value = env[name]?.trim()
      return value === undefined || value === '' ? [] : [[name, value]]
    }),
  )
  const read = knobs.safeParse(given)
  if (read.success) return read.data
  const problems = read.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`)
  throw new RedressError(
    'OPTION_INVALID',
    `The environment has values that ${appName} cannot use: ${problems.join('; ')}`,
    {
      problems,
      action: `Correct them, or unset them: the guide to ${appName} has their meaning and defaults.`,
    },
  )
}

/** smtp://user:password@mail.example.org:587 */
export function smtpOf(address: string) {
  const { protocol, hostname, port, username, password } = new URL(address)
  const auth = { user: decodeURIComponent(username), pass: decodeURIComponent(password) }
  return {
    host: hostname,
    secure: protocol === 'smtps:',
    ...(port !== '' && { port: Number(port) }),
    ...(username !== '' && { auth }),
  }
}
