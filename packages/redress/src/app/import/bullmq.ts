import { createRequire } from 'node:module'
import { join } from 'node:path'
import { RedressError } from '../../core/errors.ts'
import { REDIS_OPTION, shownAddress, withoutPeriod, withValidAddress } from './address.ts'
import {
  JOBS_PER_CHUNK,
  type LeftJobs,
  NOT_JSON,
  parsedJson,
  type Source,
  type SourceJob,
  type SourceSchedule,
} from './source.ts'

/** The commands of the `ioredis` client that the import uses. All of them only read. */
interface Redis {
  connect(): Promise<void>
  disconnect(): void
  on(event: 'error', listener: (error: Error) => void): void
  scan(cursor: string, ...options: (string | number)[]): Promise<[cursor: string, keys: string[]]>
  lrange(key: string, first: number, last: number): Promise<string[]>
  zrange(key: string, first: number, last: number, withScores: 'WITHSCORES'): Promise<string[]>
  llen(key: string): Promise<number>
  zcard(key: string): Promise<number>
  hget(key: string, field: string): Promise<string | null>
  hgetall(key: string): Promise<Record<string, string>>
  client(list: 'LIST'): Promise<string>
}

type RedisClass = new (url: string, options: object) => Redis

export interface BullmqOptions {
  url: string
  /** All queues of the prefix when left out. */
  queues: readonly string[] | null
  prefix: string
  /** Where `ioredis` may be installed: the project's folder first. */
  folders: readonly string[]
}

const CONNECT_MS_MAX = 10_000
const COMMAND_MS_MAX = 30_000

/** Delayed jobs are ordered by time and, within a millisecond, by a counter of 12 bits. */
const DELAYED_SCORE_PER_MS = 0x1000

const LISTS: Readonly<Record<string, readonly string[]>> = { waiting: ['wait', 'paused'] }
const SETS: Readonly<Record<string, string>> = { prioritized: 'prioritized', delayed: 'delayed', failed: 'failed' }

