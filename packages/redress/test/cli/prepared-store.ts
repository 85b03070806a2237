import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { failureCodes, redress } from '../../src/index.ts'

/** A store file with a job in every state, made by a program that has ended. */
export interface PreparedStore {
  data: string
  ids: Record<'failed' | 'complete' | 'queued' | 'orphaned' | 'letter' | 'archive', string>
  remove(): Promise<void>
}

export async function prepareStore(): Promise<PreparedStore> {
  const data = await mkdtemp(join(tmpdir(), 'redress-cli-store-'))
  const app = redress({ store: `sqlite:${join(data, 'redress.db')}` })
  const codes = failureCodes({
    GW_5XX: { fault: 'dependency', retry: 'transient', message: 'It kept failing.', waiting: 'We will try again.' },
  })
  const convert = app.job('pdf.convert', {
    codes,
    policy: { retry: { max: 2 }, manualRetry: 'in-place' },
    run: ({ ok }: { ok: boolean }, attempt) =>
      ok ? { pages: 3 } : attempt.fail('GW_5XX', { detail: '502 Bad Gateway' }),
  })
  const archive = app.job('pdf.archive', { codes, run: (_: object, attempt) => attempt.fail('GW_5XX') })
  const fetch = app.job('pdf.fetch', {
    codes,
    policy: { deadLetter: 'queue' },
    run: (_: object, attempt) => attempt.fail('GW_5XX'),
  })
  const hang = app.job('pdf.hang', { policy: { lease: { ttl: '1s' } }, run: () => new Promise(() => undefined) })

  const failed = await convert.submit({ ok: false }, { owner: 'ann' })
  const complete = await convert.submit({ ok: true })
  const archived = await archive.submit({ file: 'a.pdf' })
  const letter = await fetch.submit({})
  const orphaned = await hang.submit({})
  const worker = await app.makeWorker({ id: 'box:1:a' })
  for (let i = 0; i < 5; i++) await worker.tick()
  const queued = await convert.submit({ ok: true }, { delay: '1h', priority: 3 })
  worker.crash()
  await reportOrphan(app, orphaned.id)
  await app.stop()
  return {
    data,
    ids: {
      failed: failed.id,
      complete: complete.id,
      queued: queued.id,
      orphaned: orphaned.id,
      letter: letter.id,
      archive: archived.id,
    },
    remove: () => rm(data, { recursive: true, force: true }),
  }
}

/** Without waiting for the lease to run out: a store on the same file whose clock is ahead. */
async function reportOrphan(app: ReturnType<typeof redress>, id: string): Promise<void> {
  const ahead = redress({
    store: app.location ?? '',
    clock: {
      nowMs: () => Date.now() + 5_000,
      monoMs: () => performance.now(),
      setTimer: () => ({ cancel: () => undefined }),
    },
  })
  const worker = await ahead.makeWorker({ id: 'box:2:b' })
  const { reported } = await worker.maintain()
  await ahead.stop()
  if (reported !== 1) throw new Error(`job ${id} was not reported as an orphan`)
}
