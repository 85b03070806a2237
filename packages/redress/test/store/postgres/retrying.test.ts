import { expect, test } from 'vitest'
import { retrying } from '../../../src/store/postgres/connection/retrying.ts'

const failed = (message: string, code: string) => Object.assign(new Error(message), { code })

test.each([
  ['nothing was done', () => true],
  ['the outcome is unknown', () => false],
])(
  'a call that gives up when %s names the cause of the lost connection, not the closed socket after it',
  async (_, isNothingDone) => {
    const refused = failed('connect ECONNREFUSED 127.0.0.1:1', 'ECONNREFUSED')
    const closed = failed('Socket is closed', 'ERR_SOCKET_CLOSED')
    let tries = 0
    const call = () => Promise.reject(tries++ === 0 ? refused : closed)
    const given = retrying('reading', call, isNothingDone, { patienceMs: 60, mayRepeat: true })
    await expect(given).rejects.toMatchObject({ code: 'STORE_UNREACHABLE', cause: refused })
    expect(tries).toBeGreaterThan(1)
  },
)