/** The queues of BullMQ 3 to 6 on Redis. */
export async function openBullmq({ url, queues, prefix, folders }: BullmqOptions): Promise<Source> {
  const RedisClient = loadIoredis(folders)
  const options = {
    lazyConnect: true,
    connectTimeout: CONNECT_MS_MAX,
    commandTimeout: COMMAND_MS_MAX,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
  }
  const redis = await withValidAddress(REDIS_OPTION, url, () => new RedisClient(url, options))
  const place = shownAddress(url)
  let trouble: Error | null = null
  redis.on('error', (error) => {
    trouble ??= error
  })
  const asked = async <T>(answer: Promise<T>): Promise<T> => {
    try {
      return await answer
    } catch (error) {
      redis.disconnect()
      throw unreadable(place, trouble ?? error)
    }
  }
  await asked(redis.connect())
  const keyOf = (queue: string, part: string): string => `${prefix}:${queue}:${part}`
  const known = await asked(queuesOf(redis, prefix))
  const problem = queueProblem(queues, known)
  if (problem !== null) {
    redis.disconnect()
    throw new RedressError('OPTION_INVALID', `${problem} with the prefix "${prefix}" at ${place}.`, {
      action: known.length === 0 ? 'Check --redis and --prefix.' : `The queues are: ${known.join(', ')}.`,
    })
  }
  const chosen = queues ?? known

  async function* idsOf(queue: string, state: string): AsyncGenerator<[id: string, score: number | null][]> {
    // The next job to run is at the end of a list, and new jobs come in at its beginning.
    for (const part of LISTS[state] ?? []) {
      for (let end = -1; ; end -= JOBS_PER_CHUNK) {
        const ids = await asked(redis.lrange(keyOf(queue, part), end - JOBS_PER_CHUNK + 1, end))
        if (ids.length === 0) break
        // BullMQ 4 kept marks of delayed jobs among the waiting ones.
        yield ids.reverse().flatMap((id) => (id.startsWith('0:') ? [] : [[id, null] as [string, null]]))
      }
    }
    const set = SETS[state]
    for (let first = 0; set !== undefined; first += JOBS_PER_CHUNK) {
      const found = await asked(redis.zrange(keyOf(queue, set), first, first + JOBS_PER_CHUNK - 1, 'WITHSCORES'))
      if (found.length === 0) break
      yield found.flatMap((id, i) => (i % 2 === 0 ? [[id, Number(found[i + 1])] as [string, number]] : []))
    }
  }

  return {
    system: 'bullmq',
    place,

    async workers() {
      const running: string[] = []
      for (const queue of chosen) {
        if ((await asked(redis.hget(keyOf(queue, 'meta'), 'paused'))) === null) running.push(queue)
      }
      const names = running.map((queue) => `${prefix}:${Buffer.from(queue).toString('base64')}`)
      try {
        const clients = [...(await redis.client('LIST')).matchAll(/ name=(\S*)/g)].map(([, name]) => name as string)
        return clients.filter((client) => names.some((name) => client === name || client.startsWith(`${name}:w:`)))
          .length
      } catch {
        // Some hosted servers do not allow the command.
        return null
      }
    },

    async *jobs(states) {
      for (const queue of chosen) {
        for (const state of states) {
          for await (const ids of idsOf(queue, state)) {
            const hashes = await asked(Promise.all(ids.map(([id]) => redis.hgetall(keyOf(queue, id)))))
            yield ids.map(([id, score], i) => toJob(queue, state, id, score, hashes[i] as Record<string, string>))
          }
        }
      }
    },

    async left(states) {
      const left: LeftJobs[] = []
      for (const queue of chosen) {
        const add = (state: string, count: number, why: string, isExpected: boolean): void => {
          if (count > 0) left.push({ queue, state, count, why, isExpected })
        }
        const inSet = (part: string) => asked(redis.zcard(keyOf(queue, part)))
        add('active', await asked(redis.llen(keyOf(queue, 'active'))), 'a worker runs them', false)
        add('waiting-children', await inSet('waiting-children'), 'they wait for other jobs of a flow', false)
        add('completed', await inSet('completed'), 'their work is done', true)
        for (const state of Object.keys({ ...LISTS, ...SETS }).filter((state) => !states.includes(state))) {
          let count = 0
          for (const part of LISTS[state] ?? []) count += await asked(redis.llen(keyOf(queue, part)))
          if (SETS[state] !== undefined) count += await inSet(SETS[state])
          add(state, count, 'the state is not in --include', true)
        }
      }
      return left
    },

    async schedules() {
      const found: SourceSchedule[] = []
      for (const queue of chosen) {
        const keys = await asked(redis.zrange(keyOf(queue, 'repeat'), 0, -1, 'WITHSCORES'))
        for (const key of keys.filter((_, i) => i % 2 === 0)) {
          found.push(toSchedule(queue, key, await asked(redis.hgetall(keyOf(queue, `repeat:${key}`)))))
        }
      }
      return found
    },

    // The time keeps jobs of two servers apart that have the same number in queues of the same name.
    partsOf: ({ queue, id, createdAtMs }) => [prefix, queue, id, createdAtMs],

    async stop() {
      redis.disconnect()
    },
  }
}

/** `ioredis` of the project, or the copy that BullMQ brought. */
function loadIoredis(folders: readonly string[]): RedisClass {
  for (const folder of folders) {
    const ofProject = createRequire(join(folder, 'any.js'))
    for (const from of [() => ofProject, () => createRequire(ofProject.resolve('bullmq'))]) {
      try {
        const loaded = from()('ioredis') as { default?: RedisClass; Redis?: RedisClass }
        return (loaded.Redis ?? loaded.default ?? loaded) as RedisClass
      } catch (error) {
        if ((error as { code?: string }).code !== 'MODULE_NOT_FOUND') throw error
      }
    }
  }
  throw new RedressError('PACKAGE_MISSING', 'The import from BullMQ needs ioredis, which Redress does not bring.', {
    action: 'Run `npm install ioredis` in the folder of your project, and run the import there.',
  })
}

function queueProblem(queues: readonly string[] | null, known: readonly string[]): string | null {
  if (known.length === 0) return 'There are no BullMQ queues'
  const missing = queues?.find((queue) => !known.includes(queue))
  return missing === undefined ? null : `There is no BullMQ queue "${missing}"`
}

