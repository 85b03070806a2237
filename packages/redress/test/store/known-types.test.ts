import { expect, test } from 'vitest'
import { policy as fullPolicy } from '../../src/core/policy/policy.ts'
import { openTypes } from '../../src/store/scripts/jobs/types.ts'
import type { Tx } from '../../src/store/scripts/tx/context.ts'
import { awaiting } from '../../src/store/scripts/tx/script.ts'

const policy = JSON.stringify(fullPolicy())

/** A connection whose answers come when the test says so: the types of a store at one version. */
function openQuestions() {
  const open: ((version: number) => void)[] = []
  const tx = {
    *all() {
      const rows: object[] = yield new Promise((resolve) => {
        open.push((version) =>
          resolve([
            {
              key: 1,
              name: 'any',
              queue: `of version ${version}`,
              policy,
              stuck_after: null,
              registered_at: 0,
              version,
            },
          ]),
        )
      })
      return rows
    },
  } as unknown as Tx
  return { open, tx }
}

const queueIn = (types: ReturnType<typeof openTypes>) => types.known()[0]?.queue

test('job types that were read earlier do not replace newer ones, in whatever order they were asked for', async () => {
  const types = openTypes()
  const { open, tx } = openQuestions()
  const asked = [awaiting(types.refresh(tx)), awaiting(types.refresh(tx))]
  // The first question reached the server after the second one.
  open[0]?.(5)
  await asked[0]
  open[1]?.(4)
  await asked[1]
  expect(queueIn(types)).toBe('of version 5')
})

test('a question for job types that is answered late brings what no other answer had', async () => {
  const types = openTypes()
  const { open, tx } = openQuestions()
  const asked = [awaiting(types.refresh(tx)), awaiting(types.refresh(tx))]
  open[1]?.(4)
  await asked[1]
  open[0]?.(5)
  await asked[0]
  expect(queueIn(types)).toBe('of version 5')
})

test('job types follow a store that went back to an earlier version', async () => {
  const types = openTypes()
  const { open, tx } = openQuestions()
  for (const version of [5, 4]) {
    const asked = awaiting(types.refresh(tx))
    open.shift()?.(version)
    await asked
  }
  expect(queueIn(types)).toBe('of version 4')
})
