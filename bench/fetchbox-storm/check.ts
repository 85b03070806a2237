import type { ArtifactStore } from 'redress/artifacts'
import { CODE_OF, type Origins, sumOf } from './origins.ts'
import type { Storage } from './storages.ts'

interface KnownJob {
  id: string
  prefix: string
  numbers: readonly number[]
  /** Nothing could be stored for it. */
  isBlocked: boolean
}

/** What there is to compare. */
export interface Known {
  url: string
  storage: Storage
  origins: Origins
  jobs: KnownJob[]
}

export interface Checked {
  problems: string[]
  stored: number
  failed: number
  causes: Record<string, number>
}

interface Shown {
  id: string
  status: string
  sha256: string | null
  key: string | null
  error: { code: string } | null
  deadLetter: { offset: number } | null
}

interface Snapshot {
  status: string
  resourcesTotal: number
  resourcesCompleted: number
  resourcesFailed: number
  bytes: number
}

/** Trouble that may meet any resource in a storm, whatever is wrong with the resource itself. */
const OF_THE_WEATHER = /^(DOWNLOAD_PROXY_|DOWNLOAD_CONNECTION$|DOWNLOAD_TIMEOUT$|UPLOAD_|WORKER_LOST$)/

/** Compares what was asked for, what the snapshots say and what is in the storage: nothing lost, nothing that is not told. */
export async function check(known: Known, { isHealed }: { isHealed: boolean }): Promise<Checked> {
  const checked: Checked = { problems: [], stored: 0, failed: 0, causes: {} }
  for (const job of known.jobs) await checkJob(known, job, isHealed, checked)
  return checked
}

async function checkJob({ url, storage, origins }: Known, job: KnownJob, isHealed: boolean, checked: Checked) {
  const ask = async (path: string) => (await fetch(`${url}/fetchbox/jobs/${job.id}${path}`)).json()
  const snapshot = (await ask('')) as Snapshot
  const { resources } = (await ask('/resources?limit=1000')) as { resources: Shown[] }
  const listed = await listAll(storage.store, job.prefix)
  const problem = (text: string) => void checked.problems.push(`job ${job.id}: ${text}`)

  const complete = resources.filter(({ status }) => status === 'complete')
  const failed = resources.filter(({ status }) => status === 'failed')
  checked.stored += complete.length
  checked.failed += failed.length
  const keys = new Set(complete.map(({ key }) => key))
  const strays = [...listed.keys()].filter((key) => !keys.has(key))
  const bytes = complete.reduce((sum, { key }) => sum + (listed.get(key ?? '') ?? 0), 0)
  const counted = [snapshot.resourcesTotal, snapshot.resourcesCompleted, snapshot.resourcesFailed, snapshot.bytes]
  const found = [job.numbers.length, complete.length, failed.length, bytes]
  if (String(counted) !== String(found)) problem(`its snapshot says ${counted}, and there are ${found}`)
  if (complete.length + failed.length !== job.numbers.length) problem(`has ${resources.length} resources`)
  if (isHealed && snapshot.status !== 'complete') problem(`is ${snapshot.status} when everything is healed`)

  for (const n of job.numbers) {
    const shown = resources.find(({ id }) => id === `r${n}`)
    if (shown?.status === 'complete') await checkStored(storage.store, n, shown, listed, problem)
    else checkCause(origins, n, job, shown, checked, problem)
  }
  // What a worker stored that was killed before it could say so stays, and the replay puts the same again.
  for (const key of strays) {
    const shown = failed.find(({ id }) => key === `${job.prefix}${id}`)
    const n = Number(shown?.id.slice(1))
    if (isHealed || shown === undefined) problem(`${key} is stored, and nobody says so`)
    else await checkStored(storage.store, n, { key, sha256: sumOf(n) }, listed, problem)
  }
}

async function checkStored(
  store: ArtifactStore,
  n: number,
  { key, sha256 }: Pick<Shown, 'key' | 'sha256'>,
  listed: ReadonlyMap<string, number>,
  problem: (text: string) => void,
): Promise<void> {
  if (key === null || !listed.has(key)) return problem(`r${n} is complete and not in the storage`)
  const { verdict, sha256: found } = await store.verify(key)
  if (verdict !== 'intact' || found !== sumOf(n) || sha256 !== found) problem(`r${n} has other bytes than its origin`)
}

function checkCause(
  origins: Origins,
  n: number,
  { isBlocked }: KnownJob,
  shown: Shown | undefined,
  { causes }: Checked,
  problem: (text: string) => void,
): void {
  const code = shown?.error?.code ?? 'nothing'
  if (shown?.deadLetter === null || shown === undefined) {
    problem(`r${n} is neither stored nor a dead letter`)
    return
  }
  const kind = origins.kindOf(n)
  const told = `${kind ?? (isBlocked ? 'blocked' : 'well')}: ${code}`
  causes[told] = (causes[told] ?? 0) + 1
  // Also what happens once may be the last of three: the weather took the other tries.
  const isOfKind = kind !== null && code === CODE_OF[kind]
  if (!isOfKind && !OF_THE_WEATHER.test(code)) problem(`r${n} (${kind}) is told as ${code}`)
}

async function listAll(store: ArtifactStore, prefix: string): Promise<Map<string, number>> {
  const found = new Map<string, number>()
  for (let after: string | null = ''; after !== null; ) {
    const page = await store.list({ prefix, ...(after !== '' && { after }) })
    for (const { key, bytes } of page.artifacts) found.set(key, bytes)
    after = page.next
  }
  return found
}
