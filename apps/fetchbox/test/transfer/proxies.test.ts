import { writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { FetchFailure } from '../../src/failures/failure.ts'
import { Proxies, type ProxyUse, parseProxies, readProxies } from '../../src/transfer/proxies.ts'

let nowMs = 0
beforeEach(() => {
  nowMs = 1_000_000
})

const url = (n: number): string => `http://user:hunter2@127.0.0.1:${9000 + n}`

function pools(...tiers: number[]): Proxies {
  const given = tiers.map((count, i) => [
    { pool: `proxies/tier-${i + 1}`, urls: Array.from({ length: count }, (_, n) => url(10 * i + n)) },
  ])
  return new Proxies(given, { nowMs: () => nowMs, failuresMax: 2, cooldownMs: 1000, cooldownMsMax: 4000 })
}

function fail(proxies: Proxies, name: string): void {
  // Others that come up meanwhile say nothing about themselves.
  for (let i = 0; i < 50; i++) {
    const use = proxies.take()
    if (use.name === name) {
      use.failed('down')
      return
    }
    use.undecided()
  }
  throw new Error(`${name} never came up`)
}

function takeOut(proxies: Proxies, ...names: string[]): void {
  for (const name of names) for (let i = 0; i < 2; i++) fail(proxies, name)
}

function exhausted(proxies: Proxies): FetchFailure {
  try {
    proxies.take()
  } catch (error) {
    if (error instanceof FetchFailure) return error
    throw error
  }
  throw new Error('there was a proxy')
}

const stateOf = (proxies: Proxies, name: string) => proxies.snapshot().find((proxy) => proxy.name === name)

describe('rotation', () => {
  test('proxies of the first tier take turns before the next tier is used [F8]', () => {
    const proxies = pools(3, 2)
    const names = Array.from({ length: 6 }, () => {
      const use = proxies.take()
      use.worked()
      return use.name
    })
    const round = ['proxies/tier-1#1', 'proxies/tier-1#2', 'proxies/tier-1#3']
    expect(names).toEqual([...round, ...round])
  })

  test('a task does not get the proxy of its last try while another one is usable [F8]', () => {
    const proxies = pools(2)
    let last: ProxyUse = proxies.take()
    for (let i = 0; i < 20; i++) {
      for (let others = 0; others < i % 3; others++) proxies.take().worked()
      const next = proxies.take(last.name)
      expect(next.name).not.toBe(last.name)
      last = next
    }
  })

  test('a retry moves to the next tier rather than reuse the same proxy [F8]', () => {
    const proxies = pools(1, 1)
    expect(proxies.take('proxies/tier-1#1').name).toBe('proxies/tier-2#1')
    expect(proxies.take().name).toBe('proxies/tier-1#1')
  })

  test('the only proxy there is goes again', () => {
    const proxies = pools(1)
    expect(proxies.take('proxies/tier-1#1').name).toBe('proxies/tier-1#1')
  })

  test('a tier without a healthy proxy hands over to the next, until one is back', () => {
    const proxies = pools(2, 1)
    takeOut(proxies, 'proxies/tier-1#1', 'proxies/tier-1#2')
    expect(proxies.take().name).toBe('proxies/tier-2#1')
    nowMs += 1000
    expect(proxies.take().name).toMatch(/^proxies\/tier-1#/)
  })
})

describe('health', () => {
  test('a proxy is out after so many failures in a row, and a success between them begins anew', () => {
    const proxies = pools(1)
    proxies.take().failed('refused')
    proxies.take().worked()
    proxies.take().failed('refused')
    expect(stateOf(proxies, 'proxies/tier-1#1')).toMatchObject({ state: 'healthy', failuresInRow: 1 })
    proxies.take().failed('answered 407')
    expect(stateOf(proxies, 'proxies/tier-1#1')).toEqual({
      name: 'proxies/tier-1#1',
      tier: 1,
      state: 'out',
      failuresInRow: 2,
      outUntilMs: nowMs + 1000,
      uses: 4,
      failures: 3,
      lastFailure: 'answered 407',
    })
  })

  test('an origin that no proxy can reach takes none of them out; several such origins do', () => {
    const proxies = pools(1)
    for (let i = 0; i < 10; i++) proxies.take().failed('answered 502', 'dead.example')
    expect(stateOf(proxies, 'proxies/tier-1#1')?.state).toBe('healthy')
    proxies.take().failed('answered 502', 'other.example')
    expect(stateOf(proxies, 'proxies/tier-1#1')?.state).toBe('out')
  })

  test('an origin that was reached in between counts anew', () => {
    const proxies = pools(1)
    proxies.take().failed('answered 502', 'dead.example')
    proxies.take().worked()
    proxies.take().failed('answered 502', 'dead.example')
    proxies.take().failed('answered 502', 'other.example')
    expect(stateOf(proxies, 'proxies/tier-1#1')?.state).toBe('out')
  })

  test('after its time out of use, one probe is sent, and other requests wait for its result', () => {
    const proxies = pools(1, 1)
    takeOut(proxies, 'proxies/tier-1#1')
    nowMs += 1000
    const probe = proxies.take()
    expect(probe.name).toBe('proxies/tier-1#1')
    expect(stateOf(proxies, 'proxies/tier-1#1')?.state).toBe('probing')
    expect([proxies.take().name, proxies.take().name]).toEqual(['proxies/tier-2#1', 'proxies/tier-2#1'])
    probe.worked()
    expect(stateOf(proxies, 'proxies/tier-1#1')).toMatchObject({ state: 'healthy', outUntilMs: null })
    expect(proxies.take().name).toBe('proxies/tier-1#1')
  })

  test('while the last proxy is probed, other tasks wait and use up no try [F8]', async () => {
    const proxies = pools(1)
    takeOut(proxies, 'proxies/tier-1#1')
    nowMs += 1000
    const [probe, { signal }] = [proxies.take(), new AbortController()]
    const waiting = Array.from({ length: 50 }, () => proxies.next(null, signal))
    probe.worked()
    for (const use of await Promise.all(waiting)) expect(use.name).toBe('proxies/tier-1#1')

    takeOut(proxies, 'proxies/tier-1#1')
    nowMs += 1000
    const second = proxies.take()
    const inVain = proxies.next(null, signal)
    const stopped = new AbortController()
    const cancelled = proxies.next(null, stopped.signal)
    stopped.abort(new Error('no longer wanted'))
    await expect(cancelled).rejects.toThrow('no longer wanted')
    second.failed('still down')
    await expect(inVain).rejects.toMatchObject({ code: 'DOWNLOAD_PROXY_EXHAUSTED', retryAfterMs: 2000 })

    nowMs += 2000
    const third = proxies.take()
    const next = proxies.next(null, signal)
    third.undecided()
    expect((await next).name).toBe('proxies/tier-1#1')
  })

  test('each probe that fails doubles the wait up to its bound, and a success makes it short again', () => {
    const proxies = pools(1)
    takeOut(proxies, 'proxies/tier-1#1')
    const waits: number[] = []
    for (let i = 0; i < 4; i++) {
      const wait = exhausted(proxies).retryAfterMs ?? 0
      waits.push(wait)
      nowMs += wait - 1
      expect(exhausted(proxies).retryAfterMs).toBe(1)
      nowMs += 1
      proxies.take().failed('still down')
    }
    expect(waits).toEqual([1000, 2000, 4000, 4000])
    nowMs += 4000
    proxies.take().worked()
    takeOut(proxies, 'proxies/tier-1#1')
    expect(exhausted(proxies).retryAfterMs).toBe(1000)
  })

  test('changes of a proxy are reported: out of use, still out of use, and back', () => {
    const told: string[] = []
    const proxies = new Proxies([[{ pool: 'p', urls: [url(1)] }]], {
      ...{ nowMs: () => nowMs, failuresMax: 2, cooldownMs: 1000 },
      onChange: (proxy) => told.push(`${proxy.name} ${proxy.state} ${JSON.stringify(proxy).includes('hunter2')}`),
    })
    proxies.take().worked()
    proxies.take().failed('down')
    expect(told).toEqual([])
    proxies.take().failed('down')
    nowMs += 1000
    proxies.take().failed('still down')
    nowMs += 2000
    proxies.take().worked()
    expect(told).toEqual(['p#1 out false', 'p#1 out false', 'p#1 healthy false'])
  })

  test('a probe that was stopped leaves the proxy to the next one', () => {
    const proxies = pools(1)
    takeOut(proxies, 'proxies/tier-1#1')
    nowMs += 1000
    proxies.take().undecided()
    expect(proxies.take().name).toBe('proxies/tier-1#1')
  })

  test('requests that began before a proxy was taken out of use do not change its state', () => {
    const proxies = pools(1)
    const early = [proxies.take(), proxies.take()]
    takeOut(proxies, 'proxies/tier-1#1')
    nowMs += 400
    early[0]?.worked()
    early[1]?.failed('late')
    expect(stateOf(proxies, 'proxies/tier-1#1')).toMatchObject({ state: 'out', outUntilMs: nowMs + 600 })
  })

  test('a use counts once, whatever is said of it later', () => {
    const proxies = pools(1)
    const use = proxies.take()
    for (let i = 0; i < 5; i++) use.failed('down')
    expect(stateOf(proxies, 'proxies/tier-1#1')).toMatchObject({ state: 'healthy', failures: 1 })
  })

  test('no usable proxy in any tier is DOWNLOAD_PROXY_EXHAUSTED with the time until one is back [F3]', () => {
    const proxies = pools(1, 1)
    takeOut(proxies, 'proxies/tier-1#1')
    nowMs += 400
    takeOut(proxies, 'proxies/tier-2#1')
    expect(exhausted(proxies)).toMatchObject({
      code: 'DOWNLOAD_PROXY_EXHAUSTED',
      retryAfterMs: 600,
      context: { proxy: null, status: null },
    })
  })

  test('the proxy states contain no passwords', () => {
    const proxies = pools(2, 2)
    takeOut(proxies, 'proxies/tier-1#2')
    expect(JSON.stringify(proxies.snapshot())).not.toMatch(/hunter2|user:/)
    expect(proxies.snapshot()).toHaveLength(4)
  })
})

describe('the file', () => {
  test('has tiers of pools of URLs', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'redress-proxies-'))
    onTestFinished(() => rm(folder, { recursive: true }))
    const tiers = [[{ pool: 'proxies/eu-primary', urls: [url(1)] }]]
    writeFileSync(join(folder, 'proxies.json'), JSON.stringify({ tiers }))
    expect(await readProxies(join(folder, 'proxies.json'))).toEqual(tiers)
    await expect(readProxies(join(folder, 'none.json'))).rejects.toMatchObject({ code: 'OPTION_INVALID' })
  })

  test('names every mistake and repeats no password', () => {
    const text = JSON.stringify({
      tiers: [
        [
          { pool: 'a', urls: ['socks5://user:hunter2@host:1', url(1)] },
          { pool: 'a', urls: [] },
        ],
        [],
        [{ pool: 'a b', urls: ['http://user:hunter2@host:1/path'] }, null],
      ],
    })
    let problems: readonly string[] = []
    try {
      parseProxies(text)
    } catch (error) {
      problems = (error as { problems: string[] }).problems
      expect((error as Error).message).not.toContain('hunter2')
    }
    expect(problems.map((problem) => problem.split(' ')[0])).toEqual([
      'tiers[0][0].urls[0]',
      'tiers[0][1].pool:',
      'tiers[0][1].urls',
      'tiers[1]',
      'tiers[2][0].pool',
      'tiers[2][0].urls[0]',
      'tiers[2][1].pool',
      'tiers[2][1].urls',
    ])
  })

  test.each(['{', '[]', 'null', '{"tiers":{}}', '{"tiers":[]}', '"hunter2'])('%s is refused', (text) => {
    expect(() => parseProxies(text)).toThrow(/The file of proxies is not valid/)
    expect(() => parseProxies(text)).not.toThrow(/hunter2/)
  })
})
