import { type App, RedressError } from 'redress'
import type { InstallContext } from 'redress/http'
import { openProxx } from '../install.ts'
import {
  listOrphans,
  markFailed,
  type OutputVerdict,
  type Proxx,
  retryJob,
  submitSpec,
  validateSpec,
  verifyOutputs,
} from '../operations.ts'
import { type Alarm, TYPE } from '../policy.ts'
import type { Report } from '../spec/checks.ts'
import type { ProxxJob } from '../view.ts'

/** Where the commands of proxx are done: on the store itself, or by a server. */
export interface Target {
  validate(spec: unknown): Promise<Report>
  /** A refused spec becomes a failed job: check its status. With an id of your own, submitting twice makes one job. */
  submit(spec: unknown, id?: string): Promise<ProxxJob>
  /** Null if there is no such job. */
  show(id: string): Promise<ProxxJob | null>
  retry(id: string, act: { reason: string; spec?: unknown; again?: boolean }): Promise<ProxxJob>
  markFailed(id: string, act: { reason: string }): Promise<ProxxJob>
  orphans(): Promise<ProxxJob[]>
  verify(id: string): Promise<OutputVerdict[]>
}

export interface LocalOptions extends InstallContext {
  app: App
  actor: string
  /** The command visits the store of running workers: it must not change their settings. */
  isVisit: boolean
}

export async function localTarget({ app, actor, isVisit, ...installContext }: LocalOptions): Promise<Target> {
  return targetOn(openProxx(app, installContext, isVisit ? await alarmInForce(app) : null), actor)
}

/**
 * The shell of a person seldom has the settings of the workers. Declaring its own would replace theirs: who gets
 * notices, and how soon an orphan is noticed. So it declares the stored values; null if there are none.
 */
async function alarmInForce(app: App): Promise<Alarm | null> {
  const { types } = await app.perform('types.list', {})
  const policy = types.find(({ name }) => name === TYPE)?.policy
  return policy === undefined ? null : { leaseMs: policy.lease.ttlMs, told: policy.notify.failed }
}

export function targetOn(proxx: Proxx, actor: string): Target {
  return {
    validate: (spec) => validateSpec(proxx, spec),
    submit: async (spec, id) => (await submitSpec(proxx, spec, { actor }, id === undefined ? {} : { id })).job,
    show: (id) => proxx.files.view(id),
    retry: (id, act) => retryJob(proxx, id, { ...act, actor }),
    markFailed: (id, act) => markFailed(proxx, id, { ...act, actor }),
    orphans: () => listOrphans(proxx),
    verify: (id) => verifyOutputs(proxx, id),
  }
}

interface Request {
  method: string
  path: string
  body: string | null
  mutates: boolean
  withinMs?: number
}

/** Every frame of every output is decoded. */
const VERIFY_MS_MAX = 24 * 3_600_000
/** A submission of many clips is checked completely before it is answered. */
const LOOK_MS_MAX = 10 * 60_000

/** `ask` sends a request. It throws a refusal as a RedressError. */
export function remoteTarget(ask: (request: Request) => Promise<unknown>): Target {
  const get = (path: string) => ask({ method: 'GET', path, body: null, mutates: false })
  const post = (path: string, body: unknown, { mutates = true, withinMs = LOOK_MS_MAX } = {}) =>
    ask({ method: 'POST', path, body: JSON.stringify(body), mutates, withinMs })
  const at = (id: string, what = '') => `/proxx/jobs/${encodeURIComponent(id)}${what}`

  async function show(id: string): Promise<ProxxJob | null> {
    try {
      return (await get(at(id))) as ProxxJob
    } catch (error) {
      if (error instanceof RedressError && error.code === 'JOB_NOT_FOUND') return null
      throw error
    }
  }

  /** A refusal that names another job is one that was recorded: that job is the answer. */
  async function made(path: string, body: unknown, of: string | null): Promise<ProxxJob> {
    try {
      return (await post(path, body)) as ProxxJob
    } catch (error) {
      const id = error instanceof RedressError ? error.jobId : undefined
      const job = id === undefined || id === of ? null : await show(id)
      if (job === null) throw error
      return job
    }
  }

  return {
    validate: async (spec) => (await post('/proxx/validate', spec, { mutates: false })) as Report,
    submit: (spec, id) => made(id === undefined ? '/proxx/jobs' : `/proxx/jobs?id=${id}`, spec, null),
    show,
    retry: (id, act) => made(at(id, '/retry'), act, id),
    markFailed: async (id, act) => (await post(at(id, '/mark-failed'), act)) as ProxxJob,
    orphans: async () => ((await get('/proxx/orphans')) as { jobs: ProxxJob[] }).jobs,
    verify: async (id) => {
      const answer = await post(at(id, '/verify'), {}, { mutates: false, withinMs: VERIFY_MS_MAX })
      return (answer as { outputs: OutputVerdict[] }).outputs
    },
  }
}
