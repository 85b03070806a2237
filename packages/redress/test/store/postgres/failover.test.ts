import postgres from 'postgres'
import { expect, onTestFinished, test } from 'vitest'
import { newJob as plainJob } from '../../../../../test/support/stores/new-job.ts'
import { startCluster } from '../../../../../test/support/stores/postgres-cluster.ts'
import { until } from '../../../../../test/support/until.ts'
import { placeText } from '../../../src/app/store/open-store.ts'
import { policy } from '../../../src/core/policy/policy.ts'
import type { NewJob } from '../../../src/store/contract/store.ts'
import { hostsOf, plainUrl } from '../../../src/store/postgres/connection/hosts.ts'
import { placeOf } from '../../../src/store/postgres/connection/opening.ts'
import { openPostgres } from '../../../src/store/postgres/store.ts'

const newJob = (): NewJob => plainJob({ type: 'work' })

test('an address may name several hosts, and is shown without its password', () => {
  const url =
    'postgres://ann:s3cret@one.example:5433,two.example,[::1]:5434/jobs?target_session_attrs=read-write&work_mem=8MB'
  expect(hostsOf(url)).toEqual([
    { name: 'one.example', port: 5433 },
    { name: 'two.example', port: 5432 },
    { name: '::1', port: 5434 },
  ])
  expect(plainUrl(url)).toBe('postgres://ann:s3cret@one.example:5433/jobs?work_mem=8MB')
  expect(plainUrl('postgres://localhost/jobs?sslmode=verify-full&sslrootcert=ca.pem&statement_timeout=5s')).toBe(
    'postgres://localhost:5432/jobs',
  )
  expect(plainUrl('postgres://localhost/jobs?target_session_attrs=any')).toBe('postgres://localhost:5432/jobs')
  expect(plainUrl('postgres:///jobs')).toBe('postgres:///jobs')
  expect(placeOf(url)).toBe('one.example:5433,two.example:5432,[::1]:5434/jobs')
  expect(placeText(url)).not.toContain('s3cret')
  expect(placeText(url)).toContain('two.example')
})

test('when none of the hosts is there, that is said, and not tried for ever', async () => {
  const refused = openPostgres({ url: 'postgres://nobody@127.0.0.1:9,127.0.0.1:10/none' })
  await expect(refused).rejects.toMatchObject({
    code: 'STORE_UNREACHABLE',
    message: expect.stringContaining('127.0.0.1:9,127.0.0.1:10/none'),
  })
})

test('a commit that did not wait for its standby is not acknowledged before the standby has it', async () => {
  const cluster = await startCluster()
  onTestFinished(() => cluster.stop())
  const store = await openPostgres({ url: cluster.primary.url })
  onTestFinished(() => store.stop())
  await store.register({ types: [{ name: 'work', queue: 'default', policy: policy() }] })
  await store.submit({ jobs: [newJob()] })
  await cluster.standby.crash()
  const admin = postgres(cluster.primary.url, { max: 1 })
  onTestFinished(() => admin.end())
  const job = newJob()
  let isAcknowledged = false
  const submitted = store.submit({ jobs: [job] }).finally(() => {
    isAcknowledged = true
  })
  /** Ends the wait of a commit: the server has it and says so, with no more than a warning. */
  const endWait = async (query: string): Promise<void> => {
    const pid = await until('a commit waits for the standby', async () => {
      const [row] = await admin`
        SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query ILIKE ${query}`
      return row?.pid as number | undefined
    })
    await admin`SELECT pg_cancel_backend(${pid})`
  }
  await endWait('%job_specs%')
  await endWait('commit')
  await until('it waits once more', async () => {
    const rows = await admin`SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'`
    return rows.length > 0
  })
  expect(await store.job({ id: job.id })).not.toBeNull()
  expect(isAcknowledged).toBe(false)
  await cluster.standby.start()
  expect(await submitted).toEqual([{ id: job.id, isNew: true, status: 'queued' }])
  expect(await store.events({ id: job.id })).toHaveLength(1)
})

test('a store with both addresses goes over to the standby that was promoted, and stays with it', async () => {
  const cluster = await startCluster()
  onTestFinished(() => cluster.stop())
  const store = await openPostgres({ url: cluster.url })
  onTestFinished(() => store.stop())
  await store.register({ types: [{ name: 'work', queue: 'default', policy: policy() }] })
  const before = newJob()
  await store.submit({ jobs: [before] })
  await cluster.promote()
  // The old one is alive and believes to be the primary, but nothing that is written there is ever acknowledged.
  const after = newJob()
  expect(await store.submit({ jobs: [after] })).toMatchObject([{ id: after.id, isNew: true }])
  for (const { id } of [before, after]) expect(await store.job({ id })).toMatchObject({ status: 'queued' })
  const added = postgres(cluster.standby.url, { max: 1, connection: { search_path: 'redress' } })
  onTestFinished(() => added.end())
  expect(await added`SELECT count(*)::int AS n FROM job_specs WHERE id IN ${added([before.id, after.id])}`).toEqual([
    { n: 2 },
  ])
})
