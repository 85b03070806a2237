import { tmpdir } from 'node:os'
import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import { seedOf } from '../../../../../test/support/seed.ts'
import { did, size } from '../../../../../test/support/size.ts'
import { ownDatabase } from '../../../../../test/support/stores/databases.ts'
import { startPostgres } from '../../../../../test/support/stores/postgres.ts'
import { type Answer, makeWorld, type World } from '../world.ts'
import { Contract } from './document.ts'
import { type HostileRequest, hostileRequests } from './hostile-requests.ts'

const AT_ONCE = 16
const STREAM = '/api/events'
/** A trace or a path of the machine; what the requests themselves bring along is not of this shape. */
const INSIDES =
  /\\n\s+at \S|\.(?:ts|js):\d+|\bnode_modules\b|\/tmp\/|\bsrc\/(?:http|store|app|core)\b|SQLITE_(?!TOO_OLD)|PostgresError/

/** What must never be in an answer, though the server has it. */
const plantedIn = ({ tokens, file }: World): string[] =>
  [...Object.values(tokens), file, tmpdir()].filter((one) => one !== undefined)

/** A second driver needs fewer: what it cannot bear is a value, not a combination. */
const CASES = [
  { driver: 'sqlite', requests: size(1_500, 10_500) },
  { driver: 'postgres', requests: size(300, 1_500) },
] as const

test.each(CASES)(
  '$requests requests made from the document, and made hostile, get no 5xx, nothing undocumented and nothing of the inside ($driver)',
  { timeout: 180_000 },
  async ({ driver, requests }) => {
    const place = driver === 'postgres' ? await ownPostgres() : {}
    const limits = { wrongSecretsPerMinute: 1_000_000, streamsPerCallerMax: 1_000 }
    const world = await makeWorld({ limits, ...place })
    const { json: document } = await world.ask('/openapi.json', { as: 'admin' })
    const contract = new Contract(document)
    const known = [...Object.values(world.jobs.ann), ...Object.values(world.batches), 'step', 'default', 'gateway', '1']
    const planted = plantedIn(world)
    const wrong: string[] = []
    const statuses = new Map<number, number>()
    const next = fc.sample(hostileRequests(document, known), { numRuns: requests, seed: seedOf() }).values()
    const work = async () => {
      for (const request of next) {
        const { as, method, path, asking } = request
        const answer = await world.ask(path, { as, method, ...asking }).catch((error: Error) => error)
        if (answer instanceof Error) {
          // What is too long to be read has no method yet, so that its refusal has a body, which no HEAD expects.
          if (method === 'HEAD' && path.length > 10_000) continue
          wrong.push(`${answer.message}: ${JSON.stringify(request).slice(0, 600)}`)
          continue
        }
        statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1)
        for (const problem of problemsOf(contract, request, answer, planted)) {
          const asked = JSON.stringify(request).slice(0, 600)
          wrong.push(`${problem}: ${asked} -> ${answer.status} ${answer.text.slice(0, 300)}`)
        }
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, work))
    did({ requests, statuses: Object.fromEntries(statuses) })
    expect(wrong.slice(0, 20)).toEqual([])
    // Not all of it is refused at the door: enough gets to where something can go wrong.
    expect(statuses.get(200) ?? 0).toBeGreaterThan(requests / 20)
    expect(statuses.get(404) ?? 0).toBeGreaterThan(requests / 50)
    expect(world.log.filter(({ level }) => level === 'error')).toEqual([])
    expect(({} as { isAdmin?: unknown }).isAdmin).toBeUndefined()
    expect(await world.ask('/readyz')).toMatchObject({ status: 200 })
  },
)

async function ownPostgres(): Promise<{ store: string }> {
  const server = await startPostgres()
  onTestFinished(() => server.stop())
  return { store: await ownDatabase(server.url) }
}

function problemsOf(contract: Contract, request: HostileRequest, answer: Answer, planted: readonly string[]): string[] {
  const { status, text, headers } = answer
  const { method, template } = request
  const said = `${text}\n${Object.values(headers).join('\n')}`
  const problems: string[] = []
  if (status >= 500) problems.push('a 5xx')
  if (INSIDES.test(said)) problems.push('something of the inside')
  if (planted.some((secret) => said.includes(secret))) problems.push('a secret')
  if (method === 'HEAD' || template === STREAM) return problems
  const isDocumented = template !== null && contract.document.paths[template]?.[method.toLowerCase()] !== undefined
  if (isDocumented) problems.push(...contract.problems(method, template, answer))
  else if (status >= 400 && !headers['content-type']?.startsWith('text/html')) {
    problems.push(...contract.refusalProblems(answer))
  }
  return problems
}