async function queuesOf(redis: Redis, prefix: string): Promise<string[]> {
  const match = `${prefix.replace(/[\\*?[\]]/g, '\\$&')}:*:meta`
  const names = new Set<string>()
  let cursor = '0'
  do {
    const [next, keys] = await redis.scan(cursor, 'MATCH', match, 'COUNT', 1000)
    for (const key of keys) names.add(key.slice(prefix.length + 1, -':meta'.length))
    cursor = next
  } while (cursor !== '0')
  return [...names].sort()
}

function toJob(
  queue: string,
  state: string,
  id: string,
  score: number | null,
  hash: Readonly<Record<string, string>>,
): SourceJob {
  const opts = (parsedJson(hash.opts) ?? {}) as { priority?: number; jobId?: string }
  const input = parsedJson(hash.data)
  const attemptsMade = Number(hash.atm ?? hash.attemptsMade ?? 0)
  const priority = Number(hash.priority ?? opts.priority ?? 0)
  const isNextRun = hash.rjk !== undefined && state === 'delayed' && attemptsMade === 0
  const ownId = hash.rjk === undefined && opts.jobId !== undefined ? String(opts.jobId) : null
  return {
    queue,
    name: hash.name ?? '',
    id,
    state,
    input,
    // In BullMQ 1 comes before 2, and jobs without a priority come first.
    priority: priority === 0 ? 0 : -priority,
    dueAtMs: state === 'delayed' && score !== null ? Math.floor(score / DELAYED_SCORE_PER_MS) : null,
    dedupeKey: hash.deid ?? ownId,
    createdAtMs: Number(hash.timestamp ?? 0),
    attemptsMade,
    failure: state === 'failed' ? { error: errorOf(hash), atMs: Number(hash.finishedOn) || null } : null,
    left: leftOf(hash, isNextRun, input),
    note: hash.parentKey === undefined ? null : `is a child of ${hash.parentKey}, which will not hear of its end`,
  }
}

function leftOf(hash: Readonly<Record<string, string>>, isNextRun: boolean, input: unknown): SourceJob['left'] {
  if (hash.name === undefined) return { why: 'it is gone: it ended, or was removed', isExpected: false }
  if (isNextRun) return { why: 'it is the next run of a schedule', isExpected: true }
  return input === undefined ? NOT_JSON : null
}

/** A stack repeats the message in its first line. */
function errorOf({ failedReason = '', stacktrace }: Readonly<Record<string, string>>): string {
  const stacks = parsedJson(stacktrace)
  const last = Array.isArray(stacks) ? stacks.at(-1) : null
  if (typeof last !== 'string' || last === '') return failedReason || 'no reason was kept'
  return last.includes(failedReason) ? last : `${failedReason}\n${last}`
}

function toSchedule(queue: string, key: string, hash: Readonly<Record<string, string>>): SourceSchedule {
  // Before BullMQ 5, the key alone says it: name, id, end, time zone, pattern or milliseconds.
  const [name = key, , end, timezone, ...pattern] = hash.name === undefined ? key.split(':') : []
  const last = pattern.join(':')
  const every = hash.every ?? (/^\d+$/.test(last) ? last : undefined)
  const limits = [hash.limit && `limit ${hash.limit}`, (hash.endDate ?? end) && `end ${hash.endDate ?? end}`]
    .filter(Boolean)
    .join(', ')
  return {
    queue,
    name: hash.name ?? name,
    cron: hash.pattern ?? (every === undefined ? last || null : null),
    everyMs: every === undefined ? null : Number(every),
    timezone: hash.tz ?? (timezone || null),
    input: parsedJson(hash.data) ?? null,
    note: limits === '' ? null : limits,
  }
}

function unreadable(place: string, cause: unknown): RedressError {
  const { code, message } = cause as { code?: string; message?: string }
  const why = withoutPeriod(message ?? '') || code || String(cause)
  return new RedressError('SERVER_UNREACHABLE', `Redis at ${place} cannot be read: ${why}.`, {
    cause,
    action: 'Check --redis, and that the server runs and lets this user in.',
  })
}
